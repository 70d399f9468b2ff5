// The frame of every chart: title, explanation, drawing, data as a table, and a button to save it.
// A chart is drawn again when its width changes.

import { element, plainTable } from '../element';
import { saveSvg } from './save';

export interface Frame {
  id: string;
  title: string;
  says: string;
  /** Sentences below the drawing. */
  notes: string[];
  wide?: boolean;
  draw: (width: number) => SVGSVGElement[];
  head: string[];
  rows: () => string[][];
}

/** A narrower chart is not readable; its box scrolls. */
const NARROWEST = 280;

export function figure(frame: Frame): HTMLElement {
  const { id, title, says } = frame;
  const drawing = element('div', {
    class: 'drawing',
    role: 'img',
    'aria-label': `${title}. ${says} The table below has the data.`,
  });
  const save = element('button', {
    type: 'button',
    class: 'save',
    onclick: () => saveSvg(drawing, id, title),
  });
  save.append('Save as SVG');
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
    element('h3', {}, title),
    element('p', { class: 'says' }, says),
    drawing,
    element(
      'figcaption',
      {},
      frame.notes.map((note) => element('p', {}, note)),
      element('div', { class: 'tools' }, data, save),
    ),
  );
  let drawn = 0;
  const redraw = (): void => {
    const width = Math.max(NARROWEST, Math.floor(drawing.clientWidth));
    if (Math.abs(width - drawn) < 4) return;
    drawn = width;
    const all = frame.draw(width);
    // One image with one label: its parts mean nothing to a screen reader.
    all.forEach((svg) => svg.setAttribute('aria-hidden', 'true'));
    drawing.replaceChildren(...all);
  };
  new ResizeObserver(redraw).observe(drawing);
  return framed;
}
