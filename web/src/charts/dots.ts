// A row per case: its value with its interval, and the prediction.

import * as Plot from '@observablehq/plot';
import type { Contents } from '../contents';
import { factsOf, letter, valueText } from '../contents';
import { LOOKS, across, scale, valueAxis, valueLabel } from './axes';
import { drawLegend, legend } from './legend';
import { MEASURED, colour, filled, near, predictions, ranges, ticks } from './marks';
import type { Point, Points, Under } from './drawn';
import { LETTER, rows } from './rows';
import { diamonds, entries } from './under';

const ROW = 26;
/** The axis is logarithmic from this ratio of the largest to the smallest value. */
const RATIO = 8;

/** `fact`: what is printed with the values beside the rows. */
export function drawDots(
  points: Points,
  contents: Contents,
  width: number,
  fact?: string,
): SVGSVGElement[] {
  const several = new Set(points.drawn.map((point) => point.run)).size > 1;
  const order = [...new Set(points.drawn.map((point) => point.series))];
  const all = [...points.drawn].sort(
    (a, b) => order.indexOf(a.series) - order.indexOf(b.series) || a.run - b.run,
  );
  const panels = new Set(points.drawn.map((point) => point.panel)).size > 1;
  const names = all.map(({ panel, series, run }) =>
    [panels && `${panel}:`, series, several && letter(run)].filter(Boolean).join(' '),
  );
  const { left, height, scale: y, marks } = rows(names, width, ROW);
  const text = ({ record, document }: Point): string =>
    [valueText(record, document.run), ...factsOf(record, fact)].join(', ');
  const texts = fact === undefined ? [] : all.map(text);
  const right = 26 + LETTER * Math.max(0, ...texts.map(({ length }) => length));
  const ink = (point: Point): string => colour(point.run);
  const row = (point: Point): number => all.indexOf(point);
  type At = { point: Point };
  const place = { y: ({ point }: At) => row(point), stroke: ({ point }: At) => ink(point) };
  const predicted = near(predictions(all), all);
  const bands = ranges(all);
  const values = [
    ...all.flatMap((point) => [point.y, point.low, point.high]),
    ...points.under.map((figure) => figure.y),
    ...predicted.map(({ at }) => at),
    ...bands.flatMap(({ low, high }) => [low, high]),
  ];
  const bottom = Math.min(...values);
  const log = bottom > 0 && Math.max(...values) / bottom > RATIO;
  // A number is wider than high: fewer ticks than on a vertical axis.
  const axis = valueAxis(values, points.unit, log, (width - left - right + 26) * 0.55);
  const range = { ...place, x1: 'low', x2: 'high', strokeWidth: 9, strokeOpacity: 0.18 };
  const above = legend(entries(contents, points.under), width);
  const plot = Plot.plot({
    width,
    height: height + 58 + above.height,
    marginLeft: left,
    marginRight: right,
    marginTop: 40 + above.height,
    marginBottom: 18,
    ...LOOKS,
    x: scale(axis),
    y,
    marks: [
      Plot.gridX(axis.ticks, {}),
      across(axis, valueLabel(points.unit)),
      Plot.text(texts, {
        y: (_, at) => at,
        text: (text: string) => text,
        frameAnchor: 'right',
        textAnchor: 'start',
        dx: 14,
        fill: 'currentColor',
        className: 'values',
      }),
      diamonds(points.under, { x: 'y', y: ({ beside }: Under) => beside && row(beside) }),
      Plot.ruleY(bands, { ...range, className: 'predicted-ranges' }),
      ...ticks(predicted, { ...place, x: 'at', className: 'predictions' }, true),
      Plot.ruleY(all, {
        y: row,
        x1: 'low',
        x2: 'high',
        stroke: ink,
        strokeWidth: 1.25,
        className: 'intervals',
      }),
      ...marks,
      Plot.dot(all, {
        x: 'y',
        y: row,
        stroke: ink,
        fill: (point: Point) => filled(point, ink(point)),
        r: 3.5,
        ...MEASURED,
      }),
    ],
  });
  if (above.items.length > 0) plot.append(drawLegend(above.items));
  return [plot as SVGSVGElement];
}
