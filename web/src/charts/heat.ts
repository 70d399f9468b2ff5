// Response times over time: a heat map for each step of a load.

import * as Plot from '@observablehq/plot';
import type { Contents, Result, Unit } from '../contents';
import { assignments, letter } from '../contents';
import { parametersText } from '../parameters';
import { quantity, range } from '../quantity';
import type { Axis } from './axes';
import { LOOKS, across, parameterAxis, scale, upright, valueAxis } from './axes';
import { figure } from './figure';
import { colour } from './marks';
import { silentOf } from './pauses';
import type { Point, Points } from './drawn';
import type { HeatSpec } from './specs';

/** Steps drawn at most: the first, the last, and some between. */
const STEPS_MAX = 6;
const HEIGHT = 200;
/** Pauses between sweeps are drawn as wide as this many slices. */
const PAUSE = 0.6;

type HeatMap = NonNullable<Result['heat_map']>;

/** A slice of time, on an axis of measured time. */
interface Slice {
  from: number;
  to: number;
  /** The first one after a pause, in which other steps were measured. */
  first: boolean;
  counts: number[];
  responses: number;
}

/** A step with its heat map. */
interface Step {
  point: Point;
  map: HeatMap;
  name: string;
  unit: Unit;
}

interface Cell {
  slice: Slice;
  low: number;
  high: number;
  count: number;
}

const seconds = (ns: number): string => quantity(ns, 'ns', 3);

function slicesOf({ starts_ns: starts, lengths_ns: lengths, counts }: HeatMap): Slice[] {
  let [at, end] = [0, -1];
  return starts.map((start, index) => {
    const length = lengths[index] ?? 0;
    const first = end >= 0 && start > end + length / 2;
    const from = at + (first ? PAUSE * length : 0);
    at = from + length;
    end = start + length;
    const own = counts[index] ?? [];
    const responses = own.reduce((sum, count) => sum + count, 0);
    return { from, to: at, first, counts: own, responses };
  });
}

const cellsOf = (slices: Slice[], { limits }: HeatMap): Cell[] =>
  slices.flatMap((slice) =>
    slice.counts.flatMap((count, row): Cell[] => {
      const [low, high] = [limits[row], limits[row + 1]];
      return count > 0 && low !== undefined && high !== undefined
        ? [{ slice, low, high, count }]
        : [];
    }),
  );

function cellText({ slice, low, high, count }: Cell, unit: Unit): string {
  const share = ((100 * count) / slice.responses).toPrecision(2);
  const when = range(slice.from, slice.to, 'ns');
  const part = `${count} of ${slice.responses} responses (${Number(share)} %)`;
  return `${when}: ${part} took ${range(low, high, unit)}`;
}

function draw({ map, unit, name }: Step, y: Axis, last: boolean, width: number): SVGSVGElement {
  const slices = slicesOf(map);
  const cells = cellsOf(slices, map);
  const most = Math.max(...cells.map(({ count }) => count));
  const ends = slices.flatMap(({ from, to }) => [from, to]).map((ns) => ns / 1e9);
  const tickFormat = (value: number): string => String(Number(value.toPrecision(3)));
  const x = { ...parameterAxis(ends, undefined, false, width), tickFormat };
  // Rare ones are seen too.
  const shade = ({ count }: Cell): number => 0.15 + (0.85 * Math.log1p(count)) / Math.log1p(most);
  const silent = silentOf(slices);
  const placed = {
    x1: ({ slice }: Cell) => slice.from / 1e9,
    x2: ({ slice }: Cell) => slice.to / 1e9,
  };
  const pause = ({ from, to }: Slice): number => (from - (PAUSE * (to - from)) / 2) / 1e9;
  const within = {
    x1: ({ from }: Slice) => from / 1e9,
    x2: ({ to }: Slice) => to / 1e9,
    y1: Math.min(...y.domain),
    y2: Math.max(...y.domain),
  };
  return Plot.plot({
    width,
    height: last ? HEIGHT : HEIGHT - 20,
    marginLeft: 60,
    marginTop: 28,
    marginBottom: last ? 50 : 30,
    ...LOOKS,
    x: { ...scale(x), domain: [0, Math.max(...ends)] },
    y: scale(y),
    marks: [
      ...upright(y, unit),
      across(x, {
        label: last ? 'measured time of the step, s' : null,
        labelArrow: 'none',
        labelAnchor: 'center',
      }),
      Plot.text([name], { frameAnchor: 'top', dy: -24, className: 'names', fontWeight: 600 }),
      Plot.rect(silent, {
        ...within,
        fill: 'var(--bad)',
        fillOpacity: 0.25,
        className: 'silent',
        title: ({ from, to }: Slice) => `${range(from, to, 'ns')}: no response`,
        tip: true,
      }),
      Plot.rect(cells, {
        ...placed,
        y1: 'low',
        y2: 'high',
        fill: colour(0),
        fillOpacity: shade,
        className: 'heat',
        title: (cell: Cell) => cellText(cell, unit),
        tip: true,
      }),
      Plot.ruleX(
        slices.filter(({ first }) => first),
        { x: pause, stroke: 'var(--faint)', strokeDasharray: '2 3', className: 'pauses' },
      ),
    ],
  }) as SVGSVGElement;
}

