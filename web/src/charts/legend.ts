// Legends above a chart: lines without room for a label at their end, and published figures.

import { svgElement } from '../element';

const ROW = 17;
/** Between two names. */
const GAP = 18;
/** Size and weight of names. */
const SIZE = '600 12px';
/** Pixels per bold letter where nothing is measured. */
const LETTER = 8;

/** A name with its symbol and colour. */
export interface Entry {
  name: string;
  glyph: string;
  ink: string;
}

interface Item extends Entry {
  x: number;
  y: number;
}

let measure: CanvasRenderingContext2D | null | undefined;

/** The pixels of a name, by the font of the page: letters differ too much for a count. */
export function widthOf(name: string): number {
  measure ??= document.createElement('canvas').getContext('2d');
  if (!measure) return name.length * LETTER;
  measure.font = `${SIZE} ${getComputedStyle(document.body).fontFamily}`;
  return measure.measureText(name).width;
}

/** The positions of the names, in as many rows as needed, from `top` on. */
export function legend(
  entries: Entry[],
  width: number,
  top = 0,
): { items: Item[]; height: number } {
  if (entries.length === 0) return { items: [], height: top };
  const distinct = new Map(entries.map((entry) => [entry.name, entry]));
  let [x, y] = [8, 13 + top];
  const items = [...distinct.values()].map((entry) => {
    const wide = widthOf(`${entry.glyph} ${entry.name}`) + GAP;
    if (x > 8 && x + wide > width) [x, y] = [8, y + ROW];
    const item = { ...entry, x, y };
    x += wide;
    return item;
  });
  return { items, height: y + 4 };
}

export const drawLegend = (items: Item[]): SVGElement =>
  svgElement(
    'g',
    { class: 'names', 'font-weight': 600, 'text-anchor': 'start' },
    ...items.map(({ name, glyph, ink: fill, x, y }) =>
      svgElement('text', { x, y, fill }, `${glyph} ${name}`),
    ),
  );
