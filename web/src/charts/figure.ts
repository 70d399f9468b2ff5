// The frame of every chart: title with a link, explanation, drawing, data as a table, and buttons
// to save it. A chart is drawn again when its width changes.

import { element, plainTable } from '../element';
import { cards } from '../tiles';
import { saveCsv, savePng, saveSvg } from './save';

/** The data of a chart as a table, and with all digits, after a row of names. */
export interface Data {
  head: string[];
  rows: () => (string | Node)[][];
  csv: () => string[][];
}

interface Frame extends Data {
  id: string;
  title: string;
  says: string;
  /** Sentences below the drawing. */
  notes: string[];
  wide?: boolean;
  /** Whether the drawing has links, which an image cannot have. */
  links?: boolean;
  /** Results that are numbers and no drawing: panels of a single point. */
  numbers?: HTMLElement[];
  /** Null if all results are numbers. */
  draw: ((width: number) => SVGSVGElement[]) | null;
}

/** A narrower chart is not readable; its box scrolls. */
const NARROWEST = 280;

export function figure(frame: Frame): HTMLElement {
  const { id, title, says, draw, numbers = [] } = frame;
  const drawing = element('div', {
    class: 'drawing',
    role: frame.links ? 'group' : 'img',
    'aria-label': `${title}. ${says} The table below has the data.`,
  });
  const saving = (name: string, onclick: () => void): HTMLElement =>
    element(
      'button',
      { type: 'button', class: 'save', onclick, 'aria-label': `${name} of ${title}` },
      name,
    );
  const saves = [
    saving('CSV', () => saveCsv(frame.csv(), id)),
    draw !== null && saving('PNG', () => void savePng(drawing, id, title)),
    draw !== null && saving('SVG', () => saveSvg(drawing, id, title)),
  ];
  const data = element('details', {}, element('summary', {}, 'Data'));
  const fill = (): void => {
    if (data.childElementCount === 1)
      data.append(plainTable(`Data of: ${title}`, frame.head, frame.rows()));
  };
  // Filled on demand: the tables of all charts would double the size of the page.
  data.addEventListener('toggle', fill, { once: true });
  const framed = element(
    'figure',
    { id, class: frame.wide ? 'wide' : '' },
    element('h3', {}, element('a', { class: 'anchor', href: `#${id}` }, title)),
    element('p', { class: 'says' }, says),
    numbers.length > 0 && cards(title, numbers),
    draw !== null && drawing,
    element(
      'figcaption',
      {},
      frame.notes.map((note) => element('p', {}, note)),
      element('div', { class: 'tools' }, data, element('div', { class: 'saves' }, saves)),
    ),
  );
  if (draw === null) return framed;
  let drawn = 0;
  const redraw = (): void => {
    const width = Math.max(NARROWEST, Math.floor(drawing.clientWidth));
    if (Math.abs(width - drawn) < 4) return;
    drawn = width;
    const all = draw(width);
    // One image with one label: its parts mean nothing to a screen reader.
    all.forEach((svg) => svg.setAttribute('aria-hidden', 'true'));
    drawing.replaceChildren(...all);
  };
  new ResizeObserver(redraw).observe(drawing);
  return framed;
}
