// What the program put into the page, and the questions that every part of the page asks of it.

import type { Document, Params, Record as Result, Unit } from './document';
import { atMost, percent, quantity, range } from './quantity';

export type { Document, Params, Result, Unit };

/** Which visits an estimate rests on. */
export type Stratum = NonNullable<Result['summary']>['stratum'];

/** A smaller difference between both estimates is not worth a line. */
const AS_FOUND_MIN = 0.05;

/** What is to be said of a run as a whole, in sentences. */
export interface Told {
  progress: string | null;
  counts: string;
  findings: string[];
  verdict: string | null;
  whole: string[];
}

/** So many records of a run are in a state for one cause. */
export interface Counted {
  state: string;
  cause: string;
  count: number;
  next: string | null;
}

/** Raw values of one process; of long ones every second, third, … value. */
export interface Process {
  every: number;
  values: number[];
  disturbed?: number[];
}

/** A case of both runs that could be compared, as `fathom compare --json` prints it. */
export interface Compared {
  metric: string;
  params: Params;
  unit: Unit;
  a: number;
  b: number;
  noisy_a: boolean;
  noisy_b: boolean;
  ratio: number | null;
  interval: [number, number] | null;
  p_adjusted: number | null;
  noise: number | null;
  /** The visits that are compared on both sides. */
  stratum: Stratum;
  /** How many times slower the core was for B than for A, where it was not as fast. */
  core: number | null;
  /** The share within which nothing changed, where that is the word. */
  unchanged_within: number | null;
  word: string;
}

export interface Comparison {
  noise_runs: number;
  /** How many times slower the core was throughout B than in A, where it was not as fast. */
  core?: number | null;
  differences: unknown[];
  rows: Compared[];
  not_comparable: { metric: string; params: Params; reason: string }[];
  only_a: { metric: string; params: Params }[];
  only_b: { metric: string; params: Params }[];
}

/** A published figure: a number, from and to, or words where the study gives none. */
export type Figure = number | [number, number] | string;

/** What a study published of one case. */
export interface Published {
  metric: string;
  params: Params;
  unit: Unit;
  measured: Figure;
  predicted: Figure | null;
  sd_percent: number | null;
  /** What it includes, where that is not what ours does. */
  protocol: string | null;
  /** For each run, the places of the records that are the same work. */
  like: number[][];
}

export interface Study {
  name: string;
  title: string;
  machine: string;
  protocol: string;
  note: string | null;
  figures: Published[];
}

/** A reason of a verdict, and what to do next. */
export interface Why {
  text: string;
  next?: string;
}

/** What is data in a record, in words. */
export interface Words {
  reasons?: Why[];
  no_model?: string;
}

export interface Contents {
  documents: Document[];
  told: Told[];
  causes: Counted[][];
  /** Of each record of each run. */
  words: Words[][];
  comparison: Comparison | null;
  /** Published figures that lie under those of the runs. */
  study: Study | null;
  samples: Process[][][];
  /** Whether there are raw values that the page has no room for. */
  left_out: boolean;
}

const wordsByRecord = new WeakMap<Result, Words>();

/** Keeps what is to be said of each record, so that whoever has a record can ask for it. */
export function keepWords({ documents, words }: Contents): void {
  documents.forEach((document, run) =>
    document.records.forEach((record, at) => wordsByRecord.set(record, words[run]?.[at] ?? {})),
  );
}

/** Why there is no prediction. */
export const noModelOf = (record: Result): string => wordsByRecord.get(record)?.no_model ?? '';

/** Why the verdict is what it is. */
export const whyOf = (record: Result): Why[] => wordsByRecord.get(record)?.reasons ?? [];

/** What a record may show: nothing else on the page reads its value. */
export type Shown =
  | { kind: 'number'; value: number }
  | { kind: 'bound'; value: number }
  | { kind: 'text'; text: string }
  | { kind: 'nothing' };

/** A run's letter, where there are several. */
export const letter = (run: number): string => String.fromCharCode(65 + run);

export function stands(record: Result): boolean {
  return record.verdict.state === 'valid' || record.verdict.state === 'noisy';
}

export function shown(record: Result, run: Document['run']): Shown {
  const { summary } = record;
  if (!stands(record)) return { kind: 'nothing' };
  if (typeof record.value === 'string') return { kind: 'text', text: record.value };
  if (!summary) return { kind: 'nothing' };
  if (summary.bound != null) return { kind: 'bound', value: summary.bound };
  const trimmed = run.protocol === 'trimmed' ? summary.trimmed : null;
  const value = trimmed ? trimmed.mean : summary.median;
  const absurd = record.unit === 'ns' && value <= 0;
  return Number.isFinite(value) && !absurd ? { kind: 'number', value } : { kind: 'nothing' };
}

