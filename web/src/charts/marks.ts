// What all charts draw alike: predictions beside what was measured, and names at the ends of lines.

import * as Plot from '@observablehq/plot';
import type { Point } from './points';

/** Lines that have a colour of their own; further ones begin again. */
const COLOURS = 8;

export const colour = (series: number): string => `var(--s${series % COLOURS})`;

/** The symbols of runs, as letters of a text. */
export const GLYPHS = ['●', '■', '▲', '◆', '✕', '★'];

/** How a point is filled: noisy ones are hollow. */
export const filled = (point: Point, own: string): string => (point.noisy ? 'var(--paper)' : own);

type Path = Pick<CanvasPath, 'moveTo' | 'lineTo'>;
type Draw = (path: Path) => void;

/** A short line across: a predicted value. */
const across: Draw = (path) => {
  path.moveTo(-7, 0);
  path.lineTo(7, 0);
};

/** An open angle on that line, which points to where an order says that the value lies. */
const angled =
  (towards: 1 | -1): Draw =>
  (path) => {
    across(path);
    path.moveTo(-3.5, 3 * towards);
    path.lineTo(0, 7 * towards);
    path.lineTo(3.5, 3 * towards);
  };

/** The same for values that grow to the right. */
const turned =
  (draw: Draw): Draw =>
  (path) =>
    draw({
      moveTo: (x: number, y: number) => path.moveTo(-y, x),
      lineTo: (x: number, y: number) => path.lineTo(-y, x),
    });

const KINDS = { value: across, above: angled(-1), below: angled(1) };

export interface Predicted {
  point: Point;
  at: number;
  kind: keyof typeof KINDS;
}

/** What was predicted of points: a value, or the limit of an order. */
export function predictions(points: Point[]): Predicted[] {
  return points.flatMap((point): Predicted[] => {
    const { value, low, high } = point.record.prediction ?? {};
    if (value != null) return [{ point, at: value, kind: 'value' }];
    if (low != null) return [{ point, at: low, kind: 'above' }];
    return high != null ? [{ point, at: high, kind: 'below' }] : [];
  });
}

/** A prediction further from all values than this would flatten them: the table alone has it. */
const FAR = 4;

/** Whether a prediction is near enough to the values to be drawn among them. */
export function near(points: Point[]): (value: number) => boolean {
  const values = points.map((point) => point.y);
  const [low, high] = [Math.min(...values) / FAR, Math.max(...values) * FAR];
  return (value) => value >= low && value <= high;
}

/** Predicted ranges with both ends. */
export function ranges(points: Point[]): { point: Point; low: number; high: number }[] {
  return points.flatMap((point) => {
    const { low, high } = point.record.prediction ?? {};
    return low != null && high != null ? [{ point, low, high }] : [];
  });
}

/** Ticks at predictions, a mark for each kind of them. */
export function ticks(
  all: Predicted[],
  options: Plot.DotOptions,
  rightward = false,
): Plot.Markish[] {
  return Object.entries(KINDS).map(([kind, upright]) => {
    const draw = rightward ? turned(upright) : upright;
    const symbol = { draw: (context: CanvasPath) => draw(context) };
    const of = all.filter((one) => one.kind === kind);
    return Plot.dot(of, { ...options, symbol, strokeWidth: 1.5, fill: 'none' });
  });
}

/** Moves names that would lie on each other apart, `gap` pixels at least. */
export function apart(gap: number): Plot.RenderFunction {
  return (index, scales, values, dimensions, context, next) => {
    const y = Array.from(values.y ?? []) as number[];
    const order = [...index].sort((a, b) => (y[a] ?? 0) - (y[b] ?? 0));
    let least = Number.NEGATIVE_INFINITY;
    for (const at of order) {
      y[at] = Math.max(y[at] ?? 0, least);
      least = (y[at] ?? 0) + gap;
    }
    let most = dimensions.height - dimensions.marginBottom;
    for (const at of order.reverse()) {
      y[at] = Math.min(y[at] ?? 0, most);
      most = (y[at] ?? 0) - gap;
    }
    const moved: Plot.ChannelValues = Object.assign({}, values, { y });
    return next?.(index, scales, moved, dimensions, context) ?? null;
  };
}
