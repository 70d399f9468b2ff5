// The page of many hosts: which are odd, the number of each in the main cases, numbers between
// hosts, and what each host measured.

import type { Strip } from './charts/strip';
import { drawStrip, stripRows } from './charts/strip';
import type { Pairs } from './charts/pairs';
import { drawPairs, pairRows } from './charts/pairs';
import { figure } from './charts/figure';
import { counted } from './compared';
import type { View } from './element';
import { element, facts, plainTable } from './element';
import { linked, toRun, toRuns } from './links';
import { quantity } from './quantity';

/** A group of hosts of the same hardware. */
export interface Group {
  machine: string;
  names: string;
  hosts: string[];
  is_judged: boolean;
  cases: string | null;
  odd: string[][];
  facts: string[][];
  uniform: string[][];
  not_judged: string[];
  strips: Strip[];
  runs: string[][];
  /** Hosts without a valid number. */
  without: string;
}

export interface Fleet {
  name: string;
  verdict: string;
  tone: 'good' | 'care' | 'bad';
  hosts: number;
  groups: Group[];
  matrices: Pairs[];
}

const list = (texts: string[]): HTMLElement =>
  element(
    'ul',
    {},
    texts.map((text) => element('li', {}, text)),
  );

/** One group: what is odd, what all have in common, and what was not judged. */
function judged(group: Group, several: boolean): HTMLElement {
  const { odd, facts: odd_facts, uniform, not_judged: open } = group;
  const of = several ? ` of ${group.names}` : '';
  const facts_of: [string, string | null][] = [
    ['hosts', `${group.hosts.length}: ${group.names}`],
    ['machine', group.machine],
    ['cases', group.cases],
    ['no valid number', group.without === '' || group.cases === null ? null : group.without],
  ];
  const part = (heading: string, body: HTMLElement | false): HTMLElement[] =>
    body === false ? [] : [element(several ? 'h3' : 'h2', { class: 'minor' }, heading), body];
  const rowsOf = (heading: string, head: string[], rows: string[][]): HTMLElement[] =>
    part(heading, rows.length > 0 && plainTable(`${heading}${of}`, head, rows));
  return element(
    'article',
    {},
    several && element('h2', {}, `${counted(group.hosts.length, 'host')}: ${group.names}`),
    facts(
      facts_of.filter(([, text]) => text !== null),
      { class: 'facts' },
    ),
    rowsOf(
      'Odd numbers',
      ['host', 'case', 'number', 'median of the group', 'by', 'difference'],
      odd,
    ),
    rowsOf(
      'Odd facts',
      ['fact', 'hosts', 'value', 'usual value', 'hosts with the usual value'],
      odd_facts,
    ),
    rowsOf(
      'Slow on all hosts',
      ['case', 'median', '÷ predicted', 'hosts', 'beside published machines'],
      uniform,
    ),
    part('Not judged', open.length > 0 && list(open)),
  );
}

function strip(drawn: Strip, { hosts }: Group, id: string): HTMLElement {
  const { typical, unit, without } = drawn;
  const title = drawn.title || drawn.case;
  const missing = without.slice(0, NAMED).map(([at, why]) => `${hosts[at]} (${why})`);
  const more = without.length - missing.length;
  const says = [
    title === drawn.case ? '' : `${drawn.case}. `,
    `A point a host; median ${quantity(drawn.median, unit)}`,
    typical === null ? '.' : '; band: where 90 % of published machines are.',
  ];
  return figure({
    id,
    title,
    says: says.join(''),
    notes: [
      ...(typical === null ? [] : [`Band: ${typical[2]}.`]),
      ...(missing.length === 0
        ? []
        : [`Without a number: ${missing.join(', ')}${more > 0 ? ` and ${more} more` : ''}.`]),
    ],
    draw: (width) => [drawStrip(drawn, hosts, width)],
    ...stripRows(drawn, hosts),
  });
}

/** Hosts named below a strip at most; the table has all. */
const NAMED = 8;

function pairs(drawn: Pairs, at: number): HTMLElement {
  const bad = [
    ...drawn.bad_hosts.map(([host, words]) => `${drawn.hosts[host]} is bad: ${words}`),
    ...drawn.bad_links.map(([, words]) => `Bad link: ${words}`),
  ];
  const usual = drawn.usual === null ? '' : `; usual: ${quantity(drawn.usual, drawn.unit)}`;
  return figure({
    id: `pairs-${at}`,
    title: `Between hosts: ${drawn.case}`,
    says: `From the host of a row to that of a column, by its ratio to the median${usual}.`,
    notes: [
      ...bad.map((text) => `${text}.`),
      ...(bad.length === 0 && drawn.usual !== null ? ['No bad host and no bad link.'] : []),
      ...drawn.not_judged.map((why) => `Not judged: ${why}.`),
    ],
    wide: true,
    draw: (width) => drawPairs(drawn, width),
    ...pairRows(drawn),
  });
}

const section = (id: string, heading: string, ...body: HTMLElement[]): HTMLElement =>
  element(
    'section',
    { id, 'aria-labelledby': `${id}-name` },
    element('h2', { id: `${id}-name` }, heading),
    body,
  );

export function fleet(data: Fleet): View {
  const groups = data.groups.filter(
    ({ is_judged: is, odd, facts }) => is || odd.length + facts.length > 0,
  );
  const small = data.groups.filter((group) => !groups.includes(group));
  const several = groups.length > 1;
  const name = data.name === '' ? counted(data.hosts, 'host') : data.name;
  const top = element(
    'section',
    { 'aria-label': 'summary' },
    element('h1', {}, name),
    element('p', { class: `verdict ${data.tone}` }, data.verdict),
    groups.map((group) => judged(group, several)),
    small.length > 0 && element('h2', {}, 'Groups of fewer than 5 hosts'),
    small.length > 0 && list(small.map(({ names, machine }) => `${names}: ${machine}`)),
  );
  const strips = data.groups.flatMap((group, of) => {
    const own = group.strips.map((one, at) => strip(one, group, `strip-${of}-${at}`));
    const head = data.groups.length > 1 && own.length > 0;
    const heading = element('h3', { class: 'none' }, group.names);
    return own.length > 0 ? [...(head ? [heading] : []), ...own] : [];
  });
  const sections: [string, string, HTMLElement[]][] = [
    ['numbers', 'Numbers', [element('div', { class: 'charts' }, strips)]],
    ['pairs', 'Pairs', [element('div', { class: 'charts' }, data.matrices.map(pairs))]],
    ['hosts', 'Hosts', data.groups.map(runs)],
  ];
  const empty = [strips.length === 0 && 'numbers', data.matrices.length === 0 && 'pairs'];
  const shown = sections.filter(([id]) => !empty.includes(id));
  return {
    title: `Fathom report: ${name}`,
    links: shown.map(([id, heading]) => [id, heading]),
    sections: [top, ...shown.map(([id, heading, body]) => section(id, heading, ...body))],
  };
}

const runs = ({ runs: rows, names }: Group): HTMLElement =>
  plainTable(
    `Runs of ${names}`,
    ['host', 'newest run', 'started, UTC', 'records of all runs'],
    rows.map(([host = '', run = '', ...others]) => [
      linked(host, toRuns({ host })),
      // With its label in parentheses.
      linked(run, toRun(run.split(' ')[0] ?? '')),
      ...others,
    ]),
  );
