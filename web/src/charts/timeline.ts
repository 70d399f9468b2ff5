// The values of a case over its runs: a point and an interval a run, each a link to it, and the
// mean between the change points.

import * as Plot from '@observablehq/plot';
import type { Params, Unit } from '../contents';
import { toRun } from '../links';
import { quantity } from '../quantity';
import { minute } from '../runs';
import { LOOKS, closeAxis, scale, upright } from './axes';

/** A case in one run. */
export interface Point {
  run: string;
  label?: string;
  started: string;
  value: number | null;
  /** In another state of the core than the series. */
  slow: boolean;
  interval: [number, number] | null;
  bound: number | null;
  state: string;
  cut_short: boolean;
}

export interface Change {
  /** The first run after the change. */
  run: string;
  started: string;
  after_run: string;
  before: number;
  after: number;
  ratio: number;
  p: number;
  worse: boolean | null;
  as_found: boolean;
  differences: { what: string; a: string; b: string }[];
}

export interface Series {
  params: Params;
  far?: string;
  unit: Unit;
  effort: string;
  stratum: string;
  points: Point[];
  changes: Change[];
  explained: number;
}

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [220, 76, 16, 24, 36];
/** Room for a date below the axis. */
const DATE = 96;
/** Less room for a run, and its interval and its point are thin. */
const THIN = 5;
/** An interval further beyond the values than this many times their range would flatten them. */
const WIDE = 3;

interface At extends Point {
  at: number;
  y: number;
}

/** The mean of the runs from one change to the next. */
interface Segment {
  from: number;
  to: number;
  mean: number;
}

function segments(points: At[], changes: Change[], last: number): Segment[] {
  const places = changes.map(({ run }) => points.find((point) => point.run === run)?.at ?? 0);
  return changes.flatMap((change, index): Segment[] => {
    const at = places[index] ?? 0;
    const before = { from: places[index - 1] ?? 0, to: at - 0.5, mean: change.before };
    const after = { from: at - 0.5, to: last, mean: change.after };
    return index === changes.length - 1 ? [before, after] : [before];
  });
}

/** The dates of some runs, each once; times where all are of one day. */
function ticksOf(
  points: Point[],
  width: number,
): { ticks: number[]; text: (at: number) => string } {
  const days = new Set(points.map(({ started }) => started.slice(0, 10)));
  const text = (at: number): string => {
    const started = minute(points[at]?.started ?? '');
    return days.size > 1 ? started.slice(0, 10) : started.slice(11);
  };
  const every = Math.max(1, Math.ceil((points.length * DATE) / width));
  const some = points.map((_, at) => at).filter((at) => at % every === 0);
  const isNew = (at: number, index: number): boolean =>
    index === 0 || text(at) !== text(some[index - 1] ?? 0);
  return { ticks: some.filter(isNew), text };
}

/** Keeps the ends of intervals in the drawing. */
function within(points: Point[]): (value: number) => number {
  const values = points.flatMap(({ value }) => value ?? []);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const spread = Math.max((most - least) * WIDE, Math.abs(most) / 5);
  return (value) => Math.min(most + spread, Math.max(least - spread, value));
}

/** Whether intervals are wider than the drawing. */
export function hasCut({ points }: Series): boolean {
  const inside = within(points);
  return points.some(
    ({ value, interval }) => value !== null && interval?.some((end) => inside(end) !== end),
  );
}

export function drawTimeline({ points: all, changes, unit }: Series, width: number): SVGSVGElement {
  const points = all.flatMap((point, at): At[] =>
    point.value === null ? [] : [{ ...point, at, y: point.value }],
  );
  const inside = within(all);
  const values = points.map(({ y }) => y);
  const ends = points.flatMap(({ interval }) => (interval ?? []).map(inside));
  const y = closeAxis([...values, ...ends], unit);
  const x = ticksOf(all, width - LEFT - RIGHT);
  const thin = (width - LEFT - RIGHT) / all.length < THIN;
  const after = changes.flatMap(({ run }) => points.filter((point) => point.run === run));
  const ink = ({ slow }: At): string => (slow ? 'var(--k0)' : 'var(--s0)');
  const plot = Plot.plot({
    width,
    height: HEIGHT,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: TOP,
    marginBottom: BOTTOM,
    ...LOOKS,
    x: { type: 'linear', domain: [-0.5, Math.max(all.length - 0.5, 0.5)], axis: null },
    y: scale(y),
    marks: [
      ...upright(y, unit),
      Plot.axisX(x.ticks, { text: x.text, tickSize: 4, label: null }),
      Plot.ruleX(after, {
        x: ({ at }: At) => at - 0.5,
        stroke: 'var(--s1)',
        strokeDasharray: '4 3',
        className: 'changes',
      }),
      Plot.ruleY(segments(points, changes, all.length - 0.5), {
        y: 'mean',
        x1: 'from',
        x2: 'to',
        stroke: 'var(--s1)',
        strokeOpacity: 0.7,
        className: 'means',
      }),
      Plot.ruleX(
        points.filter(({ interval }) => interval !== null),
        {
          x: 'at',
          y1: ({ interval }: At) => inside(interval?.[0] ?? 0),
          y2: ({ interval }: At) => inside(interval?.[1] ?? 0),
          stroke: ink,
          strokeWidth: thin ? 0.75 : 1.25,
          className: 'intervals',
        },
      ),
      Plot.dot(points, {
        x: 'at',
        y: 'y',
        stroke: ink,
        fill: (point: At) => (point.state === 'noisy' ? 'var(--paper)' : ink(point)),
        strokeWidth: thin ? 1 : 1.5,
        r: thin ? 1.5 : 3,
        href: ({ run }: At) => toRun(run),
        title: ({ run, label, started, y: value }: At) =>
          [label ?? run, `${minute(started)} UTC`, quantity(value, unit)].join('\n'),
        className: 'measured',
      }),
    ],
  }) as SVGSVGElement;
  // The table below has the same links for the keyboard.
  plot.querySelectorAll('a').forEach((link) => link.setAttribute('tabindex', '-1'));
  return plot;
}
