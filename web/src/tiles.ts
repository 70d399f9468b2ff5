// Results as numbers: the tiles at the beginning of the page, and charts of a single point.

import type { Compared, Contents, Document, Result, Tile, Trend } from './contents';
import {
  expectedText,
  fails,
  hasNumber,
  letter,
  nameOf,
  numberOf,
  reasonsOf,
  titleOf,
  valueText,
  whyOf,
  widthText,
} from './contents';
import { element, svgElement } from './element';
import { linked, toHistoryOf } from './links';
import { parametersText } from './parameters';
import { factor, factorLimits, percent, quantity, range } from './quantity';

/** Cases named at most as those that changed most. */
const CHANGED_MAX = 10;
const SPARK = { width: 120, height: 28, edge: 4 };
/** A smaller range of values fills only a part of a sparkline: noise is not blown up. */
const SPARK_RANGE_MIN = 0.05;

/** A status word with the class of its colour. */
export const statusWord = (word: string, of = word): HTMLElement =>
  element('span', { class: `word ${of.replaceAll(' ', '-')}` }, word);

/** The state of a record; for a valid number outside its prediction or bound, that. */
function status(record: Result): HTMLElement {
  const { state } = record.verdict;
  if (!fails(record) || !hasNumber(record)) return statusWord(state);
  const failed = record.agreement ?? '';
  return state === 'noisy' ? statusWord(`noisy, ${failed}`, 'noisy') : statusWord(failed);
}

/** `19,200 IOPS at queue depth 1`. */
function iopsText(latency: number): string {
  const rate = Number((1e9 / latency).toPrecision(3));
  return `${rate.toLocaleString('en')} IOPS at queue depth 1`;
}

/** The newest change of a history: `+12 % since 2026-11-22, worse`. */
function changeText({ ratio, started, worse }: NonNullable<Trend['change']>): string {
  const size = `${ratio > 1 ? '+' : '−'}${percent(Math.abs(ratio - 1))}`;
  const direction = worse === null ? '' : worse ? ', worse' : ', better';
  return `${size} since ${started.slice(0, 10)}${direction}`;
}

/** The history of a case: its line, its range, and its newest change. */
function trendOf({ points, stratum, change }: Trend, record: Result): HTMLElement {
  const values = points.map(({ value }) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const middle = (least + most) / 2;
  const half = Math.max((most - least) / 2, (Math.abs(middle) * SPARK_RANGE_MIN) / 2) || 1;
  const { width, height, edge } = SPARK;
  const x = (at: number): number => edge + (at / (points.length - 1)) * (width - 2 * edge);
  const y = (value: number): number =>
    height / 2 - ((value - middle) / half) * (height / 2 - edge);
  const places = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const last = values.length - 1;
  const found = stratum === 'as_found' && record.summary?.stratum !== 'as_found';
  const spread = range(least, most, record.unit);
  const text = `${points.length} runs: ${spread}${found ? ', all processes' : ''}`;
  return element(
    'div',
    { class: 'trend' },
    svgElement(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Stored runs, ${text}` },
      svgElement('polyline', { points: places.join(' ') }),
      svgElement('circle', { cx: x(last), cy: y(values[last] ?? 0), r: 2.5 }),
    ),
    element('small', found ? { title: 'Estimates over all processes, disturbed ones too' } : {}, text),
    change !== null &&
      element('small', { class: change.worse === true ? 'noisy' : '' }, changeText(change)),
  );
}

/** A result as a number, its status first. */
export function card(
  title: string,
  record: Result,
  run: Document['run'],
  { iops = false, trend = null, to = '' }: Partial<Tile> & { to?: string } = {},
): HTMLElement {
  const parameters = parametersText(record.params);
  const why = whyOf(record).map(({ text }) => text);
  const value = numberOf(record, run);
  return element(
    'li',
    { class: 'tile', title: reasonsOf(record).join('\n') || nameOf(record) },
    status(record),
    element('strong', { class: 'name' }, to === '' ? title : linked(title, to)),
    hasNumber(record) &&
      element(
        'span',
        { class: 'value' },
        valueText(record, run),
        ' ',
        element('span', { class: 'width' }, widthText(record, run)),
      ),
    iops && value !== null && element('span', { class: 'rate' }, iopsText(value)),
    hasNumber(record) && expectedText(record) !== '' && element('small', {}, expectedText(record)),
    parameters !== '' && element('small', {}, parameters),
    why.length > 0 && element('small', { class: 'cause' }, why[0]),
    trend && trendOf(trend, record),
  );
}

/** Results as numbers, side by side. */
export const cards = (label: string, all: HTMLElement[]): HTMLElement =>
  element('ul', { class: 'tiles', 'aria-label': label }, all);

/** The tiles of a run. */
export function tiles(all: Tile[], document: Document): HTMLElement | null {
  const made = all.flatMap((tile) => {
    const record = document.records[tile.record];
    if (record === undefined) return [];
    return [card(tile.title, record, document.run, { ...tile, to: toHistoryOf(record, document) })];
  });
  return made.length === 0 ? null : cards('main results', made);
}

/** The colours of the words for a change: 1 better, 2 worse, 3 neither. */
const KINDS: { [word: string]: number } = { faster: 1, better: 1, slower: 2, worse: 2, changed: 3 };

/** The colour of a word of a comparison; 0 without a change. */
export const kindOf = (word: string): number => KINDS[word.replace('looks_', '')] ?? 0;

/** The title of a compared case, which has only its metric's id. */
export function comparedTitle(
  { documents }: Contents,
  row: Pick<Compared, 'metric' | 'params'>,
): string {
  const same = (record: Result): boolean => record.metric === row.metric;
  const title = documents.flatMap(({ records }) => records).find(same)?.title;
  return titleOf({ title: title ?? row.metric, params: row.params });
}

/** The cases that changed most between two runs, the largest change first. */
export function changedMost(contents: Contents): HTMLElement[] {
  // A change is before one that looks like it, the larger first.
  const size = ({ ratio, word }: Compared): number =>
    Math.abs(Math.log(ratio ?? 1)) + (word.startsWith('looks') ? 0 : 1e3);
  const rows = (contents.comparison?.rows ?? []).filter(
    ({ ratio, word }) => ratio !== null && ratio > 0 && kindOf(word) > 0,
  );
  const most = [...rows].sort((a, b) => size(b) - size(a)).slice(0, CHANGED_MAX);
  if (contents.comparison === null) return [];
  if (most.length === 0) return [element('p', {}, 'No case changed beyond the noise.')];
  const made = most.map((row) => {
    const ratio = row.ratio ?? 1;
    const noisy = [row.noisy_a, row.noisy_b].flatMap((is, run) => (is ? [letter(run)] : []));
    return element(
      'li',
      { class: 'tile', title: nameOf(row) },
      statusWord(row.word.replaceAll('_', ' '), `k${kindOf(row.word)}`),
      element('strong', { class: 'name' }, comparedTitle(contents, row)),
      element('span', { class: 'value' }, factor(ratio)),
      row.interval && element('small', {}, `${factorLimits(row.interval, ratio)} ×`),
      element('small', {}, `${quantity(row.a, row.unit)} → ${quantity(row.b, row.unit)}`),
      noisy.length > 0 && element('small', { class: 'noisy' }, `noisy in ${noisy.join(' and ')}`),
    );
  });
  const rest = rows.length - most.length;
  const more = rest > 0 && element('p', { class: 'faint' }, `The table has ${rest} more.`);
  return [
    element('h2', { class: 'minor' }, 'Changed most, B ÷ A'),
    cards('changed most', made),
    ...(more ? [more] : []),
  ];
}
