// The data of the page, and accessors for all of its parts.

import type { Document, Params, Record as Result, Unit } from './document';
import { parametersText } from './parameters';
import { NOTHING, atMost, percent, quantity, range } from './quantity';

export type { Document, Params, Result, Unit };

/** Which visits an estimate rests on. */
export type Stratum = NonNullable<Result['summary']>['stratum'];

/** Smaller differences between both estimates are not shown. */
const AS_FOUND_MIN = 0.05;

/** Sentences about a whole run. */
interface Closing {
  progress: string | null;
  counts: string;
  findings: string[];
  verdict: string | null;
  whole: string[];
}

/** A line of a list of an answer. */
export interface Item {
  text: string;
  detail?: string;
  /** The verdict by which the table shows the results that it counts. */
  show?: string;
}

/** What the page of a run begins with. */
export interface Answer {
  mood: 'good' | 'care' | 'bad';
  verdict: string[];
  ignore: Item[];
  unusual: Item[];
  /** What was compared if nothing is unusual. */
  usual: string;
  next: Item[];
}

/** A case in the stored runs of its host, oldest first. */
export interface Trend {
  stratum: Stratum;
  points: { run: string; started: string; value: number; state: string }[];
  /** The newest lasting change. */
  change: { started: string; ratio: number; worse: boolean | null } | null;
}

/** A result that the page begins with. */
export interface Tile {
  title: string;
  /** The index of its record. */
  record: number;
  /** Whether to print the reads per second as well. */
  iops: boolean;
  trend: Trend | null;
}

/** Raw values of one process, or every n-th of them. */
export interface Process {
  every: number;
  values: number[];
  disturbed?: number[];
}

/** A comparison of one case, as printed by `fathom compare --json`. */
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
  /** The visits compared on both sides. */
  stratum: Stratum;
  /** How many times slower the core was for B than for A, if it differed. */
  core: number | null;
  /** The share within which nothing changed, if unchanged. */
  unchanged_within: number | null;
  word: string;
  /** What is left of it net of its class. */
  net: { ratio: number; interval: [number, number]; word: string } | null;
  /** What it is counted as. */
  share: keyof typeof SHARES;
  /** The difference by the terms of its model. */
  split?: Split | null;
}

/** A difference by terms, in the unit of the number; the last half widths of 95 % intervals. */
interface Split {
  difference: number;
  /** The largest first; B ÷ A of the input. */
  terms: { name: string; difference: number; ratio: number }[];
  unexplained: number;
  error: number;
}

/** The words for what a case of a comparison is counted as. */
export const SHARES = {
  differs: 'differ',
  with_class: 'moved with their class',
  on_edge: 'on the edge of a cache',
  cpus_farther: 'with CPUs farther apart',
  cpus_nearer: 'with CPUs nearer',
  unchanged: 'unchanged',
  inconclusive: 'inconclusive',
  says_nothing: 'too noisy',
};

/** What the cases that share a resource have in common. */
export interface Factor {
  class: string;
  slower: number;
  interval: [number, number];
  moved: boolean;
  agree: number;
  members: unknown[];
  core?: number | null;
  /** Whether that explains it. */
  with_core: boolean;
  distances?: [number, number] | null;
  suspects?: { what: string; a: string; b: string }[];
}

export interface Comparison {
  noise_runs: number;
  /** First those that moved. */
  factors: Factor[];
  /** How many unchanged cases are expected to look changed by chance. */
  false_alarms: number;
  /** Hours between both runs, if they are many. */
  hours_apart?: number | null;
  /** How many times slower the core was throughout B than in A, if it differed. */
  core?: number | null;
  differences: unknown[];
  rows: Compared[];
  not_comparable: { metric: string; params: Params; reason: string }[];
  only_a: { metric: string; params: Params }[];
  only_b: { metric: string; params: Params }[];
}

/** A published figure: a number, a range, or words. */
export type Figure = number | [number, number] | string;

