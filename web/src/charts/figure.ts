// The frame of every chart: its headline, how to read it, the drawing, its data as a table, and a
// button that saves it. It is drawn again where the page gets another width.

import { element, plainTable } from '../element';
import { saveSvg } from './save';

export interface Frame {
  id: string;
  title: string;
  says: string;
  /** Sentences beneath: what is left out, what belongs beside. */
  notes: string[];
  wide?: boolean;
  draw: (width: number) => SVGSVGElement[];
  head: string[];
  rows: () => string[][];
}

/** Narrower than this nothing can be read; the box around it scrolls. */
const NARROWEST = 280;

export function figure(frame: Frame): HTMLElement {
  const { id, title, says } = frame;
  const drawing = element('div', {
    class: 'drawing',
    role: 'img',
    'aria-label': `${title}. ${says} Its data are in the table beneath.`,
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
  // Tables of all charts at once would double the page before anybody asks for them.
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
    // One picture with one name: what it is made of says nothing by itself.
    all.forEach((svg) => svg.setAttribute('aria-hidden', 'true'));
    drawing.replaceChildren(...all);
  };
  new ResizeObserver(redraw).observe(drawing);
  return framed;
}
