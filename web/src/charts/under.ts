// Published figures under the measured points: their positions and marks.

import * as Plot from '@observablehq/plot';
import type { Contents, Params, Published, Result } from '../contents';
import { parametersText } from '../parameters';
import { publishedOf, publishedTip, studyName } from '../published';
import type { Point, Points, Under } from './drawn';
import type { Entry } from './legend';
import { PLACE } from './marks';
import type { Wanted } from './specs';

const INK = 'var(--published)';

type Position = Pick<Under, 'panel' | 'x' | 'beside'>;

/** The positions of a figure: those of cases with the same work, else by its own parameters. */
function positionsOf(
  { params }: Published,
  same: Result[],
  drawn: Point[],
  wanted: Wanted,
  panelOf: (params: Params) => string,
): Position[] {
  const { x, panel } = wanted;
  if (x === undefined) {
    const own = drawn.filter(({ record }) => same.includes(record));
    return own.map((beside) => ({ panel: beside.panel, x: 0, beside }));
  }
  const panels = new Set(drawn.map((point) => point.panel));
  // A figure without the panel's parameter can belong to any panel.
  const anywhere = same.length === 0 && panel?.some((name) => !(name in params)) === true;
  const cases = same.length > 0 ? same.map((record) => record.params) : [params];
  const positions = cases.flatMap((of) =>
    (anywhere ? [...panels] : [panelOf(of)]).map((name) => {
      return { panel: name, x: Number(of[x]), beside: null };
    }),
  );
  const fit = positions.filter((one) => panels.has(one.panel) && Number.isFinite(one.x));
  return [...new Map(fit.map((position) => [JSON.stringify(position), position])).values()];
}

/** The figures of a chart: same work as one of its cases, or further points of its metrics. */
export function underOf(
  contents: Contents,
  wanted: Wanted,
  { all, drawn }: Pick<Points, 'all' | 'drawn'>,
  panelOf: (params: Params) => string,
): Under[] {
  const unit = all[0]?.record.unit;
  const like = new Map<Published, Result[]>();
  for (const { run, record } of all) {
    for (const figure of publishedOf(contents, run, record))
      like.set(figure, [...(like.get(figure) ?? []), record]);
  }
  const more = ({ metric, params }: Published): boolean =>
    wanted.metrics.includes(metric) && (wanted.only === undefined || wanted.only(params));
  return (contents.study?.figures ?? []).flatMap((figure): Under[] => {
    const { metric, params, measured: y } = figure;
    const same = like.get(figure);
    if (typeof y !== 'number' || figure.unit !== unit || !(same ?? more(figure))) return [];
    const except = [wanted.x, ...(wanted.panel ?? [])];
    const kind = parametersText(params, (name) => !except.includes(name));
    const series = `${metric} ${kind}`;
    const title = publishedTip(contents, figure);
    const positions = positionsOf(figure, same ?? [], drawn, wanted, panelOf);
    return positions.map((position) => ({ figure, series, title, y, ...position }));
  });
}

/** The legend entry of published figures. */
export const entries = (contents: Contents, under: Under[]): Entry[] =>
  under.length === 0 ? [] : [{ name: studyName(contents), glyph: '◆', ink: 'var(--faint)' }];

/** Lines between the figures of a series. */
export function joined(under: Under[]): Plot.Markish {
  return Plot.line(
    [...under].sort((a, b) => a.x - b.x),
    {
      ...PLACE,
      z: 'series',
      stroke: INK,
      strokeWidth: 1,
      strokeDasharray: '4 3',
      className: 'published-lines',
    },
  );
}

export function diamonds(under: Under[], place: Plot.DotOptions): Plot.Markish {
  return Plot.dot(under, {
    ...place,
    symbol: 'diamond',
    r: 3.5,
    fill: INK,
    stroke: INK,
    className: 'published',
    title: 'title',
    tip: { maxRadius: 24 },
  });
}