/** The most frequent and the longest time of a slice, by the rows that have them. */
function rowOf(slice: Slice, { limits }: HeatMap, unit: Unit): string[] {
  const rows = slice.counts.flatMap((count, row) => (count > 0 ? [row] : []));
  const text = (row: number | undefined): string =>
    row === undefined ? '' : range(limits[row], limits[row + 1], unit);
  const common = rows.reduce<number | undefined>(
    (best, row) =>
      best === undefined || (slice.counts[row] ?? 0) > (slice.counts[best] ?? 0) ? row : best,
    undefined,
  );
  return [seconds(slice.from), String(slice.responses), text(common), text(rows.at(-1))];
}

/** Some of many steps. */
function chosen(points: Point[]): Point[] {
  const gaps = Math.min(points.length, STEPS_MAX) - 1;
  const step = (points.length - 1) / Math.max(1, gaps);
  const at = (index: number): number => Math.round(index * step);
  return [...new Set(Array.from({ length: gaps + 1 }, (_, index) => at(index)))].flatMap(
    (index) => points[index] ?? [],
  );
}

/** `null` without a step that has a heat map, such as in an older run. */
export function heat(spec: HeatSpec, points: Points, contents: Contents): HTMLElement | null {
  const has = ({ heat_map: map }: Result): boolean =>
    map != null && map.counts.length > 0 && map.limits.length > 1;
  const all = points.drawn.filter(({ record }) => has(record));
  if (all.length === 0) return null;
  const several = contents.documents.length > 1;
  const nameOf = ({ run, record }: Point): string =>
    `${several ? `${letter(run)}: ` : ''}${parametersText(record.params)}`;
  const some = chosen(all);
  const of = all.flatMap((point): Step[] => {
    const map = point.record.heat_map;
    return map ? [{ point, map, name: nameOf(point), unit: point.record.unit }] : [];
  });
  const drawn = of.filter(({ point }) => some.includes(point));
  // One for all steps, so that they can be compared.
  const limits = drawn.flatMap(({ map }) => map.limits);
  const y = valueAxis(limits, all[0]?.record.unit ?? 'ns', true, HEIGHT - 60);
  return figure({
    ...spec,
    notes:
      some.length < all.length
        ? [`Drawn: ${some.length} of ${all.length} steps; the data below have all.`]
        : [],
    wide: true,
    draw: (width) =>
      drawn.map((step, at) => draw(step, y, at === drawn.length - 1, width)),
    csv: () => [
      'run metric params start_ns length_ns low high count'.split(' '),
      ...of.flatMap(({ point, map }) => {
        const { document, record } = point;
        const id = [document.run.id, record.metric, assignments(record.params).join(' ')];
        return map.counts.flatMap((counts, at) =>
          counts.map((count, row) => [
            ...id,
            ...[map.starts_ns[at], map.lengths_ns[at]].map(String),
            ...[map.limits[row], map.limits[row + 1], count].map(String),
          ]),
        );
      }),
    ],
    head: ['step', 'measured time', 'responses', 'most took', 'longest'],
    rows: () =>
      of.flatMap(({ map, unit, name }) =>
        slicesOf(map).map((slice) => [name, ...rowOf(slice, map, unit)]),
      ),
  });
}
