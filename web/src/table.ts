// The table of all cases: sorted by its headings, filtered by text, group and verdict.

import type { Contents, Document, Published, Result } from './contents';
import {
  deviationOf,
  groupOf,
  intervalOf,
  letter,
  meaningOf,
  nameOf,
  noModelOf,
  predictedRange,
  reasonsOf,
  shown,
  strataOf,
  wordsOf,
} from './contents';
import type { Change } from './compared';
import { changeCell, changesOf, inPairs } from './compared';
import { element } from './element';
import { parametersText } from './parameters';
import { deviationText, figureText, publishedOf } from './published';
import { NOTHING, atMost, percent, quantity, range } from './quantity';
import { finder, parameterTexts, searchable } from './search';

interface Row {
  run: number;
  record: Result;
  words: string[];
  /** The text that the filter searches. */
  text: string;
  made: HTMLTableRowElement;
  keys: (string | number | null)[];
}

const UNITS = ['ns', 'bytes', 'bytes/s', '1/s', 'Hz', 'ratio'];
/** Sort order of verdicts, failures first. */
const VERDICTS = [
  'failed',
  'invalid',
  'unavailable',
  'outside',
  'violated',
  'inconclusive',
  'no model',
  'met',
  'within',
];

interface Head {
  name: string;
  numeric: boolean;
  /** Values can be compared across units. */
  across?: boolean;
}

const HEADS: Head[] = [
  { name: 'operation', numeric: false },
  { name: 'hardware base', numeric: true },
  { name: 'software overhead', numeric: true },
  { name: 'predicted', numeric: true },
  { name: 'measured', numeric: true },
  { name: 'standard deviation', numeric: true, across: true },
  { name: 'verdict', numeric: false, across: true },
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
  const strata = strataOf(record, run).map((text) => element('small', { class: 'stratum' }, text));
  return interval ? [value, element('small', {}, interval), ...strata] : [value, ...strata];
}

function predictedCell(record: Result): (Node | string)[] {
  const { prediction, unit } = record;
  if (!prediction) return [element('small', { title: noModelOf(record) }, 'no model')];
  const limits = predictedRange(record);
  if (prediction.value == null) return [limits];
  return [quantity(prediction.value, unit, 3), element('small', {}, limits)];
}

function verdictCell(record: Result, run: Document['run'], words: string[]): (Node | string)[] {
  const [word = '', state = ''] = words;
  const noisy = state === 'noisy';
  const lines = [meaningOf(record, run), ...reasonsOf(record)].filter(Boolean);
  const badge = element('span', { class: `word ${word.replace(' ', '-')}` }, word);
  const mark = noisy ? [' ', element('span', { class: 'word noisy' }, 'noisy')] : [];
  if (lines.length === 0) return [badge, ...mark];
  const why = element('details', {}, element('summary', {}, badge, ...mark));
  why.append(...lines.map((text) => element('p', {}, text)));
  return [why];
}

const MEASURED = HEADS.findIndex(({ name }) => name === 'measured');

/** A column for published figures. */
const PUBLISHED: Head = { name: 'published', numeric: true };

/** A column for the comparison of two runs. */
const RATIO: Head = { name: 'ratio B ÷ A', numeric: true, across: true };

function publishedCell(figures: Published[]): (Node | string)[] {
  if (figures.length === 0) return [NOTHING];
  return figures.flatMap((figure) => {
    const spread = deviationText(figure);
    const value = element('div', {}, figureText(figure.measured, figure.unit));
    return spread === '' ? [value] : [value, element('small', {}, spread)];
  });
}

/** The sort key of the measured value; for a bound, the limit. */
function sizeOf(record: Result, run: Document['run']): number | null {
  const what = shown(record, run);
  return what.kind === 'number' || what.kind === 'bound' ? what.value : null;
}

function rowOf(
  record: Result,
  run: number,
  document: Document,
  contents: Contents,
  change: Change | null,
): Row {
  const several = contents.documents.length > 1;
  const published = contents.study === null ? null : publishedOf(contents, run, record);
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
    published && cell(...publishedCell(published)),
    cell(deviation === null ? NOTHING : percent(deviation)),
    change && cell(...changeCell(change)),
    element('td', {}, verdictCell(record, document.run, words)),
  );
  const verdict = VERDICTS.indexOf(words[0] ?? '') * 2 + (words[1] === 'noisy' ? 0 : 1);
  const predicted = aim ?? low ?? high ?? null;
  const value = sizeOf(record, document.run);
  const operation = nameOf(record);
  const figures = (published ?? []).map(({ measured }) => measured);
  const first = figures.find((measured) => typeof measured === 'number') ?? null;
  const beside = published === null ? [] : [first];
  const became = change === null ? [] : [change.ratio];
  const numbers = [hardware, software, predicted, value, ...beside, deviation, ...became];
  const keys = [operation, ...numbers, verdict];
  const parts = [record.title, operation, parameters, ...parameterTexts(record.params)];
  const text = searchable([...parts, ...words, ...reasonsOf(record), change?.word ?? '']);
  return { run, record, words, text, made, keys };
}

