// The table of all cases: sorted by its headings, filtered by text, group and verdict.

import type { Case, Cell, Side } from './cells';
import {
  details,
  measuredCell,
  predictedCell,
  publishedCell,
  ratioCell,
  typicalCell,
  verdictCell,
} from './cells';
import type { Contents, Document, Result } from './contents';
import {
  deviationOf,
  groupOf,
  letter,
  nameOf,
  reasonsOf,
  shown,
  titleOf,
  wordsOf,
} from './contents';
import { changesOf } from './compared';
import { boxed, element } from './element';
import { linked, toHistoryOf } from './links';
import { levelOf } from './parameters';
import { publishedOf } from './published';
import { NOTHING, percent, quantity } from './quantity';
import { finder, parameterTexts, searchable } from './search';
import { kindOf } from './tiles';

interface Row {
  record: Result;
  words: string[];
  /** The text that the filter searches. */
  text: string;
  /** The line, and its details while they are open. */
  made: HTMLTableRowElement[];
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
  'met',
  'within',
];

const isNumber = (figure: unknown): figure is number => typeof figure === 'number';

interface Column {
  name: string;
  numeric: boolean;
  /** Values can be compared across units. */
  across?: boolean;
  /** Details have it; a narrow screen has no room. */
  more?: boolean;
  cell: (of: Case) => Cell;
  /** The sort key. */
  key: (of: Case) => string | number | null;
}

/** A column of the first result of a case. */
function ofFirst(
  name: string,
  cell: (side: Side) => Cell,
  key: (side: Side) => string | number | null,
  across = false,
): Column {
  return {
    name,
    numeric: true,
    across,
    more: true,
    cell: ({ sides: [side] }) => (side === undefined ? [] : cell(side)),
    key: ({ sides: [side] }) => (side === undefined ? null : key(side)),
  };
}

/** The measured value of each run. */
const measured = ({ documents }: Contents): Column[] =>
  documents.map((_, run) => {
    const of = ({ sides }: Case): Side | undefined => sides.find((side) => side.run === run);
    return {
      name: documents.length > 1 ? letter(run) : 'measured',
      numeric: true,
      cell: (of_case) => measuredCell(of(of_case)),
      key: (of_case) => {
        const side = of(of_case);
        return side === undefined ? null : sizeOf(side.record, side.document.run);
      },
    };
  });

/** The change between two runs. */
const changes: Column[] = [
  {
    name: 'ratio B ÷ A',
    numeric: true,
    across: true,
    cell: ({ change }) => (change === null ? [NOTHING] : ratioCell(change)),
    key: ({ change }) => change?.ratio ?? null,
  },
  {
    name: 'change',
    numeric: false,
    across: true,
    cell: ({ change }) => [
      element('span', { class: `word k${kindOf(change?.kind ?? '')}` }, change?.short ?? ''),
    ],
    key: ({ change }) => change?.word ?? null,
  },
];

/** The columns; those that a narrow screen has come first. */
function columnsOf(contents: Contents): Column[] {
  const several = contents.documents.length > 1;
  const part = (of: 'hardware' | 'software'): Column =>
    ofFirst(
      of,
      ({ record }) => [quantity(record.prediction?.[of], record.unit, 3)],
      ({ record }) => record.prediction?.[of] ?? null,
    );
  const deviation = ({ record, document }: Side): number | null =>
    deviationOf(record, document.run);
  const predicted = ofFirst(
    'predicted',
    ({ record }) => predictedCell(record),
    ({ record: { prediction: of } }) => of?.value ?? of?.low ?? of?.high ?? null,
  );
  const published = ofFirst(
    'published',
    (side) => publishedCell(side.published),
    (side) => side.published.map(({ measured }) => measured).find(isNumber) ?? null,
  );
  const typical = ofFirst(
    'typical',
    ({ record }) => typicalCell(record),
    ({ record }) => record.typical?.median ?? null,
  );
  const spread = ofFirst(
    'sd',
    (side) => [deviation(side) === null ? NOTHING : percent(deviation(side) ?? 0)],
    deviation,
    true,
  );
  return [
    {
      name: 'operation',
      numeric: false,
      cell: ({ sides: [side] }) => {
        if (side === undefined) return [];
        return [linked(titleOf(side.record), toHistoryOf(side.record, side.document))];
      },
      key: ({ sides: [side] }) => (side === undefined ? null : nameOf(side.record)),
    },
    ...measured(contents),
    ...(contents.comparison === null ? [] : changes),
    {
      name: 'verdict',
      numeric: false,
      across: true,
      more: contents.comparison !== null,
      cell: (of) => verdictCell(of, several),
      key: ({ sides: [side] }) =>
        VERDICTS.indexOf(side?.words[0] ?? '') * 2 + (side?.words[1] === 'noisy' ? 0 : 1),
    },
    ...(contents.comparison === null ? [predicted] : []),
    // The details have what has no room beside several values or published ones.
    ...(several || contents.study !== null
      ? []
      : [typical, spread, part('hardware'), part('software')]),
    ...(contents.study === null ? [] : [published]),
  ];
}

