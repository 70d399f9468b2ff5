// All charts: those in SPECS, ratios to predictions, and ratios between runs.

import type { Compared, Contents, Result } from '../contents';
import {
  assignments,
  factsOf,
  fails,
  hasNumber,
  intervalOf,
  letter,
  measuredText,
  nameOf,
  numberOf,
  placeOf,
  predictedRange,
  reasonsOf,
  shown,
  titleOf,
  whyOf,
  wordOfNone,
  wordsOf,
} from '../contents';
import { element } from '../element';
import { expectedText, publishedText } from '../published';
import { parametersText } from '../parameters';
import { NOTHING, quantity } from '../quantity';
import { card, comparedTitle, kindOf } from '../tiles';
import { drawDots } from './dots';
import { figure } from './figure';
import type { Ratio } from './forest';
import { drawForest, ratioText } from './forest';
import { heat } from './heat';
import { key } from './key';
import { drawLines } from './lines';
import { limitsOf } from './limits';
import { drawMatrix } from './matrix';
import type { Point, Points } from './drawn';
import { partText, pointTip, pointsOf, recordsOf } from './points';
import type { Spec } from './specs';
import { SPECS } from './specs';
import { transferEffects, transferSpecs } from './transfer';

/** Rows drawn at most; the table has all. */
const ROWS_MAX = 30;

/** Missing points named at most; further ones are counted. */
const NAMED_MAX = 3;

function missing(points: Points): string[] {
  if (points.without.length === 0) return [];
  const named = points.without.slice(0, NAMED_MAX).map(({ document, record }) => {
    // The table has the remedy.
    const why = whyOf(record)[0]?.text;
    const texts = [measuredText(record, document.run), why].filter(Boolean);
    return [titleOf(record), texts.join(', ')].join(': ');
  });
  const more = points.without.length - named.length;
  return [`Without a number: ${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}.`];
}

/** Results of related metrics, for a note on a chart. */
function beside(spec: Spec, contents: Contents): string[] {
  if (spec.kind !== 'lines' || spec.beside === undefined) return [];
  const texts = spec.beside;
  return recordsOf(contents, { metrics: Object.keys(texts) }).map(({ run, document, record }) => {
    const whose = contents.documents.length > 1 ? `${letter(run)}, ` : '';
    const of = parametersText(record.params);
    const what = of === '' ? texts[record.metric] : `${texts[record.metric]} (${of})`;
    return `${whose}${what}: ${measuredText(record, document.run)}`;
  });
}

/** The equations of lines: of the records drawn, and of related ones, whose notes may have them. */
function equations(spec: Spec, { all }: Points, contents: Contents): string[] {
  const metrics = spec.kind === 'lines' ? Object.keys(spec.beside ?? {}) : [];
  const related = recordsOf(contents, { metrics });
  const texts = [...all, ...related].flatMap(({ run, record }) => {
    if (!hasNumber(record)) return [];
    const own = factsOf(record, 'line');
    const lines = own.length > 0 || !metrics.includes(record.metric) ? own : (record.notes ?? []);
    const whose = contents.documents.length > 1 ? `${letter(run)}, ` : '';
    const of = metrics.includes(record.metric) ? parametersText(record.params) : '';
    return lines.map((line) => `${whose}${of === '' ? '' : `${of}: `}${line}`);
  });
  const distinct = [...new Set(texts)];
  return distinct.length === 0 ? [] : [`Least-squares line: ${distinct.join('; ')}.`];
}

/** A note that published figures are drawn in every panel. */
function everywhere(spec: Spec, { under }: Points): string[] {
  const panel = spec.kind === 'lines' ? spec.panel : undefined;
  const lacks = panel?.find((name) => under.some(({ figure }) => !(name in figure.params)));
  return lacks ? [`Published figures without a ${lacks} are drawn in every panel.`] : [];
}

/** A note that only one of several runs is drawn. */
function whose({ drawn }: Points, contents: Contents): string[] {
  const runs = [...new Set(drawn.map((point) => point.run))];
  const only = contents.documents.length > 1 && runs.length === 1;
  return only ? [`Run ${letter(runs[0] ?? 0)} only.`] : [];
}

/** The points that are alone in their panel: these are numbers and no drawing. */
function alone({ kind }: Spec, { drawn, under }: Points): Point[] {
  if (drawn.some(({ part }) => part !== '')) return [];
  // Each run has a matrix of its own.
  const same = (a: Point, b: Point): boolean =>
    a.panel === b.panel && (kind !== 'matrix' || a.run === b.run);
  return drawn.filter(
    (point) =>
      drawn.filter((other) => same(point, other)).length === 1 &&
      under.every(({ panel }) => panel !== point.panel),
  );
}

