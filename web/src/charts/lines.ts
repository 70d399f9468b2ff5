// A quantity over a parameter: a line per kind of case and run.

import * as Plot from '@observablehq/plot';
import type { Contents, Document } from '../contents';
import { letter } from '../contents';
import { isSize } from '../parameters';
import type { Axis } from './axes';
import { LOOKS, across, parameterAxis, scale, upright, valueAxis } from './axes';
import { drawLegend, legend, widthOf } from './legend';
import { limitMarks, limitsOf } from './limits';
import { GLYPHS, HALO, LINE, MEASURED, PLACE, apart, colour, filled } from './marks';
import { near, predictions, ranges, ticks } from './marks';
import type { Point, Points } from './drawn';
import type { LineSpec } from './specs';
import { diamonds, entries, joined } from './under';

/** Line styles of runs, to distinguish them without colour. */
const DASHES = ['none', '5 3', '1.5 3', '8 3 1.5 3', '12 3', '3 6'];
const SYMBOLS = ['circle', 'square', 'triangle', 'diamond', 'times', 'star'] as const;
/** Narrower panels are stacked. */
const PANEL = 300;
/** The axis is logarithmic if an interval exceeds the values by more than this factor. */
const WIDE = 3;
/** And if the highest point of a line exceeds that of another by more than this factor. */
const APART = 20;
/** Labels that need more of a panel than this share are drawn above it. */
const NAMES = 0.3;
/** Room for the label of a tick. */
const TICK = 46;
/** Room for the labels of the value axis. */
const LEFT = 76;
/** Room for the name of the value axis. */
const NAME = 14;

/** The data caches of the measured CPU, to mark their sizes. */
function caches(document: Document | undefined): { size: number; name: string }[] {
  const all = document?.host.cpu.caches ?? [];
  const data = all.filter((cache) => cache.kind !== 'instruction');
  return data.map((cache) => ({ size: cache.size_bytes, name: `L${cache.level}` }));
}

interface Setting {
  points: Points;
  series: string[];
  /** The runs with points in this chart. */
  runs: number[];
}

/** The label of a point's line; empty if there is only one line. */
function nameIn({ series, runs }: Setting, point: Point): string {
  const parts = [runs.length > 1 && letter(point.run), series.length > 1 && point.series];
  return parts.filter(Boolean).join(' ');
}

/** The last point of each line, where its label is drawn. */
function ends(setting: Setting): { point: Point; name: string }[] {
  const last = new Map<string, Point>();
  for (const point of setting.points.drawn) {
    const key = [point.panel, point.series, point.run].join('\n');
    const other = last.get(key);
    if (other === undefined || point.x > other.x) last.set(key, point);
  }
  return [...last.values()].map((point) => ({ point, name: nameIn(setting, point) }));
}

/** Whether another line of the panel goes on where that of a point ends. */
const endsEarly = (last: Point, { drawn }: Points): boolean =>
  drawn.some(({ panel, x }) => panel === last.panel && x > last.x);

function lines({ points, runs }: Setting, ink: (point: Point) => string): Plot.Markish[] {
  return runs.map((run) =>
    Plot.line(
      points.drawn.filter((point) => point.run === run).sort((a, b) => a.x - b.x),
      {
        ...PLACE,
        z: 'series',
        stroke: ink,
        strokeWidth: 1.5,
        strokeDasharray: DASHES[run % DASHES.length] ?? 'none',
        className: 'lines',
      },
    ),
  );
}

/** The least-squares line through the points of each line. */
function fits({ points, runs }: Setting, ink: (point: Point) => string): Plot.Markish[] {
  return runs.map((run) =>
    Plot.linearRegressionY(
      points.drawn.filter((point) => point.run === run),
      {
        ...PLACE,
        z: 'series',
        stroke: ink,
        strokeDasharray: '6 4',
        strokeOpacity: 0.7,
        ci: 0,
        className: 'fits',
      },
    ),
  );
}

function dots({ points, runs }: Setting, ink: (point: Point) => string): Plot.Markish[] {
  return runs.map((run) => {
    const own = points.drawn.filter((point) => point.run === run);
    return Plot.dot(own, {
      ...PLACE,
      ...MEASURED,
      stroke: ink,
      fill: (point: Point) => filled(point, ink(point)),
      r: 3,
      symbol: SYMBOLS[run % SYMBOLS.length] ?? 'circle',
    });
  });
}

function predicted({ points }: Setting, ink: (point: Point) => string): Plot.Markish[] {
  type At = { point: Point };
  const place = {
    x: ({ point }: At) => point.x,
    fx: ({ point }: At) => point.panel,
    stroke: ({ point }: At) => ink(point),
  };
  const range = { ...place, y1: 'low', y2: 'high', strokeWidth: 7, strokeOpacity: 0.18 };
  const at = near(predictions(points.drawn), points.drawn);
  return [
    Plot.ruleX(ranges(points.drawn), { ...range, className: 'predicted-ranges' }),
    ...ticks(at, { ...place, y: 'at', strokeOpacity: 0.75, className: 'predictions' }),
  ];
}

function names(setting: Setting, ink: (point: Point) => string): Plot.Markish {
  type End = { point: Point };
  return Plot.text(ends(setting), {
    x: ({ point }: End) => point.x,
    y: ({ point }: End) => point.y,
    fx: ({ point }: End) => point.panel,
    fill: ({ point }: End) => ink(point),
    text: 'name',
    textAnchor: 'start',
    dx: 12,
    fontWeight: 600,
    ...HALO,
    className: 'names',
    render: apart(LINE),
  });
}

