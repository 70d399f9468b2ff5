// The names of lines above a chart, where there is no room beside their ends.

import { GLYPHS } from './marks';
import type { Point } from './points';

/** Pixels of a letter in bold. */
export const LETTER = 7;
const ROW = 17;
const SPACE = 'http://www.w3.org/2000/svg';

interface Item {
  name: string;
  point: Point;
  x: number;
  y: number;
}

/** Where each name stands: one after another, in as many rows as they need. */
export function legend(
  names: { name: string; point: Point }[],
  width: number,
): { items: Item[]; height: number } {
  const distinct = new Map(names.map(({ name, point }) => [name, point]));
  let [x, y] = [8, 13];
  const items = [...distinct].map(([name, point]) => {
    const wide = (name.length + 4) * LETTER;
    if (x > 8 && x + wide > width) [x, y] = [8, y + ROW];
    const item = { name, point, x, y };
    x += wide;
    return item;
  });
  return { items, height: y + 4 };
}

export function drawLegend(items: Item[], ink: (point: Point) => string): SVGGElement {
  const group = document.createElementNS(SPACE, 'g');
  group.setAttribute('class', 'names');
  group.setAttribute('font-weight', '600');
  group.setAttribute('text-anchor', 'start');
  for (const { name, point, x, y } of items) {
    const text = document.createElementNS(SPACE, 'text');
    text.setAttribute('x', String(x));
    text.setAttribute('y', String(y));
    text.setAttribute('fill', ink(point));
    text.textContent = `${GLYPHS[point.run % GLYPHS.length]} ${name}`;
    group.append(text);
  }
  return group;
}
