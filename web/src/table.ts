// The table of all cases: sorted by its headings, filtered by text, group and verdict.

import type { Contents, Document, Published, Result } from './contents';
import {
  deviationOf,
  edgeOf,
  factsOf,
  groupOf,
  intervalOf,
  letter,
  meaningOf,
  nameOf,
  noModelOf,
  placeOf,
  predictedRange,
  reasonsOf,
  shown,
  slackOf,
  strataOf,
  titleOf,
  valueText,
  wordOfNone,
  wordsOf,
} from './contents';
import type { Change } from './compared';
import { changeCell, changesOf, inPairs } from './compared';
import { element } from './element';
import { linked, toHistoryOf } from './links';
import { levelOf } from './parameters';
import { deviationText, figureText, publishedOf } from './published';
import { NOTHING, percent, quantity, range } from './quantity';
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
  'input noisy',
  'loose bound',
  'met',
  'within',
];

const isNumber = (figure: unknown): figure is number => typeof figure === 'number';

/** What the cells of a row are made from. */
interface Case {
  record: Result;
  document: Document;
  words: string[];
  published: Published[];
  change: Change | null;
}

type Cell = (Node | string)[];

interface Column {
  name: string;
  numeric: boolean;
  /** Values can be compared across units. */
  across?: boolean;
  cell: (of: Case) => Cell;
  /** The sort key. */
  key: (of: Case) => string | number | null;
}

/** The columns; the first three fit a narrow screen. */
function columnsOf(contents: Contents): Column[] {
  const ratio: Column = {
    name: 'ratio B ÷ A',
    numeric: true,
    across: true,
    cell: ({ change }) => (change === null ? [NOTHING] : changeCell(change)),
    key: ({ change }) => change?.ratio ?? null,
  };
  const published: Column = {
    name: 'published',
    numeric: true,
    cell: (of) => publishedCell(of.published),
    key: (of) => of.published.map(({ measured }) => measured).find(isNumber) ?? null,
  };
  const part = (name: string, of: 'hardware' | 'software'): Column => ({
    name,
    numeric: true,
    cell: ({ record }) => [quantity(record.prediction?.[of], record.unit, 3)],
    key: ({ record }) => record.prediction?.[of] ?? null,
  });
  const typical: Column = {
    name: 'typical',
    numeric: true,
    cell: ({ record }) => typicalCell(record),
    key: ({ record }) => record.typical?.median ?? null,
  };
  const hasTypical = contents.documents.some(({ records }) => records.some((one) => one.typical));
  const deviation = ({ record, document }: Case): number | null =>
    deviationOf(record, document.run);
  return [
    {
      name: 'operation',
      numeric: false,
      cell: ({ record, document }) => [
        linked(titleOf(record), toHistoryOf(record, document)),
        element('small', {}, nameOf(record)),
      ],
      key: ({ record }) => nameOf(record),
    },
    {
      name: 'measured',
      numeric: true,
      cell: ({ record, document }) => measuredCell(record, document.run),
      key: ({ record, document }) => sizeOf(record, document.run),
    },
    {
      name: 'verdict',
      numeric: false,
      across: true,
      cell: ({ record, document, words }) => verdictCell(record, document.run, words),
      key: ({ words }) => VERDICTS.indexOf(words[0] ?? '') * 2 + (words[1] === 'noisy' ? 0 : 1),
    },
    ...(contents.comparison === null ? [] : [ratio]),
    {
      name: 'predicted',
      numeric: true,
      cell: ({ record }) => predictedCell(record),
      key: ({ record: { prediction } }) =>
        prediction?.value ?? prediction?.low ?? prediction?.high ?? null,
    },
    ...(contents.study === null ? [] : [published]),
    ...(hasTypical ? [typical] : []),
    {
      name: 'standard deviation',
      numeric: true,
      across: true,
      cell: (of) => [deviation(of) === null ? NOTHING : percent(deviation(of) ?? 0)],
      key: deviation,
    },
    part('hardware base', 'hardware'),
    part('software overhead', 'software'),
  ];
}

