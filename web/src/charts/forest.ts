// Ratios with their intervals around 1, one row each.

import * as Plot from '@observablehq/plot';
import { factor } from '../quantity';
import type { Axis } from './axes';
import { LOOKS, across, scale, valueLabel } from './axes';
import { MEASURED } from './marks';
import { rows } from './rows';

/** A ratio with its texts. */
export interface Ratio {
  name: string;
  ratio: number;
  low: number;
  high: number;
  /** The range to draw under it, such as that of other machines. */
  band?: [number, number];
  /** Index of its colour. */
  kind: number;
  hollow: boolean;
  title: string;
  /** Texts for the table of the data. */
  values: string;
  verdict: string;
  cause: string;
}

const ROW = 20;
const TICKS = [
  0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 2, 5, 10, 20, 50, 100,
  1000,
];

const ink = (of: Ratio): string => `var(--k${of.kind})`;

/** Ticks far enough apart that their labels do not touch. */
function ticksWithin(low: number, high: number, pixels: number): number[] {
  const place = (tick: number): number => (Math.log(tick / low) / Math.log(high / low)) * pixels;
  const inside = TICKS.filter((tick) => tick >= low && tick <= high);
  const byWeight = [...inside].sort((a, b) => Math.abs(Math.log(a)) - Math.abs(Math.log(b)));
  const kept: number[] = byWeight.includes(1) ? [1] : [];
  for (const tick of byWeight.reverse()) {
    if (kept.every((other) => Math.abs(place(other) - place(tick)) > 46)) kept.push(tick);
  }
  return kept.sort((a, b) => a - b);
}

export function drawForest(ratios: Ratio[], width: number, label: string): SVGSVGElement[] {
  const all = ratios.flatMap(({ low, high, ratio, band }) => [low, high, ratio, ...(band ?? [])]);
  const ends = all.filter((at) => at > 0);
  const [low, high] = [Math.min(0.95, ...ends) / 1.03, Math.max(1.05, ...ends) * 1.03];
  const names = ratios.map(({ name }) => name);
  const { left, height, scale: y, marks } = rows(names, width, ROW);
  const row = (of: Ratio): number => ratios.indexOf(of);
  const ticks = ticksWithin(low, high, width - left - 20);
  const tickFormat = (tick: number): string => `${tick} ×`;
  const axis: Axis = { type: 'log', domain: [low, high], ticks, tickFormat };
  const plot = Plot.plot({
    width,
    height: height + 58,
    marginLeft: left,
    marginRight: 20,
    marginTop: 42,
    marginBottom: 16,
    ...LOOKS,
    x: scale(axis),
    y,
    marks: [
      Plot.gridX(ticks, {}),
      across(axis, { ...valueLabel('ratio'), label }),
      Plot.ruleY(
        ratios.filter(({ band }) => band !== undefined),
        {
          y: row,
          x1: ({ band }: Ratio) => band?.[0],
          x2: ({ band }: Ratio) => band?.[1],
          stroke: 'var(--line)',
          strokeWidth: 9,
          className: 'bands',
        },
      ),
      Plot.ruleX([1], { stroke: 'var(--faint)', className: 'one' }),
      Plot.ruleY(ratios, {
        y: row,
        x1: ({ low: from }: Ratio) => Math.max(from, low),
        x2: 'high',
        stroke: ink,
        strokeWidth: 1.25,
        className: 'intervals',
      }),
      // Above what could strike them through.
      ...marks,
      Plot.dot(ratios, {
        y: row,
        x: 'ratio',
        stroke: ink,
        fill: (of: Ratio) => (of.hollow ? 'var(--paper)' : ink(of)),
        r: 3,
        ...MEASURED,
      }),
    ],
  });
  return [plot as SVGSVGElement];
}

/** A ratio with its interval as text. */
export const ratioText = ({ ratio, low, high }: Ratio): string =>
  low === high ? factor(ratio) : `${factor(ratio)} [${factor(low)}, ${factor(high)}]`;