function chart(spec: Spec, points: Points, contents: Contents): HTMLElement {
  const single = alone(spec, points);
  const drawn = points.drawn.filter((point) => !single.includes(point));
  const rest = { ...points, drawn };
  const positions = new Set([...drawn, ...points.under].map(({ x }) => x)).size;
  const draw = (width: number): SVGSVGElement[] => {
    // Through two positions there is always a line: it shows nothing.
    if (spec.kind === 'lines' && positions > 2) return drawLines(spec, rest, contents, width);
    if (spec.kind === 'matrix') return drawMatrix(spec, rest, contents, width);
    return drawDots(rest, contents, width, fact);
  };
  const numbers = single.map(({ run, document, record }) => {
    const whose = contents.documents.length > 1 ? `${letter(run)}: ` : '';
    return card(whose + record.title, record, document.run);
  });
  const aside = beside(spec, contents);
  const fact = spec.kind === 'dots' ? spec.fact : undefined;
  const parted = spec.kind === 'lines' && spec.parts !== undefined;
  const several = contents.documents.length > 1 ? ['run'] : [];
  // What the words of lines describe is not drawn.
  const isDots = spec.kind === 'lines' && positions <= 2;
  return figure({
    ...spec,
    ...(isDots ? { says: 'A point a case, with its interval.' } : {}),
    notes: [
      ...whose(points, contents),
      ...(aside.length > 0 ? [`${aside.join('; ')}.`] : []),
      ...equations(spec, points, contents),
      // The chart of the headline names them.
      ...(parted ? [] : missing(points)),
      ...everywhere(spec, points),
      ...(spec.kind === 'lines' && spec.limits && !isDots ? limitsOf(contents, points.drawn).notes : []),
    ],
    numbers,
    draw: drawn.length > 0 ? draw : null,
    csv: () => (parted ? partsCsv(points) : csvOf(points)),
    head: parted
      ? ['case', ...several, 'quantity', 'measured', 'verdict', 'cause']
      : ['case', ...several, 'measured', 'predicted', 'verdict', 'cause'],
    rows: () => (parted ? partRows(points, contents) : rowsOf(points, contents, fact)),
  });
}

/** The records of a chart, and its published figures. */
function rowsOf(points: Points, contents: Contents, fact?: string): string[][] {
  const rows = points.all.map(({ run, document, record }) => [
    titleOf(record),
    ...(contents.documents.length > 1 ? [letter(run)] : []),
    [measuredText(record, document.run), ...factsOf(record, fact)].join(', '),
    predictedRange(record) || wordOfNone(record),
    wordsOf(record).join(', '),
    reasonsOf(record).join('; '),
  ]);
  return [...rows, ...publishedRows(points, contents)];
}

/** A row per part drawn, and per record without a number. */
function partRows({ drawn, without }: Points, { documents }: Contents): string[][] {
  const row = (record: Result, run: number, what: string, value: string): string[] => [
    titleOf(record),
    ...(documents.length > 1 ? [letter(run)] : []),
    ...[what, value, record.verdict.state, reasonsOf(record).join('; ')],
  ];
  return [
    ...drawn.map((point) => row(point.record, point.run, point.part, partText(point))),
    ...without.map(({ record, run }) => row(record, run, NOTHING, NOTHING)),
  ];
}

/** The parts drawn with all digits, in base units. */
function partsCsv({ drawn }: Points): string[][] {
  const rows = drawn.map(({ record, document, part, unit, y, low, high }) => {
    const limits = low === high ? ['', ''] : [low, high].map(String);
    const params = assignments(record.params).join(' ');
    const named = [document.run.id, record.metric, params, part, unit];
    return [...named, String(y), ...limits, record.verdict.state];
  });
  return ['run metric params quantity unit value low high state'.split(' '), ...rows];
}

const COLUMNS =
  'run metric params unit value low high bound predicted predicted_low predicted_high ' +
  'agreement state cause';

/** The records of a chart with all digits, in base units. */
function csvOf({ all }: Points): string[][] {
  const rows = all.map(({ document, record }) => {
    const what = shown(record, document.run);
    const { value, low, high } = record.prediction ?? {};
    const [from, to] = intervalOf(record, document.run) ?? [];
    const numbers = [numberOf(record, document.run), from, to];
    const bounds = [what.kind === 'bound' ? what.value : null, value, low, high];
    const causes = whyOf(record).map(({ text }) => text);
    return [
      ...[document.run.id, record.metric, assignments(record.params).join(' '), record.unit],
      ...[...numbers, ...bounds].map((number) => (number == null ? '' : String(number))),
      ...[record.agreement ?? '', record.verdict.state, causes.join('; ')],
    ];
  });
  return [COLUMNS.split(' '), ...rows];
}

