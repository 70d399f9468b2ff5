// The table of all cases: sorted by its headings, filtered by text, group and verdict.

import type { Contents, Document, Result } from './contents';
import {
  deviationOf,
  groupOf,
  intervalOf,
  letter,
  meaningOf,
  nameOf,
  numberOf,
  predictedRange,
  reasonsOf,
  shown,
  wordsOf,
} from './contents';
import { element } from './element';
import { parametersText } from './parameters';
import { NOTHING, atMost, percent, quantity, range } from './quantity';

interface Row {
  run: number;
  record: Result;
  words: string[];
  /** What the text filter looks at. */
  text: string;
  made: HTMLTableRowElement;
  keys: (string | number | null)[];
}

const UNITS = ['ns', 'bytes', 'bytes/s', '1/s', 'Hz', 'ratio'];
/** From the verdict that needs a look to the one that needs none. */
const VERDICTS = [
  'failed',
  'invalid',
  'unavailable',
  'differs',
  'undecided',
  'no model',
  'in order',
  'agrees',
];

const HEADS: { name: string; numeric: boolean }[] = [
  { name: 'operation', numeric: false },
  { name: 'hardware base', numeric: true },
  { name: 'software overhead', numeric: true },
  { name: 'predicted', numeric: true },
  { name: 'measured', numeric: true },
  { name: 'standard deviation', numeric: true },
  { name: 'verdict', numeric: false },
];

function measuredCell(record: Result, run: Document['run']): (Node | string)[] {
  const what = shown(record, run);
  if (what.kind === 'text') return [what.text];
  if (what.kind === 'bound') return [atMost(what.value, record.unit)];
  if (what.kind === 'nothing') return [NOTHING];
  const about = record.verdict.state === 'noisy' ? '~' : '';
  const ends = intervalOf(record, run);
  const interval = ends && range(ends[0], ends[1], record.unit, 4);
  const value = about + quantity(what.value, record.unit);
  return interval ? [value, element('small', {}, interval)] : [value];
}

function predictedCell(record: Result): (Node | string)[] {
  const { prediction, unit } = record;
  if (!prediction) return [element('small', { title: record.no_model ?? '' }, 'no model')];
  const limits = predictedRange(record);
  if (prediction.value == null) return [limits];
  return [quantity(prediction.value, unit, 3), element('small', {}, limits)];
}

function verdictCell(record: Result, run: Document['run'], words: string[]): (Node | string)[] {
  const [word = '', state = ''] = words;
  const noisy = state === 'noisy';
  const told = [meaningOf(record, run), ...reasonsOf(record)].filter(Boolean);
  const badge = element('span', { class: `word ${word.replace(' ', '-')}` }, word);
  const mark = noisy ? [' ', element('span', { class: 'word noisy' }, 'noisy')] : [];
  if (told.length === 0) return [badge, ...mark];
  const why = element('details', {}, element('summary', {}, badge, ...mark));
  why.append(...told.map((text) => element('p', {}, text)));
  return [why];
}

function rowOf(record: Result, run: number, document: Document, several: boolean): Row {
  const words = wordsOf(record);
  const { hardware = null, software = null, value: aim, low, high } = record.prediction ?? {};
  const deviation = deviationOf(record, document.run);
  const parameters = parametersText(record.params);
  const name = element(
    'th',
    { scope: 'row' },
    parameters === '' ? record.title : `${record.title}: ${parameters}`,
    element('small', {}, nameOf(record)),
  );
  const cell = (...parts: (Node | string)[]): HTMLElement =>
    element('td', { class: 'number' }, parts);
  const of = (value: number | null): string => quantity(value, record.unit, 3);
  const made = element(
    'tr',
    {},
    several && element('td', {}, letter(run)),
    name,
    cell(of(hardware)),
    cell(of(software)),
    cell(...predictedCell(record)),
    cell(...measuredCell(record, document.run)),
    cell(deviation === null ? NOTHING : percent(deviation)),
    element('td', {}, verdictCell(record, document.run, words)),
  );
  const verdict = VERDICTS.indexOf(words[0] ?? '') * 2 + (words[1] === 'noisy' ? 0 : 1);
  const predicted = aim ?? low ?? high ?? null;
  const value = numberOf(record, document.run);
  const operation = nameOf(record);
  const keys = [operation, hardware, software, predicted, value, deviation, verdict];
  const text = [name.textContent, ...words, ...reasonsOf(record)].join('\n').toLowerCase();
  return { run, record, words, text, made, keys };
}

