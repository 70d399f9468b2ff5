// Creates elements from data. Every text becomes a text node; no HTML is parsed.

type Child = Node | string | number | null | undefined | false;
type Attributes = { [name: string]: string | number | boolean | ((event: Event) => void) };

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false) made.setAttribute(key, String(value));
  }
  for (const child of children.flat()) {
    if (child == null || child === false) continue;
    made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

/** An element of a drawing. */
export function svgElement(
  name: string,
  attributes: { [name: string]: string | number },
  ...children: SVGElement[]
): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** A table with a caption for screen readers, inside a box that scrolls separately. */
export function plainTable(
  caption: string,
  head: string[],
  rows: (string | Node)[][],
): HTMLElement {
  const cell = (text: string | Node, at: number): HTMLElement =>
    at === 0 ? element('th', { scope: 'row' }, text) : element('td', {}, text);
  return element(
    'div',
    { class: 'box', tabindex: 0, role: 'region', 'aria-label': caption },
    element(
      'table',
      {},
      element('caption', { class: 'unseen' }, caption),
      element(
        'thead',
        {},
        element(
          'tr',
          {},
          head.map((text) => element('th', { scope: 'col' }, text)),
        ),
      ),
      element(
        'tbody',
        {},
        rows.map((row) => element('tr', {}, row.map(cell))),
      ),
    ),
  );
}
