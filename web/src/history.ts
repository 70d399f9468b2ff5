// The history of a metric: a chart of each case with its change points, and what else changed then.

import type { Change, Point, Series } from './charts/timeline';
import { drawTimeline, hasCut } from './charts/timeline';
import { figure } from './charts/figure';
import type { Unit } from './contents';
import { nameOf } from './contents';
import type { View } from './element';
import { element } from './element';
import { address, isLive, toComparison, toHistory, toRun, toRuns } from './links';
import { parametersText } from './parameters';
import { NOTHING, atMost, factor, percent, quantity } from './quantity';
import { choices, field, minute } from './runs';

/** A metric on a host. */
interface History {
  metric: string;
  host: string;
  host_id: string;
  series: Series[];
  imposed: string[];
  emulated?: string[];
  without: number;
  other_hosts: string[];
}

export interface Histories {
  metric: string;
  titles: (string | null)[];
  all: History[];
  earlier: number[][];
  damaged: string[];
  hosts: [string, string][];
  /** All that have a history, where none was asked for, each with the host of its newest run. */
  metrics: [string, string][];
}

/** `+12 %, worse`. */
function size({ ratio, worse }: Change): string {
  const sign = ratio > 1 ? '+' : '−';
  const words = ratio > 2 ? factor(ratio) : `${sign}${percent(Math.abs(ratio - 1))}`;
  return words + (worse === null ? '' : worse ? ', worse' : ', better');
}

/** The changes of a series, with the facts that differ between the runs around each. */
function changes({ changes: all, unit }: Series, name: string): HTMLElement | null {
  if (all.length === 0) return null;
  const items = all.map((change) => {
    const { run, after_run: before, started, as_found: found, differences, p } = change;
    const values = `${quantity(change.before, unit)} → ${quantity(change.after, unit)}`;
    const facts = differences.map(({ what, a, b }) => `${what} ${a} → ${b}`).join('; ');
    const chance = p < 1e-4 ? '< 0.0001' : `= ${p.toPrecision(2)}`;
    return element(
      'li',
      {},
      element('a', { href: toRun(run) }, minute(started)),
      ': ',
      element('strong', { class: change.worse === true ? 'outside' : '' }, size(change)),
      `, ${values}${found ? ', all processes' : ''}, p ${chance} `,
      element('a', { href: toComparison(before, run) }, 'compare'),
      element(
        'small',
        {},
        facts === '' ? 'no recorded differences' : `changed with it: ${facts}`,
      ),
    );
  });
  return element('ul', { class: 'changes', 'aria-label': `Changes of ${name}` }, items);
}

/** Why a point has no mark, or not the usual one. */
const noteOf = ({ slow, state, cut_short: cut }: Point): string =>
  [slow && 'all processes', state !== 'valid' && state, cut && 'interrupted']
    .filter(Boolean)
    .join(', ');

function valueOf({ value, bound }: Point, unit: Unit): string {
  if (value !== null) return quantity(value, unit);
  return bound !== null ? atMost(bound, unit) : NOTHING;
}

