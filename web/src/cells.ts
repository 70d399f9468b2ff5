// The cells of a row of the table, each of one line, and the details of a row.

import type { Contents, Document, Published, Result } from './contents';
import {
  deviationOf,
  edgeOf,
  factsOf,
  intervalOf,
  letter,
  meaningOf,
  nameOf,
  noModelOf,
  placeOf,
  predictedRange,
  reasonsOf,
  shown,
  slackOf,
  strataOf,
  valueText,
  widthText,
  wordOfNone,
} from './contents';
import type { Change } from './compared';
import { element, facts } from './element';
import { deviationText, figureText } from './published';
import { NOTHING, factor, factorLimits, percent, quantity, range } from './quantity';

export type Cell = (Node | string)[];

/** A result of a case: of one run. */
export interface Side {
  run: number;
  record: Result;
  document: Document;
  words: string[];
  published: Published[];
}

/** What a row is made from: the results of a case, each of another run. */
export interface Case {
  sides: Side[];
  change: Change | null;
}

const faint = (text: string): HTMLElement => element('small', {}, text);

/** The value, and half the width of its interval. */
export function measuredCell(side: Side | undefined): Cell {
  if (side === undefined) return [NOTHING];
  const { record, document } = side;
  if (shown(record, document.run).kind === 'nothing') return [NOTHING];
  const width = widthText(record, document.run);
  return [valueText(record, document.run), ...(width === '' ? [] : [' ', faint(width)])];
}

/** The words of a verdict: the agreement with the prediction, and the state if it is noisy. */
function badges({ record, words }: Side): Cell {
  const [word = '', state = ''] = words;
  const slack = word === 'met' ? slackOf(record) : null;
  const text = slack === null ? word : `${word} (${slack.toFixed(1)} ×)`;
  // Only a value is shown as right: the results of siblings say little about the machine.
  const kind = word === 'within' && record.prediction?.self_consistency ? 'self' : word;
  const badge = element('span', { class: `word ${kind.replace(' ', '-')}` }, text);
  const noisy = element('span', { class: 'word noisy' }, 'noisy');
  return state === 'noisy' ? [badge, ' ', noisy] : [badge];
}

/** The verdict, of several runs each with its letter where they differ. */
export function verdictCell({ sides }: Case, several: boolean): Cell {
  const [first] = sides;
  if (first === undefined) return [];
  const same = sides.every(({ words }) => words.join() === first.words.join());
  if (!several || (same && sides.length > 1)) return badges(first);
  return sides.flatMap((side, at) => [at > 0 ? ', ' : '', `${letter(side.run)} `, ...badges(side)]);
}

export function predictedCell(record: Result): Cell {
  // The verdict has the word for none.
  if (!record.prediction) return [element('span', { title: noModelOf(record) }, NOTHING)];
  return [predictedRange(record)];
}

export function typicalCell({ typical }: Result): Cell {
  if (!typical) return [NOTHING];
  const { position } = typical;
  const look = position === 'better' ? 'within' : position === 'worse' ? 'outside' : 'faint';
  return [element('span', { class: `word ${look}` }, position.replace('_', ' '))];
}

export function publishedCell(figures: Published[]): Cell {
  if (figures.length === 0) return [NOTHING];
  return figures.flatMap((figure, at) => {
    const spread = deviationText(figure);
    const value = figureText(figure.measured, figure.unit);
    return [at > 0 ? '; ' : '', value, ...(spread === '' ? [] : [' ', faint(spread)])];
  });
}

/** The ratio of the second run to the first, with its interval. */
export function ratioCell({ ratio, interval }: Change): Cell {
  if (ratio === null) return [NOTHING];
  return [factor(ratio), ...(interval === null ? [] : [' ', faint(factorLimits(interval, ratio))])];
}

/** The lines of a result in the details of its row. */
function detailsOf({ record, document, published }: Side): [string, Cell][] {
  const { prediction, unit } = record;
  const ends = edgeOf(record, document.run) ? null : intervalOf(record, document.run);
  const level = record.summary?.interval?.level;
  const at = level == null ? '' : ` (${percent(level)})`;
  const interval = ends && range(ends[0], ends[1], unit, 4) + at;
  const levels = factsOf(record, 'between levels').map((names) => `between ${names}`);
  const deviation = deviationOf(record, document.run);
  const { hardware, software } = prediction ?? {};
  const [first, second] = [hardware, software].map((part) => quantity(part, unit, 3));
  const known = prediction?.value != null;
  const value = known && `${quantity(prediction?.value, unit, 3)} (${predictedRange(record)})`;
  const sum = hardware != null && `hardware ${first} + software ${second}`;
  const predicted = prediction
    ? [value || predictedRange(record), sum]
    : [wordOfNone(record), noModelOf(record)];
  const joined = (texts: (string | false)[]): string => texts.filter(Boolean).join('; ');
  const { typical } = record;
  const usual = typical ? `: ${range(typical.low, typical.high, unit)}` : '';
  const place = placeOf(record) + usual;
  const lines: [string, string][] = [
    ['interval', interval ?? ''],
    ['processes', [...levels, ...strataOf(record, document.run)].join('; ')],
    ['standard deviation', deviation === null ? '' : percent(deviation)],
    ['predicted', joined(predicted)],
    ['meaning', meaningOf(record, document.run)],
    ['beside such machines', place],
  ];
  const reasons = reasonsOf(record).map((text): [string, string] => ['cause', text]);
  const made = [...lines, ...reasons].filter(([, text]) => text !== '');
  const study: [string, Cell] = ['published', publishedCell(published)];
  return [
    ...made.map(([name, text]): [string, Cell] => [name, [text]]),
    ...(published.length > 0 ? [study] : []),
  ];
}

/** The details of a row: everything that its line has no room for. */
export function details({ sides, change }: Case, { documents }: Contents): HTMLElement {
  const [first] = sides;
  const several = documents.length > 1;
  const of = (side: Side): Node[] => {
    const { run } = side;
    const list = facts(detailsOf(side));
    return several ? [element('h4', {}, letter(run)), list] : [list];
  };
  const { word = '', stratum } = change ?? {};
  const compared = change?.ratio != null && [
    element('p', {}, 'B ÷ A ', ratioCell(change), ` ${word}${stratum ? `, ${stratum}` : ''}`),
  ];
  return element(
    'div',
    { class: 'details' },
    element('p', {}, element('code', {}, first ? nameOf(first.record) : '')),
    compared,
    element('div', { class: 'sides' }, sides.map((side) => element('section', {}, of(side)))),
  );
}
