// The list of stored runs: filtered and paged by the server, each with a link; two can be compared.

import { counted } from './compared';
import type { Params, Unit } from './contents';
import type { View } from './element';
import { boxed, element, svgElement } from './element';
import { address, toHistory, toHosts, toRun, toRuns } from './links';
import { parametersText } from './parameters';
import { NOTHING, quantity } from './quantity';
import { statusWord } from './tiles';

export interface Run {
  id: string;
  label?: string;
  started: string;
  state: string;
  effort: string;
  host: string;
  host_id: string | null;
  kernel: string;
  asked?: string[];
  procedure?: string;
  counts: { [state: string]: number };
}

export interface Runs {
  rows: Run[];
  total: number;
  /** Those before the first row. */
  passed: number;
  /** Identity and name. */
  hosts: [string, string][];
  metrics: string[];
  kinds: string[];
  /** The first case of the metric that is filtered by, and its number in each run. */
  trend: Trend | null;
  store: string;
}

interface Trend {
  params: Params;
  unit: Unit;
  values: { [id: string]: number };
}

/** The texts of the address. */
const asked = (): URLSearchParams => new URLSearchParams(location.search);

/** A choice of texts, which need not be taken. */
export const choices = (id: string, all: [string, string][]): HTMLElement =>
  element(
    'datalist',
    { id },
    all.map(([value, text]) => element('option', { value }, text)),
  );

export function field(
  name: string,
  label: string,
  more: { [name: string]: string | number | boolean } = {},
): HTMLElement {
  const value = asked().get(name) ?? '';
  const input = element('input', { id: `of-${name}`, name, value, maxlength: 512, ...more });
  return element('label', { for: `of-${name}` }, `${label} `, input);
}

/** As the list prints it: a browser would show a date as its own language does. */
const DATE = { placeholder: '2026-03-01', size: '10' };

/** The same name is the identity of several hosts where these have no id. */
function namesOf(hosts: Runs['hosts']): [string, string][] {
  const names = hosts.map(([, name]) => name);
  return hosts.map(([id, name]) =>
    names.indexOf(name) === names.lastIndexOf(name) ? [name, ''] : [id, name],
  );
}

function filters({ hosts, metrics, kinds }: Runs): HTMLElement {
  const kind = element('select', { id: 'of-kind', name: 'kind' });
  kind.append(element('option', { value: '' }, 'all'));
  kind.append(...kinds.map((of) => element('option', { value: of }, of)));
  kind.value = asked().get('kind') ?? '';
  const look = { class: 'filters', role: 'search', 'aria-label': 'Filter the runs' };
  const form = element(
    'form',
    { ...look, action: address('/'), method: 'get' },
    field('host', 'Host', { list: 'hosts' }),
    field('label', 'Label'),
    element('label', { for: 'of-kind' }, 'Kind ', kind),
    field('metric', 'Metric', { list: 'metrics', size: '28' }),
    field('since', 'From', DATE),
    field('until', 'To', DATE),
    element('button', { type: 'submit' }, 'Filter'),
    [...asked()].some(([name, value]) => name !== 'page' && value !== '') &&
      element('a', { href: address('/') }, 'Clear'),
    choices('hosts', namesOf(hosts)),
    choices('metrics', metrics.map((metric) => [metric, ''])),
  );
  // An address without the fields that are empty can be read.
  form.addEventListener('formdata', ({ formData }) => {
    for (const [name, value] of [...formData]) if (value === '') formData.delete(name);
  });
  return form;
}

/** `2026-03-01 12:00`. */
export const minute = (started: string): string => started.slice(0, 16).replace('T', ' ');

/** Metrics named in a row at most. */
const NAMED = 3;

