// Legends above a chart: lines without room for a label at their end, and published figures.

/** Pixels per bold letter. */
export const LETTER = 7;
const ROW = 17;
const SPACE = 'http://www.w3.org/2000/svg';

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
    const wide = (entry.name.length + 4) * LETTER;
    if (x > 8 && x + wide > width) [x, y] = [8, y + ROW];
    const item = { ...entry, x, y };
    x += wide;
    return item;
  });
  return { items, height: y + 4 };
}

export function drawLegend(items: Item[]): SVGGElement {
  const group = document.createElementNS(SPACE, 'g');
  group.setAttribute('class', 'names');
  group.setAttribute('font-weight', '600');
  group.setAttribute('text-anchor', 'start');
  for (const { name, glyph, ink, x, y } of items) {
    const text = document.createElementNS(SPACE, 'text');
    text.setAttribute('x', String(x));
    text.setAttribute('y', String(y));
    text.setAttribute('fill', ink);
    text.textContent = `${glyph} ${name}`;
    group.append(text);
  }
  return group;
}
