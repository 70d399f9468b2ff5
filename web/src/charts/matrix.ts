// A matrix: a cell per pair with its number, shaded by its rank among the others.

import * as Plot from '@observablehq/plot';
import type { Contents } from '../contents';
import { letter } from '../contents';
import { scaleOf } from '../quantity';
import { LOOKS } from './axes';
import { colour } from './marks';
import type { Point, Points } from './drawn';
import type { MatrixSpec } from './specs';

const CELL_MAX = 76;

export function drawMatrix(
  spec: MatrixSpec,
  points: Points,
  contents: Contents,
  width: number,
): SVGSVGElement[] {
  return contents.documents.flatMap((_, run) => {
    const own = points.drawn.filter((point) => point.run === run);
    const name = contents.documents.length > 1 ? letter(run) : '';
    return own.length > 0 ? [grid(spec, own, points, name, width)] : [];
  });
}

function grid(
  spec: MatrixSpec,
  own: Point[],
  points: Points,
  name: string,
  width: number,
): SVGSVGElement {
  const at = (point: Point, parameter: string): number => Number(point.record.params[parameter]);
  const side = (parameter: string): number[] =>
    [...new Set(own.map((point) => at(point, parameter)))].sort((a, b) => a - b);
  const [rows, columns] = [side(spec.row), side(spec.column)];
  const cell = Math.min(CELL_MAX, (width - 70) / columns.length);
  const values = points.drawn.map((point) => point.y);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const { divisor, symbol } = scaleOf(most, points.unit, 3);
  const shade = (point: Point): number =>
    most === least ? 0.3 : 0.12 + (0.6 * (point.y - least)) / (most - least);
  const text = (point: Point): string =>
    `${point.noisy ? '~' : ''}${Number((point.y / divisor).toPrecision(3))} ${symbol}`;
  const band: Plot.ScaleOptions = {
    type: 'band',
    label: null,
    tickFormat: (cpu) => `CPU ${cpu}`,
    padding: 0.04,
    tickSize: 0,
  };
  return Plot.plot({
    width: Math.min(width, columns.length * cell + 70),
    height: rows.length * cell + 62,
    marginLeft: 60,
    marginTop: 44,
    marginBottom: 18,
    marginRight: 10,
    ...LOOKS,
    x: { ...band, domain: columns, axis: 'top' },
    y: { ...band, domain: rows },
    marks: [
      Plot.text([name], { frameAnchor: 'top-left', dx: -50, dy: -30, className: 'run' }),
      Plot.cell(own, {
        x: (point: Point) => at(point, spec.column),
        y: (point: Point) => at(point, spec.row),
        fill: colour(0),
        fillOpacity: shade,
        className: 'measured',
        title: 'title',
        tip: true,
      }),
      Plot.text(cell < 54 ? [] : own, {
        x: (point: Point) => at(point, spec.column),
        y: (point: Point) => at(point, spec.row),
        text,
        fill: 'currentColor',
        className: 'values',
      }),
    ],
  }) as SVGSVGElement;
}
