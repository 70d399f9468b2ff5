// A strip: the number of each host in a case, a point each; the odd ones named.

import * as Plot from '@observablehq/plot';
import type { Unit } from '../contents';
import { svgElement } from '../element';
import { factor, quantity } from '../quantity';
import type { Axis } from './axes';
import { LOOKS, across, closeAxis, scale, valueAxis, valueLabel } from './axes';
import type { Data } from './figure';

/** A case with the number of each host, in the order of the hosts. */
export interface Strip {
  title: string;
  case: string;
  unit: Unit;
  median: number;
  numbers: (number | null)[];
  /** Hosts whose number is noisy. */
  noisy: number[];
  /** Hosts without a number, and why. */
  without: [number, string][];
  /** Odd hosts, and their ratio to the median. */
  odd: [number, number][];
  /** 5th and 95th percentile of published machines, and which they are. */
  typical: [number, number, string] | null;
}

/** The axis is logarithmic from this ratio of the largest to the smallest number. */
const RATIO = 4;
/** A band further away than this factor would flatten the points; only the table has it. */
const FAR = 2;
const HEIGHT = 132;
const [TOP, BOTTOM] = [44, 22];
/** Half the diameter of a point, for few hosts and for many. */
const radius = (count: number): number => (count > 300 ? 1.75 : count > 80 ? 2.25 : 3);
/** Names beside odd points at most; the table has all. */
const NAMED = 8;
const LETTER = 6.6;

interface Point {
  host: number;
  x: number;
  kind: 'usual' | 'noisy' | 'odd';
}

function pointsOf({ numbers, noisy, odd }: Strip): Point[] {
  const kinds = new Map<number, Point['kind']>([
    ...noisy.map((host): [number, Point['kind']] => [host, 'noisy']),
    ...odd.map(([host]): [number, Point['kind']] => [host, 'odd']),
  ]);
  return numbers.flatMap((x, host) =>
    x === null ? [] : [{ host, x, kind: kinds.get(host) ?? 'usual' }],
  );
}

function axisOf(drawn: Strip, points: Point[], width: number): Axis {
  const values = [...points.map(({ x }) => x), drawn.median];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const band = (drawn.typical ?? [])
    .slice(0, 2)
    .map(Number)
    .filter((at) => at > low / FAR && at < high * FAR);
  const all = [...values, ...band];
  if (low > 0 && high / low > RATIO) return valueAxis(all, drawn.unit, true, width * 0.55);
  const axis = closeAxis(all, drawn.unit);
  const every = Math.max(1, Math.ceil((axis.ticks.length * 62) / width));
  return { ...axis, ticks: axis.ticks.filter((_, at) => at % every === 0) };
}

/** Points that would touch are stacked around the middle, closer than touching if they are many. */
function stacked(points: Point[], place: (x: number) => number, r: number): number[] {
  const bins = new Map<number, number>();
  const ranks = points.map(({ x }) => {
    const bin = Math.round(place(x) / (2 * r));
    const rank = bins.get(bin) ?? 0;
    bins.set(bin, rank + 1);
    return rank;
  });
  const most = Math.max(1, ...bins.values());
  const room = HEIGHT - TOP - BOTTOM - 2 * r;
  const step = Math.min(2 * r + 0.5, room / most);
  const middle = (TOP + HEIGHT - BOTTOM) / 2;
  return ranks.map((rank) => middle + (rank % 2 === 0 ? 1 : -1) * Math.ceil(rank / 2) * step);
}