function chart(series: Series, history: History, at: string, earlier: number): HTMLElement {
  const { points, params, far, unit, effort } = series;
  const name = nameOf({ metric: history.metric, params });
  const title = [parametersText(params) || history.metric, far && `far end ${far}`, effort]
    .filter(Boolean)
    .join(', ');
  const drawable = points.filter(({ value }) => value !== null);
  const without = points.length - drawable.length;
  const notes = [
    earlier > 0 && `${earlier} earlier runs are not drawn; fathom history has them.`,
    without > 0 && `${without} of ${points.length} runs without a number.`,
    drawable.some(({ slow }) => slow) &&
      'Grey: runs in another state of the core, left out of the change detection.',
    hasCut(series) && 'Wider intervals are cut at the edges; the data have them.',
    series.explained > 0 &&
      `${series.explained} changes left out: the core frequency changed as much.`,
  ];
  const interval = ({ interval: ends }: Point): string =>
    ends === null ? NOTHING : `${quantity(ends[0], unit)} to ${quantity(ends[1], unit)}`;
  const framed = figure({
    id: `case-${at}`,
    title,
    says:
      series.changes.length === 0
        ? 'A point a run, with its 95 % interval; no lasting change.'
        : 'A point a run, with its 95 % interval; dashed: lasting changes; the mean between them.',
    notes: notes.filter((note) => typeof note === 'string'),
    wide: true,
    links: true,
    draw: drawable.length === 0 ? null : (width) => [drawTimeline(series, width)],
    csv: () => [
      ['run', 'started', 'metric', 'unit', 'value', 'low', 'high', 'bound', 'state'],
      ...points.map((point) => [
        ...[point.run, point.started, name, unit],
        ...[point.value, ...(point.interval ?? [null, null]), point.bound].map((of) =>
          of == null ? '' : String(of),
        ),
        point.state,
      ]),
    ],
    head: ['run', 'started, UTC', 'value', '95 % interval', 'note'],
    rows: () =>
      [...points].reverse().map((point) => [
        element('a', { href: toRun(point.run) }, point.label ?? point.run),
        ...[minute(point.started), valueOf(point, unit), interval(point), noteOf(point)],
      ]),
  });
  const several = history.series.length > 1;
  return element(
    'div',
    { class: 'wide' },
    framed,
    changes(series, title),
    several &&
      element('p', {}, element('a', { href: toHistory(name, history.host_id) }, `Only ${name}`)),
  );
}

/** The form for another metric or host. */
function choice({ metric, hosts }: Histories): HTMLElement {
  const look = { class: 'filters', role: 'search', 'aria-label': 'Choose a history' };
  return element(
    'form',
    { ...look, action: address('/history'), method: 'get' },
    field('metric', 'Metric', { value: metric, required: true, size: 32 }),
    field('host', 'Host', { list: 'hosts' }),
    element('button', { type: 'submit' }, 'Show'),
    choices('hosts', hosts),
  );
}

function ofHost(data: Histories, at: number): HTMLElement {
  const one = data.all[at];
  if (one === undefined) return element('section', {});
  const title = data.titles[at];
  const id = `history-${at}`;
  const aside = [
    one.imposed.length > 0 && `Left out, because of test settings: ${one.imposed.join(', ')}.`,
    (one.emulated?.length ?? 0) > 0 &&
      `Left out, because the CPU is emulated: ${one.emulated?.join(', ')}.`,
    one.other_hosts.length > 0 && `Also measured on ${one.other_hosts.join(', ')}.`,
  ];
  return element(
    'section',
    { 'aria-labelledby': id },
    element('h2', { id }, `${title ?? one.metric} on ${one.host}`),
    element(
      'p',
      { class: 'around' },
      element('code', {}, one.metric),
      element('a', { href: toRuns({ host: one.host_id, metric: one.metric }) }, 'Its runs'),
    ),
    one.series.length === 0 && element('p', {}, 'No comparable run.'),
    element(
      'div',
      { class: 'charts' },
      one.series.map((series, of) =>
        chart(series, one, `${at}-${of}`, data.earlier[at]?.[of] ?? 0),
      ),
    ),
    aside
      .filter((text) => typeof text === 'string')
      .map((text) => element('p', { class: 'faint' }, text)),
  );
}

export function history(data: Histories): View {
  const { metric, damaged, metrics } = data;
  const top = element(
    'section',
    { 'aria-label': 'choice' },
    element('h1', {}, metric === '' ? 'Histories' : `History of ${metric}`),
    isLive() && choice(data),
    metrics.length > 0 &&
      element(
        'ul',
        {},
        metrics.map(([one, host]) =>
          element('li', {}, element('a', { href: toHistory(one, host) }, one)),
        ),
      ),
    damaged.map((error) => element('p', { class: 'warn' }, `Skipped: ${error}`)),
  );
  return {
    title: metric === '' ? 'Fathom: histories' : `Fathom: history of ${metric}`,
    links: [],
    sections: [top, ...data.all.map((_, at) => ofHost(data, at))],
  };
}