function marked(setting: Setting, contents: Contents, top: number): Plot.Markish[] {
  const all = setting.points.drawn.map(({ x }) => x);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const inside = caches(contents.documents[0]).filter(({ size }) => size > low && size < high);
  return [
    Plot.ruleX(inside, { x: 'size', stroke: 'var(--line)', className: 'caches' }),
    Plot.text(inside, {
      x: 'size',
      y: top,
      text: 'name',
      dy: -7,
      fill: 'var(--faint)',
      ...HALO,
      className: 'names-of-caches',
    }),
  ];
}

/** Panels in the order of the records; on a narrow page each is a chart of its own. */
export function drawLines(
  spec: LineSpec,
  points: Points,
  contents: Contents,
  width: number,
): SVGSVGElement[] {
  const panels = [...new Set(points.drawn.map((point) => point.panel))];
  if (panels.length > 1 && width < PANEL * panels.length) {
    return panels.map((only) => {
      const drawn = points.drawn.filter((point) => point.panel === only);
      const under = points.under.filter((figure) => figure.panel === only);
      return drawPanels(spec, { ...points, drawn, under }, contents, width, [only]);
    });
  }
  return [drawPanels(spec, points, contents, width, panels)];
}

const percentTick = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;

/** The value axis, which includes all predictions that are drawn. */
function valuesOf(
  { drawn, under, unit }: Points,
  spec: LineSpec,
  more: number[],
  pixels: number,
): Axis {
  const values = [
    ...drawn.flatMap((point) => [point.y, point.low, point.high]),
    ...under.map((figure) => figure.y),
    ...more,
    ...near(predictions(drawn), drawn).map(({ at }) => at),
    ...ranges(drawn).flatMap(({ low, high }) => [low, high]),
  ];
  const top = Math.max(...drawn.map((point) => point.y));
  const peaks = new Map<string, number>();
  for (const { series, y } of drawn) peaks.set(series, Math.max(y, peaks.get(series) ?? y));
  const apart = unit !== 'ratio' && top > APART * Math.min(...peaks.values());
  const log = spec.yLog === true || apart || Math.max(...values) > WIDE * top;
  const axis = valueAxis(values, unit, log, pixels);
  return spec.parts && unit === 'ratio' ? { ...axis, tickFormat: percentTick } : axis;
}

function drawPanels(
  spec: LineSpec,
  points: Points,
  contents: Contents,
  width: number,
  panels: string[],
): SVGSVGElement {
  const series = [...new Set(points.drawn.map((point) => point.series))];
  const runs = [...new Set(points.drawn.map((point) => point.run))];
  const setting = { points, series, runs };
  const ink = (point: Point): string => colour(series.indexOf(point.series));
  const step = (width - LEFT) / panels.length;
  const longest = Math.max(...ends(setting).map(({ name }) => widthOf(name)));
  // A label at the end of a line that ends early would be within the lines of others.
  const early = ends(setting).some(({ point }) => endsEarly(point, points));
  const tight = early || longest > step * NAMES;
  const own = ends(setting).map(({ name, point }) => {
    return { name, glyph: GLYPHS[point.run % GLYPHS.length] ?? '', ink: ink(point) };
  });
  const above = legend([...(tight ? own : []), ...entries(contents, points.under)], width, NAME);
  // Labels are drawn beside the lines of every panel, or above all of them. In the latter case the
  // last tick label of a panel must not overlap the first of the next.
  const room = tight ? (panels.length > 1 ? TICK : 16) : longest + 20;
  const head = above.height + (spec.panel === undefined ? 14 : 30);
  const height = (spec.wide && width > 700 ? 370 : 290) + head;
  const limits = spec.limits ? limitsOf(contents, points.drawn) : null;
  const levels = limits ? [...limits.capacities, ...limits.saturations].map((one) => one.y) : [];
  const y = valuesOf(points, spec, levels, height - head - 44);
  // Of records without a number too: all panels have the same axis.
  const positions = points.all.map(({ record }) => Number(record.params[spec.x]));
  const values = [...positions, ...points.under.map((figure) => figure.x)];
  const x = parameterAxis(values, spec.xScale, isSize(spec.x), step - room);
  const facets: Plot.ScaleOptions = {
    axis: 'top',
    label: null,
    paddingInner: room / step,
    paddingOuter: 0,
    domain: panels,
  };
  const plot = Plot.plot({
    width,
    height,
    marginLeft: LEFT,
    marginRight: room,
    marginTop: head,
    marginBottom: 44,
    ...LOOKS,
    x: scale(x),
    y: scale(y),
    fx: spec.panel === undefined ? { axis: null, padding: 0 } : facets,
    marks: [
      ...upright(y, points.unit, spec.yLabel),
      across(x, {
        label: spec.xLabel,
        labelAnchor: 'center',
        labelArrow: 'none',
        labelOffset: 38,
        tickSize: 4,
      }),
      ...(spec.caches ? marked(setting, contents, y.domain.at(-1) ?? 1) : []),
      ...(limits ? limitMarks(limits, y.domain[0] ?? 0, ink) : []),
      joined(points.under),
      diamonds(points.under, PLACE),
      ...predicted(setting, ink),
      ...(spec.fitted ? fits(setting, ink) : []),
      ...lines(setting, ink),
      Plot.ruleX(points.drawn, {
        x: 'x',
        y1: 'low',
        y2: 'high',
        fx: 'panel',
        stroke: ink,
        strokeWidth: 1.25,
        className: 'intervals',
      }),
      ...dots(setting, ink),
      tight ? null : names(setting, ink),
    ],
  }) as SVGSVGElement;
  if (above.items.length > 0) plot.append(drawLegend(above.items));
  return plot;
}