/** The sort key of the measured value; for a bound, the limit. */
function sizeOf(record: Result, run: Document['run']): number | null {
  const what = shown(record, run);
  return what.kind === 'number' || what.kind === 'bound' ? what.value : null;
}

/** The line of a case; its button shows and hides the details. */
function rowOf(of: Case, columns: Column[], contents: Contents, update: () => void): Row | null {
  const [side] = of.sides;
  if (side === undefined) return null;
  const { record } = side;
  const [first, ...others] = columns;
  const title = titleOf(record);
  const line = element('tr', {});
  const row: Row = {
    record,
    words: [...new Set(of.sides.flatMap(({ words }) => words))],
    text: '',
    made: [line],
    keys: columns.map(({ key }) => key(of)),
  };
  const opener = element('button', {
    type: 'button',
    class: 'opener',
    'aria-expanded': 'false',
    'aria-label': `Details of ${title}`,
  });
  const toggle = (): void => {
    const open = row.made.length === 1;
    const cell = element('td', { colspan: columns.length }, open && details(of, contents));
    row.made = open ? [line, element('tr', { class: 'more' }, cell)] : [line];
    opener.setAttribute('aria-expanded', String(open));
    update();
    opener.focus({ preventScroll: true });
  };
  // The whole line opens, but for what is to be followed or selected.
  line.addEventListener('click', ({ target }) => {
    if (target instanceof Element && target.closest('a') !== null) return;
    if (getSelection()?.isCollapsed !== false) toggle();
  });
  const long = `${title}\n${nameOf(record)}`;
  const name = element('span', { class: 'name', title: long }, first?.cell(of));
  line.append(
    element('th', { scope: 'row' }, opener, name),
    ...others.map((column) => element('td', { class: look(column) }, column.cell(of))),
  );
  const texts = of.sides.flatMap(({ record, words }) => [...words, ...reasonsOf(record)]);
  const names = [title, nameOf(record), ...parameterTexts(record.params)];
  row.text = searchable([...names, ...texts, of.change?.word ?? '']);
  return row;
}

const look = ({ name, numeric, more }: Column): string =>
  [numeric && 'number', more && 'wide', name.replaceAll(' ', '-')].filter(Boolean).join(' ');

/** The results of all runs by case, in the order of the first run that has it. */
function casesOf(contents: Contents): Case[] {
  const changeOf = contents.comparison === null ? () => null : changesOf(contents);
  const cases = new Map<string, Case>();
  contents.documents.forEach((document, run) =>
    document.records.forEach((record) => {
      const published = publishedOf(contents, run, record);
      const side = { run, record, document, words: wordsOf(record), published };
      const known = cases.get(nameOf(record));
      // A run that measured a case twice has two rows.
      const again = known?.sides.some((other) => other.run === run) === true;
      if (known !== undefined && !again) known.sides.push(side);
      else
        cases.set(again ? `${nameOf(record)} ${cases.size}` : nameOf(record), {
          sides: [side],
          change: changeOf(record),
        });
    }),
  );
  return [...cases.values()];
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
  const cases = casesOf(contents);
  // Without a value in any row a column takes room only.
  const columns = columnsOf(contents).filter(
    ({ more, key }) => more !== true || cases.some((of) => key(of) !== null),
  );
  const made = cases.flatMap((of) => rowOf(of, columns, contents, () => update()) ?? []);
  const rows = byLevel(made);
  const looks = [
    contents.comparison && 'paired',
    contents.documents.length > 2 && 'many',
  ].filter(Boolean);
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
    body.replaceChildren(...fits.flatMap((row) => row.made));
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
  const heads = columns.map((of, column) => {
    const { name } = of;
    const head = element('th', { scope: 'col', 'aria-sort': 'none', class: look(of) });
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
  const box = boxed(
    'Table of all cases',
    heads,
    body,
    { id: 'table', class: looks.join(' ') },
    'All cases; click a heading to sort, a row for its details',
  );
  box.classList.add('tall');
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
    box,
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