/** What a run measured. */
function subject({ asked: metrics = [], procedure }: Run): string {
  if (metrics.length === 0) return procedure ?? 'all metrics';
  const more = metrics.length - NAMED;
  return metrics.slice(0, NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

const NUMBERS = 'valid noisy unavailable invalid failed'.split(' ');

const BAR = { width: 100, height: 8 };

/** A number, and how large it is beside those of the other runs. */
function numberCell(id: string, { unit, values }: Trend): HTMLElement {
  const value = values[id];
  if (value === undefined) return element('td', { class: 'trend' }, NOTHING);
  const most = Math.max(...Object.values(values));
  const width = most > 0 ? (BAR.width * value) / most : 0;
  return element(
    'td',
    { class: 'trend' },
    quantity(value, unit),
    svgElement('svg', { ...BAR, 'aria-hidden': 'true' }, svgElement('rect', { ...BAR, width })),
  );
}

function row(run: Run, { hosts, trend }: Runs): HTMLElement {
  const { id, label, started, state, effort, host, host_id: its, kernel, counts } = run;
  const total = NUMBERS.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
  const same = hosts.filter(([, name]) => name === host).length;
  const side = (name: string): HTMLElement => {
    const label = `${name.toUpperCase()}: run ${id}`;
    const type = { type: 'radio', required: true, 'aria-label': label };
    return element('input', { ...type, name, value: id });
  };
  const hostName = same > 1 && its ? `${host} (${its.slice(0, 8)})` : host || 'unknown';
  return element(
    'tr',
    {},
    element('td', { class: 'sides' }, side('a'), side('b')),
    element(
      'th',
      { scope: 'row' },
      element('a', { href: toRun(id) }, id),
      label !== undefined &&
        element(
          'small',
          {},
          element('a', { href: toRuns({ label }) }, label),
          ' (',
          element('a', { href: toHosts(label), 'aria-label': `Hosts of ${label}` }, 'hosts'),
          ')',
        ),
    ),
    element('td', {}, minute(started), element('small', {}, effort)),
    element('td', {}, element('a', { href: toRuns({ host: its ?? host }) }, hostName)),
    trend && numberCell(id, trend),
    element('td', { class: 'subject', title: (run.asked ?? []).join('\n') }, subject(run)),
    element(
      'td',
      {},
      state === 'complete' ? state : statusWord(state, 'noisy'),
      element('small', {}, `${counts.valid ?? 0} of ${total} valid`),
    ),
    element('td', {}, kernel),
  );
}

function list(data: Runs): HTMLElement {
  const { rows, trend } = data;
  const head = ['A B', 'run', 'started, UTC', 'host', 'measured', 'state', 'kernel'];
  const metric = asked().get('metric') ?? '';
  const name = trend && [metric, parametersText(trend.params)].filter((it) => it).join(', ');
  if (name) head.splice(4, 0, name);
  return element(
    'form',
    { action: address('/compare'), method: 'get', 'aria-label': 'Compare two runs' },
    boxed(
      'Table of stored runs',
      head,
      element(
        'tbody',
        {},
        rows.map((run) => row(run, data)),
      ),
      { id: 'stored' },
      'Stored runs, the last stored first',
    ),
    rows.length > 1 && element('p', {}, element('button', { type: 'submit' }, 'Compare B with A')),
  );
}

/** `1–100 of 10,000 runs`, and the links to the other pages. */
function pages({ rows, total, passed }: Runs): HTMLElement {
  const number = Number(asked().get('page') ?? 1) || 1;
  const page = (at: number, name: string, rel: string): HTMLElement => {
    const to = asked();
    to.set('page', String(at));
    return element('a', { href: address(`/?${to}`), rel }, name);
  };
  const to = passed + rows.length;
  const range = rows.length > 0 && rows.length < total ? `${passed + 1}–${to} of ` : '';
  return element(
    'p',
    { class: 'pages' },
    element('span', {}, range + counted(total, 'run').replace(/\d+/, total.toLocaleString('en'))),
    passed > 0 && page(number - 1, 'Newer', 'prev'),
    to < total && page(number + 1, 'Older', 'next'),
  );
}

export function runs(data: Runs): View {
  const [label, metric] = [asked().get('label'), asked().get('metric')];
  const section = element(
    'section',
    { 'aria-labelledby': 'stored-runs' },
    element('h1', { id: 'stored-runs' }, 'Stored runs'),
    filters(data),
    pages(data),
    label
      ? element('p', {}, element('a', { href: toHosts(label) }, `Hosts with label ${label}`))
      : null,
    metric
      ? element(
          'p',
          {},
          element(
            'a',
            { href: toHistory(metric, asked().get('host') ?? '') },
            `History of ${metric}`,
          ),
        )
      : null,
    data.rows.length > 0
      ? list(data)
      : element(
          'p',
          {},
          data.passed < data.total || asked().size > 0
            ? 'No run matches.'
            : 'The store has no runs; fathom run makes one.',
        ),
    element('p', { class: 'faint' }, `Store: ${data.store}`),
  );
  return { title: 'Fathom: stored runs', links: [], sections: [section] };
}