/** A published result for one case. */
export interface Published {
  metric: string;
  params: Params;
  unit: Unit;
  measured: Figure;
  predicted: Figure | null;
  sd_percent: number | null;
  /** Differences of its work from ours. */
  protocol: string | null;
  /** For each run, the indices of the records with the same work. */
  like: number[][];
}

interface Study {
  name: string;
  title: string;
  machine: string;
  protocol: string;
  note: string | null;
  figures: Published[];
}

/** A reason of a verdict, and its remedy. */
export interface Why {
  text: string;
  next?: string;
}

/** Texts for the data of a record. */
interface Words {
  reasons?: Why[];
  no_model?: string;
  no_model_word?: string;
}

export interface Contents {
  documents: Document[];
  /** Per run. */
  answers: Answer[];
  closing: Closing[];
  /** Per run. */
  tiles: Tile[][];
  /** Per run and record. */
  words: Words[][];
  comparison: Comparison | null;
  /** Published figures to draw under those of the runs. */
  study: Study | null;
  samples: Process[][][];
  /** Whether raw values were left out because the page would be too large. */
  left_out: boolean;
}

const wordsByRecord = new WeakMap<Result, Words>();

/** Makes the texts of every record accessible by the record. */
export function keepWords({ documents, words }: Contents): void {
  documents.forEach((document, run) =>
    document.records.forEach((record, at) => wordsByRecord.set(record, words[run]?.[at] ?? {})),
  );
}

export const noModelOf = (record: Result): string => wordsByRecord.get(record)?.no_model ?? '';

/** What stands in the place of a prediction. */
export const wordOfNone = (record: Result): string =>
  wordsByRecord.get(record)?.no_model_word ?? 'no model';

export const whyOf = (record: Result): Why[] => wordsByRecord.get(record)?.reasons ?? [];

/** What may be shown of a record; no other code reads its value. */
export type Shown =
  | { kind: 'number'; value: number }
  | { kind: 'bound'; value: number }
  | { kind: 'text'; text: string }
  | { kind: 'nothing' };

/** The letter of a run, if there are several. */
export const letter = (run: number): string => String.fromCharCode(65 + run);

export function hasNumber(record: Result): boolean {
  return record.verdict.state === 'valid' || record.verdict.state === 'noisy';
}

export function shown(record: Result, run: Document['run']): Shown {
  const { summary } = record;
  if (!hasNumber(record)) return { kind: 'nothing' };
  if (typeof record.value === 'string') return { kind: 'text', text: record.value };
  if (!summary) return { kind: 'nothing' };
  if (summary.bound != null) return { kind: 'bound', value: summary.bound };
  const trimmed = run.protocol === 'trimmed' ? summary.trimmed : null;
  const value = trimmed ? trimmed.mean : summary.median;
  const absurd = record.unit === 'ns' && value <= 0;
  return Number.isFinite(value) && !absurd ? { kind: 'number', value } : { kind: 'nothing' };
}

/** `worse than all 49 machine types with AMD EPYC Genoa and up to 4 CPUs`. */
export function placeOf({ typical }: Result): string {
  if (!typical) return '';
  const { n, cpu, size, better, worse, position, not_judged: why } = typical;
  const types = `${n} machine types with ${cpu}${size ? ` and ${size}` : ''}`;
  if (position === 'not_judged') return `not judged beside ${types}: ${why ?? 'core shared'}`;
  const count = position === 'better' ? worse : better;
  const share = count === n ? 'all' : `${Math.floor((100 * count) / n)} % of`;
  return position === 'typical' ? `typical of ${types}` : `${position} than ${share} ${types}`;
}

/** The number that a chart may draw. */
export function numberOf(record: Result, run: Document['run']): number | null {
  const what = shown(record, run);
  return what.kind === 'number' ? what.value : null;
}

