// The beginning of the page: a verdict in words, then what to ignore, what is unusual, and what to
// do next.

import type { Answer, Contents, Document, Item } from './contents';
import { nameOf, titleOf } from './contents';
import { element } from './element';

/** Filters the table by a verdict. */
export type Show = (verdict: string) => void;

/** Creates a heading of the right level. */
export type Heading = (text: string) => HTMLElement;

/** A sentence in which the id of a case is replaced by its title. */
export function titled(text: string, { records }: Document): Node[] {
  const named = records.filter((record) => text.includes(nameOf(record)));
  const record = named.sort((a, b) => nameOf(b).length - nameOf(a).length)[0];
  if (record === undefined) return coded(text);
  const at = text.indexOf(nameOf(record));
  return [
    ...coded(text.slice(0, at)),
    element('strong', { title: nameOf(record) }, titleOf(record)),
    ...coded(text.slice(at + nameOf(record).length)),
  ];
}

/** Text with its commands, which are between backticks, and its options. */
const coded = (text: string): Node[] =>
  text
    .split(/`([^`]*)`|(--[a-z][a-z-]*)/)
    .map((part, at) =>
      // Of each three parts the first one is text.
      at % 3 === 0
        ? element('span', {}, part)
        : element('code', part?.startsWith('--') ? { class: 'option' } : {}, part),
    )
    .filter(({ textContent }) => textContent !== '');

function line({ text, detail, show }: Item, document: Document, filter: Show): HTMLElement {
  const words = coded(text).length > 1 ? coded(text) : titled(text, document);
  const body =
    show === undefined
      ? words
      : [element('button', { type: 'button', class: 'link', onclick: () => filter(show) }, words)];
  return element('li', {}, body, detail !== undefined && element('small', {}, detail));
}

/** The lists of an answer, side by side. */
function lists(answer: Answer, document: Document, show: Show, heading: Heading): HTMLElement {
  const list = (title: string, items: Item[], none: string): HTMLElement | false =>
    (items.length > 0 || none !== '') &&
    element(
      'section',
      {},
      heading(title),
      items.length === 0
        ? element('p', { class: 'faint' }, none)
        : element('ul', {}, items.map((item) => line(item, document, show))),
    );
  return element(
    'div',
    { class: 'lists answers' },
    list('What to ignore', answer.ignore, 'Nothing: no result is noisy or missing.'),
    list('What is unusual', answer.unusual, answer.usual),
    list('What to do next', answer.next, ''),
  );
}

/** The answer of a run. */
export function opening(
  { answers }: Contents,
  run: number,
  document: Document,
  show: Show,
  heading: Heading,
): HTMLElement[] {
  const answer = answers[run];
  if (answer === undefined) return [];
  const sentences = answer.verdict.map((text) => element('p', {}, titled(text, document)));
  return [
    element('div', { class: `answer-words ${answer.mood}` }, sentences),
    lists(answer, document, show, heading),
  ];
}