/** The published figures of a chart as rows of its table. */
function publishedRows({ under }: Points, contents: Contents): string[][] {
  return [...new Set(under.map(({ figure }) => figure))].map((figure) => [
    comparedTitle(contents, figure),
    ...(contents.documents.length > 1 ? [NOTHING] : []),
    publishedText(figure),
    expectedText(figure),
    'published',
    figure.protocol ?? '',
  ]);
}

/** What a number is divided by, and what that says. */
type Divided = { by: number } & Pick<Ratio, 'kind' | 'verdict'> & Partial<Ratio>;

/** Each number ÷ another, the furthest first; null where there is none. */
function ratiosTo(
  contents: Contents,
  other: (record: Result, value: number, text: string) => Divided | null,
): Ratio[] {
  const several = contents.documents.length > 1;
  const all = contents.documents.flatMap((document, run) =>
    document.records.flatMap((record): Ratio[] => {
      const value = numberOf(record, document.run);
      if (value === null) return [];
      const values = measuredText(record, document.run);
      const divided = other(record, value, values);
      if (divided === null) return [];
      const { by, ...more } = divided;
      const [low, high] = intervalOf(record, document.run) ?? [value, value];
      return [
        {
          name: several ? `${letter(run)} ${titleOf(record)}` : titleOf(record),
          ratio: value / by,
          low: low / by,
          high: high / by,
          hollow: record.verdict.state === 'noisy',
          title: pointTip({ run, document, record }, contents),
          values,
          cause: reasonsOf(record).join('; '),
          ...more,
        },
      ];
    }),
  );
  return all.sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)));
}

const fromPredictions = (contents: Contents): HTMLElement[] =>
  forest(
    'predicted',
    'Measured values relative to their predictions',
    'Measured ÷ predicted, the furthest first; green: within, red: outside, grey: inconclusive.',
    ratiosTo(contents, (record, value) => {
      const predicted = record.prediction?.value;
      // The results of siblings say little about the machine.
      const isNone = record.prediction?.self_consistency || value <= 0;
      if (isNone || predicted == null || predicted <= 0) return null;
      const kind = record.agreement === 'within' ? 1 : fails(record) ? 2 : 0;
      return { by: predicted, kind, verdict: wordsOf(record).join(', ') };
    }),
    'measured ÷ predicted',
  );

const besideTypical = (contents: Contents): HTMLElement[] =>
  forest(
    'typical',
    'Beside machines of the same kind',
    'Measured ÷ the median of published machine types with this CPU; grey strips: their 5th to ' +
      '95th percentile; green: better, red: worse.',
    ratiosTo(contents, (record, _, text) => {
      if (!record.typical) return null;
      const { low, high, median: by, position } = record.typical;
      const kind = position === 'better' ? 1 : position === 'worse' ? 2 : 0;
      const verdict = placeOf(record);
      const title = [nameOf(record), text, verdict].join('\n');
      return { by, kind, verdict, title, band: [low / by, high / by] };
    }),
    'measured ÷ median',
  );

/** The runs in which a case is noisy, with the causes. */
function noisyIn(contents: Contents, row: Compared): string[] {
  return [row.noisy_a, row.noisy_b].flatMap((noisy, run) => {
    const same = (record: Result): boolean => nameOf(record) === nameOf(row);
    const record = noisy ? contents.documents[run]?.records.find(same) : undefined;
    const why = record === undefined ? [] : reasonsOf(record);
    return noisy ? [[`noisy in ${letter(run)}`, ...why].join(': ')] : [];
  });
}

/** The ratio of each case between the runs, in the order of the comparison. */
function changes(contents: Contents, rows: Compared[]): Ratio[] {
  return rows.flatMap((row): Ratio[] => {
    if (row.ratio === null) return [];
    const [low, high] = row.interval ?? [row.ratio, row.ratio];
    const kind = kindOf(row.word);
    const word = row.word.replaceAll('_', ' ');
    const values = `${quantity(row.a, row.unit)} → ${quantity(row.b, row.unit)}`;
    const noisy = noisyIn(contents, row);
    const title = [nameOf(row), values, word, ...noisy].join('\n');
    const hollow = noisy.length > 0;
    const verdict = hollow ? `${word}, noisy` : word;
    const cause = noisy.join('; ');
    const drawn = { ratio: row.ratio, low, high, kind, hollow, title };
    return [{ name: comparedTitle(contents, row), ...drawn, values, verdict, cause }];
  });
}

