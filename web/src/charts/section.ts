// All charts: those of the specifications, and the ratios to predictions and between runs.

import type { Compared, Contents, Result } from '../contents';
import {
  fails,
  intervalOf,
  letter,
  measuredText,
  nameOf,
  numberOf,
  predictedRange,
  reasonsOf,
  whyOf,
  wordsOf,
} from '../contents';
import { element } from '../element';
import { expectedText, publishedText } from '../published';
import { NOTHING, quantity } from '../quantity';
import { drawDots } from './dots';
import { figure } from './figure';
import type { Ratio } from './forest';
import { drawForest, ratioText } from './forest';
import { key } from './key';
import { drawLines } from './lines';
import { drawMatrix } from './matrix';
import type { Points } from './points';
import { pointsOf, recordsOf, tellPoint, told } from './points';
import type { Spec } from './specs';
import { SPECS } from './specs';

/** More rows than this are no chart any more: the rest is in its table. */
const ROWS_MAX = 30;

const GAINS = ['faster', 'better'];
const LOSSES = ['slower', 'worse'];
/** What is left out is named so many times, then counted. */
const NAMED_MAX = 3;

function missing(points: Points, contents: Contents): string[] {
  if (points.without.length === 0) return [];
  const named = points.without.slice(0, NAMED_MAX).map(({ run, record }) => {
    const document = contents.documents[run];
    // What to do about it stands in the table.
    const why = whyOf(record)[0]?.text;
    const state = document ? measuredText(record, document.run) : '';
    return [nameOf(record), [state, why].filter(Boolean).join(', ')].join(': ');
  });
  const more = points.without.length - named.length;
  return [`Without a number: ${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}.`];
}

/** What other metrics say beside a chart. */
function beside(spec: Spec, contents: Contents): string[] {
  if (spec.kind !== 'lines' || spec.beside === undefined) return [];
  const texts = spec.beside;
  return recordsOf(contents, { metrics: Object.keys(texts) }).flatMap(({ run, record }) => {
    const document = contents.documents[run];
    if (document === undefined) return [];
    const whose = contents.documents.length > 1 ? `${letter(run)}, ` : '';
    const of = Object.values(record.params).join(', ');
    const what = of === '' ? texts[record.metric] : `${texts[record.metric]} (${of})`;
    return [`${whose}${what}: ${measuredText(record, document.run)}`];
  });
}

/** That published figures stand in panels which they do not tell. */
function everywhere(spec: Spec, { under }: Points): string[] {
  const panel = spec.kind === 'lines' ? spec.panel : undefined;
  if (panel === undefined || under.every(({ figure }) => panel in figure.params)) return [];
  return [`Published figures that do not tell their ${panel} stand in every panel.`];
}

/** Of several runs, that only one is drawn. */
function whose({ drawn }: Points, contents: Contents): string[] {
  const runs = [...new Set(drawn.map((point) => point.run))];
  const only = contents.documents.length > 1 && runs.length === 1;
  return only ? [`From run ${letter(runs[0] ?? 0)} alone.`] : [];
}

function chart(spec: Spec, points: Points, contents: Contents): HTMLElement {
  const draw = (width: number): SVGSVGElement[] => {
    if (spec.kind === 'lines') return drawLines(spec, points, contents, width);
    if (spec.kind === 'matrix') return drawMatrix(spec, points, contents, width);
    return drawDots(points, contents, width);
  };
  const aside = beside(spec, contents);
  const several = contents.documents.length > 1 ? ['run'] : [];
  return figure({
    id: spec.id,
    title: spec.title,
    says: spec.says,
    notes: [
      ...whose(points, contents),
      ...(aside.length > 0 ? [`${aside.join('; ')}.`] : []),
      ...missing(points, contents),
      ...everywhere(spec, points),
    ],
    ...(spec.wide ? { wide: true } : {}),
    draw,
    head: ['case', ...several, 'measured', 'predicted', 'verdict', 'because'],
    rows: () => [
      ...points.all.map(({ run, record }) => {
        const document = contents.documents[run];
        return [
          nameOf(record),
          ...(contents.documents.length > 1 ? [letter(run)] : []),
          document ? measuredText(record, document.run) : '',
          predictedRange(record) || 'no model',
          wordsOf(record).join(', '),
          reasonsOf(record).join('; '),
        ];
      }),
      ...publishedRows(points, contents),
    ],
  });
}

/** The published figures of a chart as rows of its table, each once. */
function publishedRows({ under }: Points, contents: Contents): string[][] {
  return [...new Set(under.map(({ figure }) => figure))].map((figure) => [
    nameOf(figure),
    ...(contents.documents.length > 1 ? [NOTHING] : []),
    publishedText(figure),
    expectedText(figure),
    'published',
    figure.protocol ?? '',
  ]);
}

/** Measured ÷ predicted, where a value was predicted; the furthest first. */
function offs(contents: Contents): Ratio[] {
  const all = contents.documents.flatMap((document, run) =>
    document.records.flatMap((record): Ratio[] => {
      const [value, predicted] = [numberOf(record, document.run), record.prediction?.value];
      if (value === null || predicted == null || predicted <= 0 || value <= 0) return [];
      const [low, high] = intervalOf(record, document.run) ?? [value, value];
      const several = contents.documents.length > 1;
      const holds = record.agreement === 'within' || record.agreement === 'met';
      const kind = holds ? 1 : fails(record) ? 2 : 0;
      return [
        {
          name: several ? `${letter(run)} ${told(record)}` : told(record),
          ratio: value / predicted,
          low: low / predicted,
          high: high / predicted,
          kind,
          hollow: record.verdict.state === 'noisy',
          title: tellPoint(record, document, several ? run : null),
          values: measuredText(record, document.run),
          verdict: wordsOf(record).join(', '),
          because: reasonsOf(record).join('; '),
        },
      ];
    }),
  );
  return all.sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)));
}