/** The interval of the number shown; a trimmed mean has none. */
export function intervalOf(record: Result, run: Document['run']): [number, number] | null {
  const { summary } = record;
  if (!hasNumber(record) || !summary || summary.bound != null) return null;
  const { interval } = summary;
  return run.protocol === 'trimmed' || !interval ? null : [interval.low, interval.high];
}

/** Of an edge, the measured points on both sides. */
export function edgeOf(record: Result, run: Document['run']): [number, number] | null {
  const ends = intervalOf(record, run);
  if (!ends || record.summary?.interval?.basis === 'grid') return ends;
  const half = (ends[1] - ends[0]) / 2 / Math.abs(numberOf(record, run) ?? 0);
  const isOnCliff = half > CLIFF_MIN && factsOf(record, 'between levels').length > 0;
  return isOnCliff ? ends : null;
}

/** From this half width on a case between two levels of memory has no number. */
const CLIFF_MIN = 0.1;

/** Standard deviation ÷ mean. */
export function deviationOf(record: Result, run: Document['run']): number | null {
  const { summary } = record;
  if (shown(record, run).kind !== 'number' || !summary || summary.n < 2) return null;
  const { mean, sd } = run.protocol === 'trimmed' ? (summary.trimmed ?? summary) : summary;
  return mean === 0 ? null : sd / Math.abs(mean);
}

/** The states of the core. */
export const STATES: { [stratum: string]: string } = {
  full_speed: 'core to itself',
  core_at_full_speed: 'core to itself',
  shared: 'core shared',
  slower_clock: 'frequency capped',
  as_found: 'all processes',
};

/** `core to itself, 11 of 12 processes`, and the estimate of all if it differs. */
export function strataOf(record: Result, run: Document['run']): string[] {
  const { summary, unit } = record;
  if (!summary || numberOf(record, run) === null) return [];
  const { full_speed: full, as_found: found, stratum, interval } = summary;
  if (!full) return found ? [STATES['as_found'] ?? ''] : [];
  const clean = `${STATES[stratum] ?? stratum}, ${full.visits} of ${full.of} processes`;
  if (!found || Math.abs(found.median / full.median - 1) <= AS_FOUND_MIN) return [clean];
  const within = interval && interval.low <= found.median && found.median <= interval.high;
  return within ? [clean] : [clean, `all ${quantity(found.median, unit)}`];
}

/** `call=stat`, of each parameter. */
export const assignments = (params: Params): string[] =>
  Object.entries(params).map(([name, value]) => `${name}=${value}`);

/** `os.syscall{call=stat}`. */
export function nameOf(record: { metric: string; params: Params }): string {
  const list = assignments(record.params);
  return list.length === 0 ? record.metric : `${record.metric}{${list.join(',')}}`;
}

/** `system call: getppid`. */
export const titleOf = ({ title, params }: { title: string; params: Params }): string =>
  [title, parametersText(params)].filter(Boolean).join(': ');

export const groupOf = (metric: string): string => metric.split('.')[0] ?? metric;

export const fails = ({ agreement }: Result): boolean =>
  agreement === 'outside' || agreement === 'violated';

