// Axes with ticks at round values: 1, 10, 100 ns and 1 µs; 4 KiB and 1 MiB; whole numbers.

import * as Plot from '@observablehq/plot';
import type { Unit } from '../contents';
import { binarySize, quantity, scaleOf } from '../quantity';

/** Room for a number below an axis. */
const DIGITS = 22;

export interface Axis {
  type: 'log' | 'linear' | 'point';
  domain: number[];
  ticks: number[];
  tickFormat: (value: number) => string;
}

/** `10 ns`, `2.5 GiB/s`: a tick label without trailing zeros. */
function tickText(value: number, unit: Unit): string {
  if (value === 0) return '0';
  const [digits = '', symbol = ''] = quantity(value, unit, 3).split(' ');
  const short = digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits;
  return symbol === '' ? short : `${short} ${symbol}`;
}

/** Steps of 1, 2 or 5 times a power of ten, about `count` of them. */
function evenTicks(low: number, high: number, count: number): number[] {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough) ?? rough;
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-9); at += 1)
    ticks.push(at * step);
  return ticks;
}

/** 1, 10, 100 …, with 2 and 5 between them if there is room; with `base` 2, powers of two. */
function logTicks(low: number, high: number, count: number, base: 2 | 10): number[] {
  const from = Math.floor(Math.log(low) / Math.log(base));
  const to = Math.ceil(Math.log(high) / Math.log(base));
  const every = Math.max(1, Math.ceil((to - from + 1) / Math.max(2, count)));
  const between = base === 10 && (to - from) * 3 <= count ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = from; power <= to; power += 1) {
    if (power % every !== 0) continue;
    ticks.push(...between.map((by) => by * base ** power));
  }
  const slack = 1 + 1e-9;
  return ticks.filter((tick) => tick >= low / slack && tick <= high * slack);
}

/** The axis of measured values. */
export function valueAxis(values: number[], unit: Unit, log: boolean, pixels: number): Axis {
  const top = Math.max(...values);
  const bottom = Math.min(...values);
  const count = Math.max(3, Math.floor(pixels / (log ? 30 : 42)));
  const tickFormat = (value: number): string => tickText(value, unit);
  // Within a factor of two a logarithmic axis has a single tick.
  if (log && bottom > 0 && top > 2 * bottom) {
    const [low, high] = [bottom / 1.15, top * 1.15];
    const { divisor } = scaleOf(low, unit, 3);
    const binary = unit === 'bytes' || unit === 'bytes/s';
    const ticks = binary
      ? logTicks(low, high, count, 2)
      : logTicks(low / divisor, high / divisor, count, 10).map((tick) => tick * divisor);
    return { type: 'log', domain: [low, high], ticks, tickFormat };
  }
  const low = Math.min(0, bottom);
  const high = top === low ? low + 1 : top + (top - low) * 0.06;
  const { divisor } = scaleOf(high, unit, 3);
  const ticks = evenTicks(low / divisor, high / divisor, count).map((tick) => tick * divisor);
  return { type: 'linear', domain: [low, high], ticks, tickFormat };
}

/** An axis that need not include zero, with enough significant figures to distinguish its ticks. */
export function closeAxis(values: number[], unit: Unit): Axis {
  const [bottom, top] = [Math.min(...values), Math.max(...values)];
  const edge = (top - bottom) * 0.08 || Math.abs(top) * 0.05 || 1;
  const [low, high] = [bottom - edge, top + edge];
  const { divisor } = scaleOf(top, unit, 3);
  const ticks = evenTicks(low / divisor, high / divisor, 6).map((tick) => tick * divisor);
  const figures = [3, 4, 5, 6].find(
    (count) => new Set(ticks.map((tick) => quantity(tick, unit, count))).size === ticks.length,
  );
  const tickFormat = (value: number): string => quantity(value, unit, figures ?? 6);
  return { type: 'linear', domain: [low, high], ticks, tickFormat };
}

/** The axis of a parameter. */
export function parameterAxis(
  values: number[],
  scale: 'log' | 'steps' | undefined,
  size: boolean,
  pixels: number,
): Axis {
  const all = [...new Set(values)].sort((a, b) => a - b);
  const tickFormat = (value: number): string => (size ? binarySize(value) : String(value));
  const [low, high] = [all[0] ?? 0, all.at(-1) ?? 1];
  const room = Math.max(2, Math.floor(pixels / 58));
  if (scale === 'steps') return { type: 'point', domain: all, ticks: all, tickFormat };
  if (scale === 'log' && low > 0) {
    const between = high / low > 1e3 || size ? logTicks(low, high, room, size ? 2 : 10) : all;
    const edge = (high / low) ** 0.025 * (low === high ? 1.5 : 1);
    return { type: 'log', domain: [low / edge, high * edge], ticks: between, tickFormat };
  }
  const edge = (high - low) * 0.04 || 1;
  const gaps = all.slice(1).map((value, at) => value - (all[at] ?? 0));
  const fits = all.length <= room && (Math.min(...gaps) / (high - low)) * pixels >= DIGITS;
  const ticks = fits || low === high ? all : evenTicks(low, high, room);
  return { type: 'linear', domain: [low - edge, high + edge], ticks, tickFormat };
}

/** What a value of a unit is, for the label of its axis. */
const QUANTITIES: { [unit in Unit]: string } = {
  ns: 'time',
  bytes: 'size',
  'bytes/s': 'throughput',
  '1/s': 'rate',
  Hz: 'frequency',
  ratio: 'ratio',
};

/** Options of a horizontal value axis above a chart. */
export const valueLabel = (unit: Unit): Plot.AxisXOptions => ({
  anchor: 'top',
  tickSize: 0,
  label: QUANTITIES[unit],
  labelAnchor: 'center',
  labelArrow: 'none',
  labelOffset: 32,
});

/** Options of all charts. */
export const LOOKS: Plot.PlotOptions = {
  style: { fontSize: '12px', fontFamily: 'inherit', background: 'none', overflow: 'visible' },
  color: { type: 'identity' },
};

/** A scale whose axis is drawn by marks: Plot would omit labels on logarithmic axes. */
export const scale = ({ type, domain }: Axis): Plot.ScaleOptions => ({
  type,
  domain,
  axis: null,
  label: null,
});

export const across = (axis: Axis, options: Plot.AxisXOptions): Plot.Markish =>
  Plot.axisX(axis.ticks, { text: axis.tickFormat, ...options });

export const upright = (axis: Axis, unit: Unit, label = QUANTITIES[unit]): Plot.Markish[] => [
  Plot.gridY(axis.ticks, {}),
  Plot.axisY(axis.ticks, {
    text: axis.tickFormat,
    tickSize: 0,
    label,
    labelAnchor: 'top',
    labelArrow: 'none',
  }),
];
