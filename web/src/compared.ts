// The comparison of two runs: a few sentences, and a cell per case.

import type { Compared, Comparison, Contents, Factor, Result } from './contents';
import { SHARES, STATES, letter, nameOf } from './contents';
import { element } from './element';
import { factor, percent, quantity } from './quantity';
import { comparedTitle } from './tiles';

/** `1 kept run`, `2 kept runs`. */
export const counted = (count: number, what: string): string =>
  `${count} ${what}${count === 1 ? '' : 's'}`;

/** The core speed explains the change. */
function isSpoiled({ word, core, interval }: Compared): boolean {
  if (word !== 'inconclusive' || core == null || interval === null) return false;
  return interval[0] > 1 || interval[1] < 1;
}

const wordOf = (row: Compared): string =>
  isSpoiled(row) ? 'core speed' : row.word.replaceAll('_', ' ');

/** The source of the noise between runs. */
function noiseText(rows: Compared[], runs: number): string {
  const known = rows.filter(({ noise }) => noise != null).length;
  if (known > 0) {
    const some = known < rows.length ? ` (${known} of ${rows.length} cases)` : '';
    return `Noise between runs: from ${counted(runs, 'stored run')} of this host${some}.`;
  }
  return runs > 0
    ? `Noise between runs: unknown, too few stored runs (${runs}).`
    : 'Noise between runs: unknown, no stored runs.';
}

/** The time between both runs, in which the machine may have changed. */
function apartText(hours: number | null | undefined): string {
  if (hours == null) return '';
  const time = hours < 48 ? `${hours.toFixed(0)} h` : `${(hours / 24).toFixed(0)} d`;
  return ` ${time} between A and B: better measure both in turn (A B B A).`;
}

/** Effects of the core speed on the comparison. */
function coreText(rows: Compared[], core: number | null | undefined): string {
  let text = '';
  if (core != null) {
    const [side, other] = core > 1 ? ['B', 'A'] : ['A', 'B'];
    text +=
      ` Core ${factor(Math.max(core, 1 / core))} slower throughout ${side} than in ${other} ` +
      '(reference loop): everything is compared over all processes.';
  }
  const spoiled = rows.filter(isSpoiled).length;
  if (spoiled > 0) {
    text +=
      ` Core speed: in ${counted(spoiled, 'case')} the core was faster on one side ` +
      '(reference loop), by at least the change.';
  }
  return text;
}

/** Cases of one side only: a count, with their names to unfold. */
function only(contents: Contents, side: string, cases: Comparison['only_a']): Node[] {
  if (cases.length === 0) return [];
  const title = (one: Comparison['only_a'][number]): string => comparedTitle(contents, one);
  return [
    element(
      'details',
      { class: 'only' },
      element('summary', {}, `${counted(cases.length, 'case')} only in ${side}`),
      element('p', { class: 'faint' }, cases.map(title).join('; ')),
    ),
  ];
}

/** `1.9 % slower`. */
const changeOf = ({ slower }: Pick<Factor, 'slower'>): string =>
  `${percent(Math.abs(slower - 1))} ${slower > 1 ? 'slower' : 'faster'}`;

/** `+1.9 %`. */
const signedShare = (ratio: number): string =>
  `${ratio < 1 ? '−' : '+'}${percent(Math.abs(ratio - 1))}`;

/** What moved together; what moved with the core is one part. */
function answer({ factors, rows }: Comparison): string {
  const moved = factors.filter((it) => it.moved);
  const differ = rows.some((row) => row.share === 'differs');
  if (moved.length === 0)
    return differ ? 'From A to B:' : 'From A to B nothing is shown to have changed:';
  const apart = ({ distances: ns }: Factor): string =>
    ns == null ? '' : ns[1] > ns[0] ? ' (CPUs farther apart)' : ' (CPUs nearer)';
  const own = moved.filter((it) => !it.with_core);
  const parts = own.map((it) => `${changeOf(it)} in ${it.class}${apart(it)}`);
  const cores = moved.filter((it) => it.with_core).map((it) => it.core ?? it.slower);
  const core = cores.sort((a, b) => a - b)[Math.floor(cores.length / 2)];
  const classes = cores.length === 1 ? '1 class' : `${cores.length} classes`;
  if (core !== undefined) parts.push(`${changeOf({ slower: core })} in core speed (${classes})`);
  return `B is ${parts.join(', ')}:`;
}

/** Cases whose terms are shown, and terms of each. */
const [SPLITS, TERMS] = [3, 3];