/** The number a chart may draw, where there is one. */
export function numberOf(record: Result, run: Document['run']): number | null {
  const what = shown(record, run);
  return what.kind === 'number' ? what.value : null;
}

/** The interval of the number that is shown; the trimmed mean has none. */
export function intervalOf(record: Result, run: Document['run']): [number, number] | null {
  const { summary } = record;
  if (!stands(record) || !summary || summary.bound != null) return null;
  const { interval } = summary;
  return run.protocol === 'trimmed' || !interval ? null : [interval.low, interval.high];
}

/** Standard deviation ÷ mean. */
export function deviationOf(record: Result, run: Document['run']): number | null {
  const { summary } = record;
  if (shown(record, run).kind !== 'number' || !summary || summary.n < 2) return null;
  const { mean, sd } = run.protocol === 'trimmed' ? (summary.trimmed ?? summary) : summary;
  return mean === 0 ? null : sd / Math.abs(mean);
}

/** `full speed, 5 clean of 11`, and the estimate as found where it is another. */
export function strataOf(record: Result, run: Document['run']): string[] {
  const { summary, unit } = record;
  if (!summary || numberOf(record, run) === null) return [];
  const { full_speed: full, as_found: found, stratum, interval } = summary;
  if (!full) return found ? ['as found'] : [];
  const isFull = run.reference?.basis !== 'this_run';
  const speed = isFull ? stratum.replaceAll('_', ' ') : 'fastest in this run';
  const clean = `${speed}, ${full.visits} clean of ${full.of}`;
  if (!found || Math.abs(found.median / full.median - 1) <= AS_FOUND_MIN) return [clean];
  const within = interval && interval.low <= found.median && found.median <= interval.high;
  return within ? [clean] : [clean, `as found ${quantity(found.median, unit)}`];
}

/** `os.syscall{call=stat}`. */
export function nameOf(record: { metric: string; params: Params }): string {
  const list = Object.entries(record.params).map(([name, value]) => `${name}=${value}`);
  return list.length === 0 ? record.metric : `${record.metric}{${list.join(',')}}`;
}

export const groupOf = (metric: string): string => metric.split('.')[0] ?? metric;

/** Whether the prediction was wrong. */
export const fails = ({ agreement }: Result): boolean =>
  agreement === 'outside' || agreement === 'violated';

/** The verdict in words, the weightiest first. */
export function wordsOf(record: Result): string[] {
  const { state } = record.verdict;
  if (!stands(record)) return [state];
  return [record.agreement ?? 'no model', state];
}

/** Why the verdict is what it is, each reason with what to do next. */
export function reasonsOf(record: Result): string[] {
  const told = whyOf(record).map(({ text, next }) => (next ? `${text} → ${next}` : text));
  return [...new Set(told)];
}

/** What a value outside its prediction says of the machine. */
export function meaningOf(record: Result, run: Document['run']): string {
  const value = numberOf(record, run);
  const { prediction } = record;
  if (value === null || !prediction || !fails(record)) return '';
  if (prediction.low != null && value < prediction.low) return prediction.if_below ?? '';
  if (prediction.high != null && value > prediction.high) return prediction.if_above ?? '';
  return '';
}

/** The predicted range or order as text. */
export function predictedRange(record: Result): string {
  const { prediction, unit } = record;
  if (!prediction) return '';
  const { low, high, value } = prediction;
  return low == null && high == null ? range(value, value, unit) : range(low, high, unit);
}

/** The measured value with its interval, in a line of text. */
export function measuredText(record: Result, run: Document['run']): string {
  const what = shown(record, run);
  if (what.kind === 'nothing') return record.verdict.state;
  if (what.kind === 'text') return what.text;
  if (what.kind === 'bound') return atMost(what.value, record.unit);
  const ends = intervalOf(record, run);
  const half = ends && what.value !== 0 ? (ends[1] - ends[0]) / 2 / Math.abs(what.value) : null;
  const about = record.verdict.state === 'noisy' ? '~' : '';
  const width = half === null ? '' : ` ± ${percent(half)}`;
  return `${about}${quantity(what.value, record.unit)}${width}`;
}