function measuredCell(record: Result, run: Document['run']): Cell {
  const what = shown(record, run);
  if (what.kind === 'nothing') return [NOTHING];
  if (what.kind !== 'number') return [valueText(record, run)];
  const ends = edgeOf(record, run) ? null : intervalOf(record, run);
  const interval = ends && range(ends[0], ends[1], record.unit, 4);
  const value = valueText(record, run);
  const levels = factsOf(record, 'between levels').map((names) => `between ${names}`);
  const strata = [...levels, ...strataOf(record, run)].map((text) => element('small', { class: 'stratum' }, text));
  return interval ? [value, element('small', {}, interval), ...strata] : [value, ...strata];
}

function predictedCell(record: Result): Cell {
  const { prediction, unit } = record;
  if (!prediction) return [element('small', { title: noModelOf(record) }, wordOfNone(record))];
  const limits = predictedRange(record);
  if (prediction.value == null) return [limits];
  return [quantity(prediction.value, unit, 3), element('small', {}, limits)];
}

function typicalCell(record: Result): Cell {
  const { typical, unit } = record;
  if (!typical) return [NOTHING];
  const { position } = typical;
  const place = placeOf(record);
  const look = position === 'better' ? 'within' : position === 'worse' ? 'outside' : 'faint';
  const word = element('small', { class: `word ${look}`, title: place }, position);
  return [range(typical.low, typical.high, unit, 3), word];
}

function verdictCell(record: Result, run: Document['run'], words: string[]): Cell {
  const [word = '', state = ''] = words;
  const noisy = state === 'noisy';
  const lines = [meaningOf(record, run), ...reasonsOf(record)].filter(Boolean);
  const slack = word === 'met' ? slackOf(record) : null;
  const text = slack === null ? word : `${word} (${slack.toFixed(1)} ×)`;
  // Only a value is shown as right: the results of siblings say little about the machine.
  const kind = word === 'within' && record.prediction?.self_consistency ? 'self' : word;
  const badge = element('span', { class: `word ${kind.replace(' ', '-')}` }, text);
  const mark = noisy ? [' ', element('span', { class: 'word noisy' }, 'noisy')] : [];
  if (lines.length === 0) return [badge, ...mark];
  const why = element('details', {}, element('summary', {}, badge, ...mark));
  why.append(...lines.map((text) => element('p', {}, text)));
  return [why];
}

function publishedCell(figures: Published[]): Cell {
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

function rowOf(of: Case, run: number, columns: Column[], several: boolean): Row {
  const { record, words, change } = of;
  const [first, ...others] = columns;
  const made = element(
    'tr',
    {},
    several && element('td', {}, letter(run)),
    element('th', { scope: 'row' }, first?.cell(of) ?? []),
    others.map(({ numeric, cell }) => element('td', numeric ? { class: 'number' } : {}, cell(of))),
  );
  const texts = [titleOf(record), nameOf(record), ...parameterTexts(record.params)];
  const text = searchable([...texts, ...words, ...reasonsOf(record), change?.word ?? '']);
  return { run, record, words, text, made, keys: columns.map(({ key }) => key(of)) };
}

/** The cases of each metric together, cache levels in their order. */
function byLevel(rows: Row[]): Row[] {
  const metrics = [...new Set(rows.map(({ record }) => record.metric))];
  const level = ({ record: { metric, params } }: Row): number => levelOf(metric, params);
  const of = (metric: string): Row[] => rows.filter(({ record }) => record.metric === metric);
  return metrics.flatMap((metric) => of(metric).sort((a, b) => level(a) - level(b)));
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
  const columns = columnsOf(contents);
  const made = contents.documents.flatMap((document, run) =>
    document.records.map((record) => {
      const published = publishedOf(contents, run, record);
      const of = { record, document, words: wordsOf(record), published, change: changeOf(record) };
      return rowOf(of, run, columns, several);
    }),
  );
  const rows = inPairs(byLevel(made));
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
    const look = `${numeric ? 'number ' : ''}${name.replaceAll(' ', '-')}`;
    const head = element('th', { scope: 'col', 'aria-sort': 'none', class: look });
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
  const run = element('span', { class: 'unseen' }, 'run');
  const runHead = several && element('th', { scope: 'col', class: 'run' }, run);
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