/** Why a case is noisy, in each of the runs where it is. */
function noisyIn(contents: Contents, row: Compared): string[] {
  return [row.noisy_a, row.noisy_b].flatMap((noisy, run) => {
    const same = (record: Result): boolean => nameOf(record) === nameOf(row);
    const record = noisy ? contents.documents[run]?.records.find(same) : undefined;
    const why = record === undefined ? [] : reasonsOf(record);
    return noisy ? [[`noisy in ${letter(run)}`, ...why].join(': ')] : [];
  });
}

/** What became of each case from the first run to the second; in the order of the comparison. */
function changes(contents: Contents, rows: Compared[]): Ratio[] {
  return rows.flatMap((row): Ratio[] => {
    if (row.ratio === null) return [];
    const [low, high] = row.interval ?? [row.ratio, row.ratio];
    const kind =
      GAINS.includes(row.word) ? 1 : LOSSES.includes(row.word) ? 2 : row.word === 'changed' ? 3 : 0;
    const word = row.word.replaceAll('_', ' ');
    const values = `${quantity(row.a, row.unit)} → ${quantity(row.b, row.unit)}`;
    const noisy = noisyIn(contents, row);
    const title = [nameOf(row), values, word, ...noisy].join('\n');
    const hollow = noisy.length > 0;
    const verdict = hollow ? `${word}, noisy` : word;
    const because = noisy.join('; ');
    const drawn = { ratio: row.ratio, low, high, kind, hollow, title };
    return [{ name: told(row), ...drawn, values, verdict, because }];
  });
}

function forest(
  id: string,
  title: string,
  says: string,
  ratios: Ratio[],
  head: string,
): HTMLElement {
  const top = ratios.slice(0, ROWS_MAX);
  const rest = ratios.length - top.length;
  return figure({
    id,
    title,
    says,
    notes: rest > 0 ? [`The ${rest} others are in the table.`] : [],
    wide: true,
    draw: (width) => drawForest(top, width),
    head: ['case', head, 'measured', 'verdict', 'because'],
    rows: () => ratios.map((of) => [of.name, ratioText(of), of.values, of.verdict, of.because]),
  });
}

function comparison(contents: Contents): HTMLElement[] {
  const { comparison: compared } = contents;
  if (compared === null) return [];
  const ratios = changes(contents, compared.rows);
  if (ratios.length === 0) {
    return [
      element(
        'p',
        { class: 'none' },
        'The two runs have no metric in common that could be compared.',
      ),
    ];
  }
  return [
    forest(
      'changes',
      'What changed from A to B',
      'B ÷ A with its 95 % interval; green is faster, red is slower, grey may be chance.',
      ratios,
      'B ÷ A',
    ),
  ];
}

function fromPredictions(contents: Contents): HTMLElement[] {
  const ratios = offs(contents);
  if (ratios.length === 0) return [];
  const says =
    'Measured ÷ predicted, the furthest first; green within, red outside, grey inconclusive.';
  return [
    forest(
      'predicted',
      'How far measured values lie from their predictions',
      says,
      ratios,
      'measured ÷ predicted',
    ),
  ];
}

/** The section of all charts; what the runs have nothing for is named, with what measures it. */
export function charts(contents: Contents): HTMLElement {
  const made: HTMLElement[] = [];
  const lacking: Spec[] = [];
  for (const spec of SPECS) {
    const points = pointsOf(contents, spec);
    if (points.drawn.length > 0) made.push(chart(spec, points, contents));
    else lacking.push(spec);
  }
  const none = lacking.map((spec) => {
    const there = recordsOf(contents, spec)[0];
    const why = there === undefined ? undefined : reasonsOf(there.record)[0];
    const what = `${spec.title} (${spec.metrics.join(', ')})`;
    return why === undefined
      ? element(
          'li',
          {},
          `Not measured: ${what}; `,
          element('code', {}, spec.measure),
          ' measures it.',
        )
      : element('li', {}, `No number: ${what}: ${why}.`);
  });
  return element(
    'section',
    { 'aria-labelledby': 'charts' },
    element('h2', { id: 'charts' }, 'Charts'),
    key(contents),
    studied(contents),
    element('div', { class: 'charts' }, comparison(contents), made, fromPredictions(contents)),
    none.length > 0 && element('ul', { class: 'lacking' }, none),
  );
}

/** Whose figures lie beneath, and that they were come by otherwise. */
function studied({ study }: Contents): HTMLElement | null {
  if (study === null) return null;
  return element(
    'div',
    { class: 'study' },
    element(
      'p',
      {},
      'Beneath lie figures that were published, for scale and not as a comparison of equals: ',
      element('strong', {}, study.name),
      `, ${study.title}. Machine: ${study.machine}.`,
    ),
    element('p', {}, `The protocol was another: ${study.protocol}.`),
    study.note !== null && element('p', {}, `Note: ${study.note}.`),
  );
}