/** Compares two rows; rows without a key come last in both directions. */
function inOrder(a: Row, b: Row, column: number, across: boolean, sign: number): number {
  const [x, y] = [a.keys[column] ?? null, b.keys[column] ?? null];
  if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
  if (typeof x === 'string') return sign * x.localeCompare(String(y), 'en', { numeric: true });
  const units = across ? 0 : UNITS.indexOf(a.record.unit) - UNITS.indexOf(b.record.unit);
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

/** The section, and a function that filters it by verdict. */
export function table(contents: Contents): {
  section: HTMLElement;
  show: (verdict: string) => void;
} {
  const several = contents.documents.length > 1;
  const changeOf = contents.comparison === null ? () => null : changesOf(contents);
  const rows = inPairs(
    contents.documents.flatMap((document, run) =>
      document.records.map((record) => rowOf(record, run, document, contents, changeOf(record))),
    ),
  );
  const columns = [...HEADS];
  if (contents.study !== null) columns.splice(MEASURED + 1, 0, PUBLISHED);
  if (contents.comparison !== null) columns.splice(-1, 0, RATIO);
  const looks = [contents.study && 'studied', contents.comparison && 'paired'].filter(Boolean);
  const body = element('tbody', {});
  const status = element('span', { role: 'status' });
  const search = element('input', { id: 'search', type: 'search', placeholder: 'name or cause' });
  let sorted = { column: -1, sign: 1 };
  const update = (): void => {
    const found = finder(search.value);
    const fits = rows.filter(
      (row) =>
        found(row.text) &&
        (group.value === '' || groupOf(row.record.metric) === group.value) &&
        (verdict.value === '' || row.words.includes(verdict.value)),
    );
    const { column, sign } = sorted;
    const across = columns[column]?.across ?? false;
    if (column >= 0) fits.sort((a, b) => inOrder(a, b, column, across, sign));
    body.replaceChildren(...fits.map((row) => row.made));
    status.textContent = `${fits.length} of ${rows.length} rows`;
    nothing.hidden = fits.length > 0;
    const more = group.value !== '' || verdict.value !== '';
    clear.textContent = more ? 'clear the search and the filters' : 'clear the search';
  };
  const reset = (word: string): void => {
    [search.value, group.value, verdict.value] = ['', '', word];
    update();
  };
  const clearAll = (): void => {
    reset('');
    search.focus();
  };
  const clear = element('button', { type: 'button', onclick: clearAll });
  const nothing = element('p', { class: 'nothing' }, 'Nothing matches; ', clear);
  const groups = distinct(rows.map((row) => groupOf(row.record.metric)));
  const verdicts = distinct(rows.flatMap((row) => row.words)).sort();
  const [groupLabel, group] = choice('group', 'Group', groups, update);
  const [verdictLabel, verdict] = choice('verdict', 'Verdict', verdicts, update);
  search.addEventListener('input', update);
  const heads = columns.map(({ name, numeric }, column) => {
    const head = element('th', {
      scope: 'col',
      'aria-sort': 'none',
      class: numeric ? `number ${name.replaceAll(' ', '-')}` : '',
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
    contents.study &&
      element(
        'p',
        { class: 'faint' },
        `Published: ${contents.study.name}, with another protocol on another machine; see `,
        element('a', { href: '#charts' }, 'the charts'),
        '.',
      ),
    element(
      'div',
      { class: 'box tall', tabindex: 0, role: 'region', 'aria-label': 'Table of all cases' },
      element(
        'table',
        { id: 'table', class: looks.join(' ') },
        element('caption', { class: 'unseen' }, 'All cases; click a heading to sort'),
        element('thead', {}, element('tr', {}, runHead, heads)),
        body,
      ),
    ),
    nothing,
  );
  update();
  const show = (word: string): void => {
    reset(word);
    section.scrollIntoView();
    verdict.focus();
  };
  return { section, show };
}