/** No chart without ratios. */
function forest(
  id: string,
  title: string,
  says: string,
  ratios: Ratio[],
  head: string,
  values = 'measured',
): HTMLElement[] {
  if (ratios.length === 0) return [];
  const top = ratios.slice(0, ROWS_MAX);
  const rest = ratios.length - top.length;
  const drawn = figure({
    id,
    title,
    says,
    notes: rest > 0 ? [`The table has ${rest} more.`] : [],
    wide: true,
    draw: (width) => drawForest(top, width, head),
    csv: () => [
      ['case', 'ratio', 'low', 'high', 'values', 'verdict', 'cause'],
      ...ratios.map((of) => {
        const numbers = [of.ratio, of.low, of.high].map(String);
        return [of.name, ...numbers, of.values, of.verdict, of.cause];
      }),
    ],
    head: ['case', head, values, 'verdict', 'cause'],
    rows: () => ratios.map((of) => [of.name, ratioText(of), of.values, of.verdict, of.cause]),
  });
  return [drawn];
}

function comparison(contents: Contents): HTMLElement[] {
  const { comparison: compared } = contents;
  if (compared === null) return [];
  const drawn = forest(
    'changes',
    'Changes from A to B',
    'B ÷ A with its 95 % interval; green: faster, red: slower, grey: inconclusive or unchanged.',
    changes(contents, compared.rows),
    'B ÷ A',
  );
  const none = 'The runs have no comparable metric in common.';
  return drawn.length > 0 ? drawn : [element('p', { class: 'none' }, none)];
}

/** Charts without data, by the command that measures them; others with the reason. */
function lackingItems(lacking: Spec[], contents: Contents): HTMLElement[] {
  const unmeasured = new Map<string, string[]>();
  const byHand = contents.documents.every(({ run }) => run.procedure != null);
  const others = lacking.flatMap((spec) => {
    const there = recordsOf(contents, spec)[0];
    const why = there === undefined ? undefined : reasonsOf(there.record)[0];
    // A fact that the number lacks, such as the CPU of another server, has no reason.
    if (there && spec.kind === 'lines' && spec.parts && hasNumber(there.record)) return [];
    const what = `${spec.title} (${spec.metrics.join(', ')})`;
    if (why !== undefined) return [element('li', {}, `No number: ${what}: ${why}.`)];
    // Not measured by the run of a procedure: that is no lack.
    if (there === undefined && !byHand)
      unmeasured.set(spec.measure, [...(unmeasured.get(spec.measure) ?? []), what]);
    return [];
  });
  const items = [...unmeasured].map(([command, all]) =>
    element(
      'li',
      {},
      `Not measured: ${all.join(', ')}; `,
      element('code', {}, command),
      ` measures ${all.length > 1 ? 'them' : 'it'}.`,
    ),
  );
  return [...items, ...others];
}

/** The section of all charts, and a list of charts without data with their commands. */
export function charts(contents: Contents): HTMLElement {
  const made: HTMLElement[] = [];
  const lacking: Spec[] = [];
  for (const spec of [...transferSpecs(contents), ...SPECS]) {
    const points = pointsOf(contents, spec);
    const isLine = new Set(points.drawn.map(({ x }) => x)).size > 1;
    if (spec.kind === 'lines' && spec.lineOnly && !isLine && points.drawn.length > 0) continue;
    if (spec.kind === 'heat') {
      // A step without one was measured by an earlier version.
      made.push(...[heat(spec, points, contents)].filter((one) => one !== null));
    } else if (points.drawn.length > 0) made.push(chart(spec, points, contents));
    else lacking.push(spec);
  }
  const effects = transferEffects(contents).flatMap(({ id, title, says, ratios, head }) =>
    forest(id, title, says, ratios, head, 'facts'),
  );
  const none = lackingItems(lacking, contents);
  return element(
    'section',
    { 'aria-labelledby': 'charts' },
    element('h2', { id: 'charts' }, 'Charts'),
    key(contents),
    studied(contents),
    element('div', { class: 'charts' }, comparison(contents), made, effects, besideTypical(contents), fromPredictions(contents)),
    none.length > 0 && element('ul', { class: 'lacking' }, none),
  );
}

/** The study whose figures are drawn. */
function studied({ study }: Contents): HTMLElement | null {
  if (study === null) return null;
  return element(
    'div',
    { class: 'study' },
    element(
      'p',
      {},
      'Published figures, for scale only: ',
      element('strong', {}, study.name),
      `, ${study.title}. Machine: ${study.machine}.`,
    ),
    element('p', {}, `Protocol: ${study.protocol}.`),
    study.note !== null && element('p', {}, `Note: ${study.note}.`),
  );
}
