// What limits a load: capacities, saturation and knee, drawn beside its throughput.

import * as Plot from '@observablehq/plot';
import type { Contents, Result } from '../contents';
import { letter, numberOf } from '../contents';
import { words } from '../parameters';
import { quantity } from '../quantity';
import { HALO, LINE, apart } from './marks';
import type { Point } from './drawn';

/** Capacities higher than the points by more than this factor would flatten them. */
const FAR = 3;

/** A horizontal line. */
interface Level {
  y: number;
  name: string;
  /** Where the name is. */
  side: 'left' | 'right';
}

/** A corner of the bound of a case. */
interface Corner {
  /** The first point of the case. */
  point: Point;
  x: number;
  y: number;
}

export interface Limits {
  capacities: Level[];
  saturations: (Level & { point: Point })[];
  bounds: Corner[];
  knees: (Corner & { name: string })[];
  notes: string[];
}

/** Parameters without the number of clients, as a key. */
function caseOf({ params }: Result): string {
  return JSON.stringify(Object.entries(params).filter(([name]) => name !== 'clients'));
}

/** The part of the axis at either end that a name covers. */
const NAME_SHARE = 0.25;

/** The end of a line at which the points are further from it: they would strike its name through. */
function sideOf(y: number, drawn: Point[]): 'left' | 'right' {
  const all = drawn.map(({ x }) => x);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = (isThere: (share: number) => boolean): number => {
    const there = drawn.filter(({ x }) => isThere((x - low) / (high - low)));
    return Math.min(...there.map((point) => Math.abs(point.y - y)));
  };
  const [left, right] = [room((at) => at <= NAME_SHARE), room((at) => at >= 1 - NAME_SHARE)];
  return left >= right ? 'left' : 'right';
}

/** Requests per second of each resource. */
function capacities({ documents }: Contents, drawn: Point[]): Level[] {
  return documents.flatMap(({ records, run }, at) =>
    records.flatMap((record): Level[] => {
      if (record.metric !== 'load.capacity' || numberOf(record, run) === null) return [];
      const fact = record.facts?.find(({ name }) => name === 'requests');
      if (fact === undefined || !('value' in fact)) return [];
      const whose = documents.length > 1 ? `${letter(at)} ` : '';
      const what = words('of', record.params.of ?? '');
      const side = sideOf(fact.value, drawn);
      return [{ y: fact.value, side, name: `${whose}${what} ${quantity(fact.value, '1/s', 3)}` }];
    }),
  );
}

export function limitsOf(contents: Contents, drawn: Point[]): Limits {
  const top = Math.max(...drawn.map(({ y }) => y));
  const limits: Limits = { capacities: [], saturations: [], bounds: [], knees: [], notes: [] };
  // Without a line there is nothing to draw them in.
  const positions = new Set(drawn.map(({ x }) => x));
  if (positions.size < 2) return limits;
  const all = capacities(contents, drawn);
  limits.capacities = all.filter(({ y }) => y <= FAR * top);
  const far = all.filter(({ y }) => y > FAR * top);
  const firsts = new Map<string, Point>();
  for (const point of drawn) {
    const key = `${point.run} ${caseOf(point.record)}`;
    if (!firsts.has(key)) firsts.set(key, point);
  }
  const several = firsts.size > 1;
  const [low, high] = [Math.min(...positions), Math.max(...positions)];
  const of = (metric: string, { document, record }: Point): number | null => {
    const is = (one: Result): boolean =>
      one.metric === metric && caseOf(one) === caseOf(record);
    const found = document.records.find(is);
    return found ? numberOf(found, document.run) : null;
  };
  for (const point of firsts.values()) {
    const saturation = of('load.saturation', point);
    if (saturation === null) continue;
    const knee = of('load.knee', point);
    const name = [several && point.series, `saturation ${quantity(saturation, '1/s', 3)}`];
    const side = sideOf(saturation, drawn);
    limits.saturations.push({ point, y: saturation, side, name: name.filter(Boolean).join(', ') });
    const inside = knee !== null && knee >= low && knee <= high ? [knee] : [];
    const bound = (x: number): number => saturation * Math.min(1, knee === null ? 1 : x / knee);
    limits.bounds.push(...[low, ...inside, high].map((x) => ({ point, x, y: bound(x) })));
    const text = (at: number): string => `knee ${quantity(at, 'ratio', 3)}`;
    limits.knees.push(...inside.map((x) => ({ point, x, y: saturation, name: text(x) })));
  }
  if (limits.bounds.length > 0)
    limits.notes.push(
      'Dashed: the bound min(N ÷ (R + Z), saturation), with the response time R of one client; ' +
        'vertical: its knee.',
    );
  if (limits.capacities.length > 0)
    limits.notes.push('Dotted: capacities for this work; of the disk if it reads every byte.');
  if (far.length > 0) {
    const names = far.map(({ name }) => name).join(', ');
    limits.notes.push(`Capacities beyond the axis: ${names}.`);
  }
  return limits;
}

/** The lines with their labels, below the points; `bottom` of the value axis. */
export function limitMarks(
  { capacities, saturations, bounds, knees }: Limits,
  bottom: number,
  ink: (point: Point) => string,
): Plot.Markish[] {
  const own = ({ point }: { point: Point }): string => ink(point);
  const inkOf = (level: Level | Limits['saturations'][number]): string =>
    'point' in level ? own(level) : 'var(--faint)';
  const halo = { ...HALO, textAnchor: 'start' } as const;
  return [
    Plot.ruleY(capacities, {
      y: 'y',
      stroke: 'var(--faint)',
      strokeDasharray: '1.5 3',
      className: 'capacities',
    }),
    Plot.line(bounds, {
      x: 'x',
      y: 'y',
      z: ({ point }: Corner) => `${point.run} ${caseOf(point.record)}`,
      stroke: own,
      strokeDasharray: '6 4',
      strokeOpacity: 0.7,
      className: 'bounds',
    }),
    Plot.ruleX(knees, {
      x: 'x',
      y1: bottom,
      y2: 'y',
      stroke: own,
      strokeOpacity: 0.5,
      className: 'knees',
    }),
    Plot.text(knees, {
      ...halo,
      x: 'x',
      y: bottom,
      text: 'name',
      dx: 5,
      dy: -8,
      fill: own,
      className: 'names-of-knees',
    }),
    ...(['left', 'right'] as const).map((side) =>
      Plot.text(
        [...capacities, ...saturations].filter((level) => level.side === side),
        {
          ...halo,
          textAnchor: side === 'left' ? 'start' : 'end',
          frameAnchor: side,
          y: 'y',
          text: 'name',
          dx: side === 'left' ? 4 : -4,
          dy: -8,
          fill: inkOf,
          className: 'names-of-limits',
          render: apart(LINE),
        },
      ),
    ),
  ];
}