/** How far a bound is from the number: a factor above 1 if it is met. */
export function slackOf({ prediction, summary }: Result): number | null {
  const [low, high, measured] = [prediction?.low, prediction?.high, summary?.median];
  if (prediction?.value != null || measured == null || measured <= 0) return null;
  const factors = [low != null && low > 0 ? measured / low : null, high != null ? high / measured : null];
  const known = factors.filter((factor) => factor !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** A bound that is further away than this says little. */
const LOOSE = 5;

const isLoose = (record: Result): boolean =>
  !fails(record) && (slackOf(record) ?? 0) > LOOSE;

/** The words of the verdict, the most important first. */
export function wordsOf(record: Result): string[] {
  const { state } = record.verdict;
  // A noisy number is noisy on every screen; a bound that is far away says nothing.
  if (state !== 'valid' || isLoose(record)) return [state];
  return [record.agreement ?? wordOfNone(record), state];
}

/** The reasons of the verdict, each with its remedy. */
export function reasonsOf(record: Result): string[] {
  const reasons = whyOf(record).map(({ text, next }) => (next ? `${text} → ${next}` : text));
  return [...new Set(reasons)];
}

/** What a value outside its prediction means for the machine. */
export function meaningOf(record: Result, run: Document['run']): string {
  const value = numberOf(record, run);
  const { prediction } = record;
  if (value === null || !prediction || !fails(record)) return '';
  if (prediction.low != null && value < prediction.low) return prediction.if_below ?? '';
  if (prediction.high != null && value > prediction.high) return prediction.if_above ?? '';
  return '';
}

/** The predicted range or bound as text. */
export function predictedRange(record: Result): string {
  const { prediction, unit } = record;
  if (!prediction) return '';
  if (isLoose(record)) return NOTHING;
  const { low, high, value } = prediction;
  return low == null && high == null ? range(value, value, unit) : range(low, high, unit);
}

/** `expected 84–126 ns: within`. */
export function expectedText(record: Result): string {
  const limits = predictedRange(record);
  if (limits === '') return wordOfNone(record);
  if (isLoose(record)) return '';
  return `expected ${limits}: ${record.agreement ?? 'not compared'}`;
}

/** The measured value, marked if noisy. */
export function valueText(record: Result, run: Document['run']): string {
  const what = shown(record, run);
  if (what.kind === 'nothing') return record.verdict.state;
  if (what.kind === 'text') return what.text;
  if (what.kind === 'bound') return atMost(what.value, record.unit);
  const about = record.verdict.state === 'noisy' ? '~' : '';
  const edge = edgeOf(record, run);
  return about + (edge ? range(edge[0], edge[1], record.unit) : quantity(what.value, record.unit));
}

/** Arms of an interval are printed separately, as on the terminal, if one has at least this share. */
const LOPSIDED_MIN = 0.05;
/** Of the text, with its blank: the room on the terminal. */
const LOPSIDED_WIDTH = 9;
/** The middle of two modes describes neither. */
const MODES = ['several_modes', 'two_clusters'];

/**
 * Half the width of the interval: `± 1.2 %`; `+4 −78 %` if one arm is at least three times the
 * other. The limits of an edge are its value.
 */
export function widthText(record: Result, run: Document['run']): string {
  if (edgeOf(record, run)) return '';
  if (record.verdict.reasons.some(({ cause }) => MODES.includes(cause))) {
    const { modes = [], clusters = [] } = record.summary ?? {};
    return `${Math.max(modes.length, clusters.length, 2)} modes`;
  }
  const [value, ends] = [numberOf(record, run), intervalOf(record, run)];
  if (value === null || value === 0 || !ends) return '';
  const [up, down] = [(ends[1] - value) / Math.abs(value), (value - ends[0]) / Math.abs(value)];
  const [most, least] = [Math.max(up, down), Math.min(up, down)];
  const text = `+${(100 * up).toFixed(0)} −${(100 * down).toFixed(0)} %`;
  const isUneven = most > Math.max(LOPSIDED_MIN, 3 * least) && text.length <= LOPSIDED_WIDTH;
  return isUneven ? text : `± ${percent((up + down) / 2)}`;
}

/** A fact of a record as text; whole numbers without decimals. */
export function factText(fact: NonNullable<Result['facts']>[number]): string {
  if (!('value' in fact)) return 'text' in fact ? fact.text : fact.line;
  const count = fact.unit === 'ratio' && Number.isInteger(fact.value);
  return count ? String(fact.value) : quantity(fact.value, fact.unit, 3);
}

/** The facts of a name as text. */
export const factsOf = ({ facts }: Result, wanted: string | undefined): string[] =>
  (facts ?? []).filter(({ name }) => name === wanted).map(factText);

/** The measured value with its interval. */
export const measuredText = (record: Result, run: Document['run']): string =>
  [valueText(record, run), widthText(record, run)].filter(Boolean).join(' ');