export function drawStrip(drawn: Strip, hosts: string[], width: number): SVGSVGElement {
  const points = pointsOf(drawn);
  const axis = axisOf(drawn, points, width);
  const [low = 0, high = 1] = axis.domain;
  const by = axis.type === 'log' ? Math.log : (value: number): number => value;
  const [left, right] = [30, 30];
  const place = (x: number): number =>
    left + ((by(x) - by(low)) / (by(high) - by(low))) * (width - left - right);
  const r = radius(points.length);
  const y = stacked(points, place, r);
  const of = (kind: Point['kind']): number[] =>
    points.flatMap((point, at) => (point.kind === kind ? [at] : []));
  const at = (index: number): { cx: number; cy: number } => ({
    cx: place(points[index]?.x ?? 0),
    cy: y[index] ?? 0,
  });
  // A dot is a line without a length and with a round end: one path for a thousand hosts.
  const dots = (indices: number[]): string =>
    indices.map((index) => `M${at(index).cx.toFixed(1)},${at(index).cy.toFixed(1)}h.01`).join('');
  const [from, to] = drawn.typical ?? [high, low];
  const band = to > low && from < high ? [{ x1: from, x2: to }] : [];
  const plot = Plot.plot({
    width,
    height: HEIGHT,
    marginLeft: left,
    marginRight: right,
    marginTop: TOP,
    marginBottom: BOTTOM,
    ...LOOKS,
    x: { ...scale(axis), clamp: true },
    y: { axis: null, domain: [0, 1] },
    marks: [
      Plot.rect(band, { x1: 'x1', x2: 'x2', y1: 0, y2: 1, fill: 'var(--line)', className: 'band' }),
      Plot.gridX(axis.ticks, {}),
      across(axis, valueLabel(drawn.unit)),
      Plot.ruleX([drawn.median], { stroke: 'var(--faint)', strokeWidth: 1.5, className: 'median' }),
    ],
  }) as SVGSVGElement;
  const add = (...of: Parameters<typeof svgElement>): void => plot.append(svgElement(...of));
  const look = { fill: 'none', 'stroke-linecap': 'round' };
  const ring = { ...look, stroke: 'var(--s0)', 'stroke-width': 2 * r };
  const opacity = points.length > 80 ? 0.6 : 0.85;
  add('path', { ...ring, class: 'hosts', d: dots(of('usual')), 'stroke-opacity': opacity });
  // Hollow: a smaller dot of the paper above.
  const noisy = dots(of('noisy'));
  add('path', { ...ring, class: 'noisy-hosts', d: noisy });
  add('path', { ...look, d: noisy, stroke: 'var(--paper)', 'stroke-width': 2 * r - 2 });
  let end = -Infinity;
  let side = 0;
  const odd = of('odd').sort((a, b) => at(a).cx - at(b).cx);
  odd.forEach((index, rank) => {
    const { cx, cy } = at(index);
    add('circle', { class: 'odd-host', cx, cy, r: r + 1, fill: 'var(--s1)' });
    if (rank >= NAMED) return;
    const name = hosts[points[index]?.host ?? 0] ?? '';
    const long = name.length * LETTER;
    // Names that would touch are above and below in turn.
    side = cx - long / 2 < end ? 1 - side : 0;
    end = cx + long / 2;
    const x = Math.min(width - long / 2 - 2, Math.max(long / 2 + 2, cx));
    const top = side === 0 ? cy - r - 6 : cy + r + 14;
    const outline = { 'paint-order': 'stroke', stroke: 'var(--paper)', 'stroke-width': 3 };
    const letters = { 'text-anchor': 'middle', fill: 'var(--s1)', 'font-weight': 600 };
    add('text', { class: 'odd-name', x, y: top, ...letters, ...outline }, name);
  });
  return plot;
}

/** The table below a strip, odd hosts first, then those without a number. */
export function stripRows(drawn: Strip, hosts: string[]): Data {
  const odd = new Map(drawn.odd);
  const why = new Map(drawn.without);
  const noisy = new Set(drawn.noisy);
  const state = (host: number): string =>
    [why.get(host) ?? (noisy.has(host) ? 'noisy' : 'valid'), odd.has(host) && 'odd']
      .filter(Boolean)
      .join(', ');
  const order = (host: number): number => (odd.has(host) ? 0 : why.has(host) ? 1 : 2);
  const all = hosts.map((_, host) => host).sort((a, b) => order(a) - order(b) || a - b);
  const ratio = (host: number): number | null => {
    const value = drawn.numbers[host];
    return value == null || drawn.median === 0 ? null : value / drawn.median;
  };
  return {
    head: ['host', 'number', '÷ median', 'state'],
    rows: () =>
      all.map((host) => {
        const of = ratio(host);
        const value = quantity(drawn.numbers[host], drawn.unit);
        return [hosts[host] ?? '', value, of === null ? '' : factor(of), state(host)];
      }),
    csv: () => [
      ['host', 'case', 'unit', 'number', 'ratio', 'state'],
      ...all.map((host) => [
        hosts[host] ?? '',
        drawn.case,
        drawn.unit,
        ...[drawn.numbers[host], ratio(host)].map((of) => (of == null ? '' : String(of))),
        state(host),
      ]),
    ],
  };
}