/** Two keys in order; what has none comes last, whichever way is sorted. */
function inOrder(a: Row, b: Row, column: number, sign: number): number {
  const [x, y] = [a.keys[column] ?? null, b.keys[column] ?? null];
  if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
  if (typeof x === 'string') return sign * x.localeCompare(String(y), 'en', { numeric: true });
  // Only the share and the verdict can be compared across units.
  const units = column > 4 ? 0 : UNITS.indexOf(a.record.unit) - UNITS.indexOf(b.record.unit);
  return units !== 0 ? units : sign * (x - Number(y));
}

function choice(
  id: string,
  label: string,
  options: string[],
  change: () => void,
): [HTMLElement, HTMLSelectElement] {
  const select = element(
    'select',
    { id, onchange: change },
    element('option', { value: '' }, 'all'),
  );
  select.append(...options.map((option) => element('option', { value: option }, option)));
  return [element('label', { for: id }, `${label} `, select), select];
}

const distinct = (all: string[]): string[] => [...new Set(all)];

/** The section, and a way for other parts of the page to set its verdict. */
export function table(contents: Contents): {
  section: HTMLElement;
  show: (verdict: string) => void;
} {
  const several = contents.documents.length > 1;
  const rows = contents.documents.flatMap((document, run) =>
    document.records.map((record) => rowOf(record, run, document, several)),
  );
  const body = element('tbody', {});
  const status = element('span', { role: 'status' });
  const search = element('input', { id: 'search', type: 'search', placeholder: 'name or cause' });
  let sorted = { column: -1, sign: 1 };
  const update = (): void => {
    const wanted = search.value.trim().toLowerCase();
    const fits = rows.filter(
      (row) =>
        row.text.includes(wanted) &&
        (group.value === '' || groupOf(row.record.metric) === group.value) &&
        (verdict.value === '' || row.words.includes(verdict.value)),
    );
    if (sorted.column >= 0) fits.sort((a, b) => inOrder(a, b, sorted.column, sorted.sign));
    body.replaceChildren(...fits.map((row) => row.made));
    status.textContent = `${fits.length} of ${rows.length} rows`;
  };
  const groups = distinct(rows.map((row) => groupOf(row.record.metric)));
  const verdicts = distinct(rows.flatMap((row) => row.words)).sort();
  const [groupLabel, group] = choice('group', 'Group', groups, update);
  const [verdictLabel, verdict] = choice('verdict', 'Verdict', verdicts, update);
  search.addEventListener('input', update);
  const heads = HEADS.map(({ name, numeric }, column) => {
    const head = element('th', {
      scope: 'col',
      'aria-sort': 'none',
      class: numeric ? 'number' : '',
    });
    const sort = (): void => {
      const again = sorted.column === column && sorted.sign === 1;
      sorted = { column, sign: again ? -1 : 1 };
      heads.forEach((other) => other.setAttribute('aria-sort', 'none'));
      head.setAttribute('aria-sort', again ? 'descending' : 'ascending');
      update();
    };
    head.append(element('button', { type: 'button', onclick: sort }, name));
    return head;
  });
  const runHead = several && element('th', { scope: 'col', class: 'run' }, 'run');
  const section = element(
    'section',
    { 'aria-labelledby': 'cases' },
    element('h2', { id: 'cases' }, 'All cases'),
    element(
      'p',
      { class: 'filters' },
      element('label', { for: 'search' }, 'Search ', search),
      groupLabel,
      verdictLabel,
      status,
    ),
    element(
      'div',
      { class: 'box tall', tabindex: 0, role: 'region', 'aria-label': 'Table of all cases' },
      element(
        'table',
        { id: 'table' },
        element('caption', { class: 'unseen' }, 'All cases; the buttons in the head sort'),
        element('thead', {}, element('tr', {}, runHead, heads)),
        body,
      ),
    ),
  );
  update();
  const show = (word: string): void => {
    [search.value, group.value, verdict.value] = ['', '', word];
    update();
    section.scrollIntoView();
    verdict.focus();
  };
  return { section, show };
}