/** `+41 µs: os.thread.create +33 µs (+21 %), unexplained +8 µs ± 9 µs`. */
function splitText({ split, unit }: Compared): string {
  if (split == null) return '';
  const size = (value: number): string => quantity(Math.abs(value), unit, 2);
  const signed = (value: number): string => `${value < 0 ? '−' : '+'}${size(value)}`;
  const parts = split.terms
    .slice(0, TERMS)
    .map((it) => `${it.name} ${signed(it.difference)} (${signedShare(it.ratio)})`);
  const others = split.terms.slice(TERMS);
  const rest = others.reduce((sum, it) => sum + it.difference, 0);
  if (others.length > 0) parts.push(`${counted(others.length, 'more term')} ${signed(rest)}`);
  parts.push(`unexplained ${signed(split.unexplained)} ± ${size(split.error)}`);
  return `${signed(split.difference)}: ${parts.join(', ')}`;
}

/** The first cases that differ and have a model, term by term. */
function splits(contents: Contents, rows: Compared[]): Node[] {
  const shown = rows.filter(({ share, split }) => share === 'differs' && split != null);
  return shown.slice(0, SPLITS).map((row) => {
    const name = element('strong', {}, comparedTitle(contents, row));
    return element('p', { class: 'split' }, name, ` ${splitText(row)}`);
  });
}

/** What was recorded to differ beside a factor. */
function coincidences({ core, distances, suspects }: Factor): string {
  const all = (suspects ?? []).map(({ what, a, b }) => `${what}: ${a} → ${b}`);
  if (core != null) all.unshift(`reference loop ${changeOf({ slower: core })}`);
  if (distances != null)
    all.unshift(`CPUs ${distances.map((ns) => ns.toFixed(0)).join(' → ')} ns apart`);
  return all.join('; ');
}

/** The classes that moved, with what coincides with that. */
function factorTable(factors: Factor[]): Node[] {
  const moved = factors.filter((it) => it.moved);
  if (moved.length === 0) return [];
  const heads = ['moved together', 'change', '95 % interval', 'agree', 'coincides with'];
  const row = (one: Factor): Node =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, one.class),
      ...[
        changeOf(one),
        one.interval.map(signedShare).join(' … '),
        `${one.agree} of ${one.members.length}`,
        coincidences(one),
      ].map((text) => element('td', {}, text)),
    );
  return [
    element(
      'table',
      { class: 'factors' },
      element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {}, head)))),
      element('tbody', {}, ...moved.map(row)),
    ),
  ];
}

/** The comparison in one or two sentences. */
export function compared(contents: Contents): Node[] {
  const { comparison } = contents;
  if (comparison === null) return [];
  const { rows, not_comparable: not, noise_runs: runs, core } = comparison;
  const alone = [
    ...only(contents, 'A', comparison.only_a),
    ...only(contents, 'B', comparison.only_b),
  ];
  if (rows.length === 0 && not.length === 0) {
    const none = 'The runs have no metric in common.';
    return [element('p', { class: 'warn' }, none), ...alone];
  }
  const shares = Object.entries(SHARES).map(([share, words]): [number, string] => [
    rows.filter((row) => row.share === share).length,
    words,
  ]);
  const counts = shares.filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`);
  if (not.length > 0) counts.push(`${not.length} not comparable`);
  const noise = rows.length > 0 ? ` ${noiseText(rows, runs)}` : '';
  const apart = apartText(comparison.hours_apart);
  const lead = `${answer(comparison)} ${counts.join(', ')}.${noise}${apart}${coreText(rows, core)}`;
  return [
    element('p', { class: 'lead answer-words' }, lead),
    ...factorTable(comparison.factors),
    ...splits(contents, rows),
    ...alone,
  ];
}

/** The comparison of a case. */
export interface Change {
  /** B ÷ A, where there is one. */
  ratio: number | null;
  /** The word for the change, or why there is none. */
  word: string;
  /** The same without how far nothing changed. */
  short: string;
  /** The word of the comparison itself. */
  kind: string;
  interval: [number, number] | null;
  /** The visits compared, if they are not those of the value shown. */
  stratum?: string | undefined;
}

/** The comparison of each case. */
export function changesOf({ comparison }: Contents): (record: Result) => Change {
  const all = new Map<string, Change>();
  const without = { ratio: null, interval: null, kind: '' };
  for (const row of comparison?.rows ?? []) {
    const { ratio, interval, unchanged_within: within, stratum } = row;
    const word = within == null ? wordOf(row) : `${wordOf(row)} ±${percent(within)}`;
    all.set(nameOf(row), { ratio, interval, word, short: wordOf(row), kind: row.word, stratum });
  }
  for (const one of comparison?.not_comparable ?? [])
    all.set(nameOf(one), { ...without, word: one.reason, short: 'not comparable' });
  [comparison?.only_a, comparison?.only_b].forEach((cases, run) => {
    const word = `only in ${letter(run)}`;
    for (const one of cases ?? []) all.set(nameOf(one), { ...without, word, short: word });
  });
  return (record) => {
    const none: Change = { ...without, word: '', short: '' };
    const { stratum, ...change } = all.get(nameOf(record)) ?? none;
    const isOther = stratum != null && stratum !== record.summary?.stratum;
    const words = stratum && STATES[stratum];
    return isOther ? { ...change, stratum: `compared ${words}` } : change;
  };
}
