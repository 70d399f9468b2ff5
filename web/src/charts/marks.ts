// Shared marks: predictions beside measured values, and labels at the ends of lines.

import * as Plot from '@observablehq/plot';
import type { Point } from './drawn';

/** The height of a label. */
export const LINE = 14;
/** Number of line colours; further lines repeat them. */
const COLOURS = 8;

export const colour = (series: number): string => `var(--s${series % COLOURS})`;

/** The symbols of runs as characters. */
export const GLYPHS = ['●', '■', '▲', '◆', '✕', '★'];

/** The fill of a point: noisy points are hollow. */
export const filled = (point: Point, own: string): string => (point.noisy ? 'var(--paper)' : own);

/** Where a point is. */
export const PLACE = { x: 'x', y: 'y', fx: 'panel' } as const;

/** A measured value, with its tooltip. */
export const MEASURED = {
  strokeWidth: 1.5,
  className: 'measured',
  title: 'title',
  tip: { maxRadius: 24 },
} as const;

type Path = Pick<CanvasPath, 'moveTo' | 'lineTo'>;
type Draw = (path: Path) => void;

/** A short horizontal line: a predicted value. */
const across: Draw = (path) => {
  path.moveTo(-7, 0);
  path.lineTo(7, 0);
};

/** The same with an arrow head, for a bound. */
const angled =
  (towards: 1 | -1): Draw =>
  (path) => {
    across(path);
    path.moveTo(-3.5, 3 * towards);
    path.lineTo(0, 7 * towards);
    path.lineTo(3.5, 3 * towards);
  };

/** The same for horizontal value axes. */
const turned =
  (draw: Draw): Draw =>
  (path) =>
    draw({
      moveTo: (x: number, y: number) => path.moveTo(-y, x),
      lineTo: (x: number, y: number) => path.lineTo(-y, x),
    });

const KINDS = { value: across, above: angled(-1), below: angled(1) };

interface Predicted {
  point: Point;
  at: number;
  kind: keyof typeof KINDS;
}

/** The predictions of points: a value, or a bound. */
export function predictions(points: Point[]): Predicted[] {
  return points.flatMap((point): Predicted[] => {
    const { value, low, high } = point.record.prediction ?? {};
    if (value != null) return [{ point, at: value, kind: 'value' }];
    if (low != null) return [{ point, at: low, kind: 'above' }];
    return high != null ? [{ point, at: high, kind: 'below' }] : [];
  });
}

/** Bounds further away than this factor would flatten the values; only the table has them. */
const FAR = 4;

/** Predictions to draw: each value, and the bounds that are near the points. */
export function near(all: Predicted[], points: Point[]): Predicted[] {
  const values = points.map((point) => point.y);
  const [low, high] = [Math.min(...values) / FAR, Math.max(...values) * FAR];
  return all.filter(({ kind, at }) => kind === 'value' || (at >= low && at <= high));
}

/** Of text: lines and points behind it do not strike it through. */
export const HALO = { stroke: 'var(--paper)', strokeWidth: 4, paintOrder: 'stroke' } as const;

export function ranges(points: Point[]): { point: Point; low: number; high: number }[] {
  return points.flatMap((point) => {
    const { low, high } = point.record.prediction ?? {};
    return low != null && high != null ? [{ point, low, high }] : [];
  });
}

/** Marks at predictions, by kind. */
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

/** Moves overlapping labels apart by at least `gap` pixels. */
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
