// The points of a chart: what is drawn, and what is left out.

import type { Contents, Params, Result, Unit } from '../contents';
import {
  intervalOf,
  letter,
  measuredText,
  noModelOf,
  numberOf,
  predictedRange,
  reasonsOf,
  titleOf,
  wordOfNone,
  wordsOf,
} from '../contents';
import { levelOf, parametersText, words } from '../parameters';
import { percent, quantity } from '../quantity';
import type { Found, Point, Points } from './drawn';
import type { Part, Wanted } from './specs';
import { underOf } from './under';

/** The records of some metrics in all runs, cache levels in their order. */
export function recordsOf(contents: Contents, wanted: Wanted): Found[] {
  return contents.documents.flatMap((document, run) =>
    document.records
      .filter((record) => wanted.metrics.includes(record.metric))
      .filter((record) => wanted.x === undefined || typeof record.params[wanted.x] === 'number')
      .filter((record) => wanted.only === undefined || wanted.only(record.params))
      .filter(
        ({ facts }) =>
          wanted.withFact === undefined || facts?.some(({ name }) => name === wanted.withFact),
      )
      .sort((a, b) => levelOf(a.metric, a.params) - levelOf(b.metric, b.params))
      .map((record) => ({ run, document, record })),
  );
}

/** Names of the parameters that differ: they distinguish lines. */
function differing(records: Result[], except: (string | undefined)[]): string[] {
  const names = [...new Set(records.flatMap((record) => Object.keys(record.params)))];
  const several = (name: string): boolean =>
    new Set(records.map((record) => record.params[name])).size > 1;
  return names.filter((name) => !except.includes(name) && several(name));
}

/** The label of a record's line or row: its differing parameters, and the metric if several. */
function labels(records: Result[], wanted: Wanted): (record: Result) => string {
  const { name } = wanted;
  if (name) return ({ params }) => name(params);
  const names = differing(records, [wanted.x, ...(wanted.panel ?? [])]);
  const metrics = !wanted.parts && new Set(records.map((record) => record.metric)).size > 1;
  return (record) => {
    const own = names.filter((name) => name in record.params);
    const parts = own.map((name) => words(name, record.params[name] ?? ''));
    const end = wanted.titles
      ? record.title
      : words('level', record.metric.split('.').at(-1) ?? '');
    const last = metrics ? [end] : [];
    return [...last, ...parts].join(', ') || (wanted.parts ? '' : record.title);
  };
}

type Value = Pick<Point, 'part' | 'y' | 'low' | 'high' | 'unit'>;

/** What is drawn of a record: its headline, or its parts. */
function valuesOf({ record, document: { run } }: Found, parts: Part[] | undefined): Value[] {
  const headline = numberOf(record, run);
  if (headline === null) return [];
  return (parts ?? [{ metric: record.metric, name: '' }]).flatMap((of): Value[] => {
    if (of.metric !== record.metric) return [];
    const at = (y: number, unit: Unit, [low, high] = [y, y]): Value[] => [
      { part: of.name, y, low, high, unit },
    ];
    if (of.quantile !== undefined) {
      const found = record.summary?.quantiles?.find(({ q }) => q === of.quantile);
      return found === undefined ? [] : at(found.value, record.unit);
    }
    if (of.fact !== undefined) {
      const found = record.facts?.find(({ name }) => name === of.fact);
      return found !== undefined && 'value' in found ? at(found.value, found.unit) : [];
    }
    return at(headline, record.unit, intervalOf(record, run) ?? undefined);
  });
}

/** The value of a part as text. */
export const partText = ({ y, unit }: Pick<Point, 'y' | 'unit'>): string =>
  unit === 'ratio' ? percent(y) : quantity(y, unit);

export function pointsOf(contents: Contents, wanted: Wanted): Points {
  const all = recordsOf(contents, wanted);
  const panelOf = (params: Params): string =>
    wanted.panel === undefined
      ? ''
      : parametersText(params, (name) => wanted.panel?.includes(name) === true);
  const label = labels(
    all.map(({ record }) => record),
    wanted,
  );
  const drawn = all.flatMap((found) => {
    const { record } = found;
    const panel = panelOf(record.params);
    const tip = pointTip(found, contents);
    const x = wanted.x === undefined ? 0 : Number(record.params[wanted.x]);
    const noisy = record.verdict.state === 'noisy';
    return valuesOf(found, wanted.parts).map((value): Point => {
      const series = [value.part, label(record)].filter(Boolean).join(', ');
      const title = value.part === '' ? tip : `${value.part}: ${partText(value)}\n${tip}`;
      return { ...found, series, panel, x, noisy, title, ...value };
    });
  });
  const without = all.filter(({ document, record }) => numberOf(record, document.run) === null);
  const under = wanted.parts ? [] : underOf(contents, wanted, { all, drawn }, panelOf);
  const unit = drawn[0]?.unit ?? all[0]?.record.unit ?? 'ratio';
  return { drawn, without, all, under, unit };
}

/** The tooltip of a record. */
export function pointTip({ run, document, record }: Found, { documents }: Contents): string {
  const predicted = predictedRange(record);
  return [
    documents.length > 1 ? `${letter(run)}: ${titleOf(record)}` : titleOf(record),
    measuredText(record, document.run),
    predicted === '' ? `${wordOfNone(record)}: ${noModelOf(record)}` : `predicted ${predicted}`,
    wordsOf(record).join(', '),
    ...reasonsOf(record),
  ].join('\n');
}
