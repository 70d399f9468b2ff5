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
  ...children: (SVGElement | string)[]
): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** What a view shows: its title, the links to its sections, and these. */
export interface View {
  title: string;
  links: [string, string][];
  sections: HTMLElement[];
}

/** Names, each with what there is to say of it. */
export const facts = (all: [string, Child | Child[]][], look: Attributes = {}): HTMLElement =>
  element(
    'dl',
    look,
    all.map(([name, of]) =>
      element('div', {}, element('dt', {}, name), element('dd', {}, of)),
    ),
  );

/** A table with a caption for screen readers, inside a box that scrolls separately. */
export function boxed(
  label: string,
  head: (string | HTMLElement)[],
  body: HTMLElement,
  look: Attributes = {},
  caption = label,
): HTMLElement {
  const heads = head.map((of) =>
    typeof of === 'string' ? element('th', { scope: 'col' }, of) : of,
  );
  const named = element('caption', { class: 'unseen' }, caption);
  const top = element('thead', {}, element('tr', {}, heads));
  const table = element('table', look, named, top, body);
  return element('div', { class: 'box', tabindex: 0, role: 'region', 'aria-label': label }, table);
}

/** A table of texts and links, the first of each row its name. */
export function plainTable(
  caption: string,
  head: string[],
  rows: (string | Node)[][],
): HTMLElement {
  const cell = (text: string | Node, at: number): HTMLElement =>
    at === 0 ? element('th', { scope: 'row' }, text) : element('td', {}, text);
  const lines = rows.map((row) => element('tr', {}, row.map(cell)));
  return boxed(caption, head, element('tbody', {}, lines));
}
