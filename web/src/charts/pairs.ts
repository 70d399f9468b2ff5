// Numbers between hosts: a cell per direction, shaded by its ratio to the median.

import type { Unit } from '../contents';
import { svgElement } from '../element';
import { factor, quantity } from '../quantity';
import type { Data } from './figure';

/** A case between hosts. */
export interface Pairs {
  case: string;
  unit: Unit;
  is_lower_better: boolean;
  hosts: string[];
  usual: number | null;
  /** From host, to host, number. */
  numbers: [number, number, number][];
  bad_hosts: [number, string][];
  bad_links: [[number, number], string][];
  not_judged: string[];
}

/** A cell is at most so many pixels wide. */
const CELL_MAX = 26;
/** Names beside the cells need so many. */
const NAME_MIN = 11;
const LETTER = 6.2;
/** Up to how many times worse than the median, how it is shaded, and its name. */
const STEPS: [number, string, number, string][] = [
  [1 / 1.5, 'var(--k3)', 0.9, '≥ 1.5 × better'],
  [1 / 1.1, 'var(--k3)', 0.5, '1.1 to 1.5 × better'],
  [1.1, 'var(--k0)', 0.18, 'within 1.1 ×'],
  [1.5, 'var(--k2)', 0.5, '1.1 to 1.5 × worse'],
  [Infinity, 'var(--k2)', 0.95, '≥ 1.5 × worse'],
];

/** The median of all numbers where effects could not be taken apart. */
function usualOf({ usual, numbers }: Pairs): number {
  if (usual !== null) return usual;
  const sorted = numbers.map(([, , value]) => value).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 1;
}

/** How many times worse a number is than the usual one. */
const worse = (drawn: Pairs, usual: number, value: number): number =>
  drawn.is_lower_better ? value / usual : usual / value;

export function drawPairs(drawn: Pairs, width: number): SVGSVGElement[] {
  const count = drawn.hosts.length;
  const longest = Math.max(...drawn.hosts.map(({ length }) => length)) * LETTER + 16;
  const bad = new Set([
    ...drawn.bad_hosts.map(([host]) => host),
    ...drawn.bad_links.flatMap(([hosts]) => hosts),
  ]);
  const named = Math.min(longest, 140);
  const room = Math.min(width, 720) - named - 4;
  const cell = Math.min(CELL_MAX, room / count);
  // Of many hosts the bad ones are named.
  const isNamed = (host: number): boolean => cell >= NAME_MIN || bad.has(host);
  const usual = usualOf(drawn);
  const paths = STEPS.map(() => '');
  const gap = cell > 6 ? 1 : 0;
  const size = (cell - gap).toFixed(2);
  for (const [from, to, value] of drawn.numbers) {
    const step = STEPS.findIndex(([most]) => worse(drawn, usual, value) <= most);
    const [x, y] = [named + to * cell, named + from * cell].map((at) => at.toFixed(2));
    paths[step] += `M${x},${y}h${size}v${size}h-${size}z`;
  }
  const side = named + count * cell;
  const text = (attributes: { [name: string]: string | number }, words: string): SVGElement =>
    svgElement('text', { 'font-size': 11, fill: 'currentColor', ...attributes }, words);
  const weight = (host: number): { [name: string]: string | number } =>
    bad.has(host) ? { 'font-weight': 700, fill: 'var(--k2)' } : {};
  let last = -Infinity;
  const names = drawn.hosts.flatMap((name, host) => {
    const at = named + (host + 0.5) * cell;
    if (!isNamed(host) || (cell < NAME_MIN && at - last < NAME_MIN)) return [];
    last = at;
    const row = { x: named - 6, y: at + 4, 'text-anchor': 'end', ...weight(host) };
    const column = { transform: `translate(${at + 4},${named - 6}) rotate(-90)`, ...weight(host) };
    return [text(row, name), text(column, name)];
  });
  const legend = 34;
  const each = Math.max(1, Math.floor(Math.min(width, 720) / 150));
  const key = STEPS.flatMap(([, fill, opacity, words], at) => {
    const [x, y] = [(at % each) * 150, side + 18 + Math.floor(at / each) * 18];
    return [
      svgElement('rect', { x, y: y - 10, width: 12, height: 12, fill, 'fill-opacity': opacity }),
      text({ x: x + 18, y }, words),
    ];
  });
  const height = side + legend + Math.floor((STEPS.length - 1) / each) * 18;
  const shapes = STEPS.flatMap(([, fill, opacity], at) => {
    const look = { fill, 'fill-opacity': opacity, 'shape-rendering': 'crispEdges' };
    const d = paths[at] ?? '';
    return d === '' ? [] : [svgElement('path', { class: 'links', d, ...look })];
  });
  const whole = Math.max(side, Math.min(width, each * 150));
  const svg = svgElement(
    'svg',
    { class: 'pairs', width: whole, height, viewBox: `0 0 ${whole} ${height}` },
    ...shapes,
    ...names,
    ...key,
  ) as SVGSVGElement;
  const title = svgElement('title', {});
  svg.prepend(title);
  const cells = new Map(drawn.numbers.map(([from, to, value]) => [from * count + to, value]));
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const by = whole / box.width;
    const to = Math.floor(((event.clientX - box.left) * by - named) / cell);
    const from = Math.floor(((event.clientY - box.top) * by - named) / cell);
    const value = to >= 0 && to < count && from >= 0 ? cells.get(from * count + to) : undefined;
    const ends = `${drawn.hosts[from]} to ${drawn.hosts[to]}`;
    const words = (of: number): string =>
      `${ends}: ${quantity(of, drawn.unit)}, ${factor(of / usual)} the median`;
    title.textContent = value === undefined ? '' : words(value);
  });
  return [svg];
}

/** Rows of the table below a matrix at most; the CSV has all. */
const ROWS_MAX = 500;

/** The links, the worst first. */
export function pairRows(drawn: Pairs): Data {
  const usual = usualOf(drawn);
  const sorted = (): Pairs['numbers'] =>
    [...drawn.numbers].sort((a, b) => worse(drawn, usual, b[2]) - worse(drawn, usual, a[2]));
  const name = (host: number): string => drawn.hosts[host] ?? '';
  return {
    head: ['from', 'to', 'number', '÷ median'],
    rows: () =>
      sorted()
        .slice(0, ROWS_MAX)
        .map(([from, to, value]) => [
          name(from),
          name(to),
          quantity(value, drawn.unit),
          factor(value / usual),
        ]),
    csv: () => [
      ['from', 'to', 'case', 'unit', 'number', 'ratio'],
      ...sorted().map(([from, to, value]) => [
        ...[name(from), name(to), drawn.case, drawn.unit],
        ...[value, value / usual].map(String),
      ]),
    ],
  };
}
