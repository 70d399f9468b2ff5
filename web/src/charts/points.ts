// The points of a chart: what is drawn, and what is left out.

import type { Contents, Document, Params, Result, Unit } from '../contents';
import {
  intervalOf,
  letter,
  measuredText,
  noModelOf,
  numberOf,
  predictedRange,
  reasonsOf,
  shown,
  titleOf,
  wordsOf,
} from '../contents';
import { levelOf, words } from '../parameters';
import type { Under } from './under';
import { underOf } from './under';

/** A drawn record. */
export interface Point {
  run: number;
  record: Result;
  /** The name of its line or row. */
  series: string;
  panel: string;
  x: number;
  y: number;
  low: number;
  high: number;
  noisy: boolean;
  /** Tooltip. */
  title: string;
}

export interface Points {
  drawn: Point[];
  /** Records without a number. */
  without: { run: number; record: Result }[];
  /** All records, in order. */
  all: { run: number; record: Result }[];
  unit: Unit;
  /** Published figures, drawn below all others. */
  under: Under[];
}

export interface Wanted {
  metrics: string[];
  only?: (params: Result['params']) => boolean;
  x?: string;
  panel?: string;
}

/** The records of some metrics in all runs, cache levels in their order. */
export function recordsOf(contents: Contents, wanted: Wanted): Points['all'] {
  return contents.documents.flatMap((document, run) =>
    document.records
      .filter((record) => wanted.metrics.includes(record.metric))
      .filter((record) => wanted.x === undefined || typeof record.params[wanted.x] === 'number')
      .filter((record) => wanted.only === undefined || wanted.only(record.params))
      .sort((a, b) => levelOf(a.metric, a.params) - levelOf(b.metric, b.params))
      .map((record) => ({ run, record })),
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
  const names = differing(records, [wanted.x, wanted.panel]);
  const metrics = new Set(records.map((record) => record.metric)).size > 1;
  return (record) => {
    const own = names.filter((name) => name in record.params);
    const parts = own.map((name) => words(name, record.params[name] ?? ''));
    const last = metrics ? [words('level', record.metric.split('.').at(-1) ?? '')] : [];
    return [...last, ...parts].join(', ') || record.title;
  };
}

export function pointsOf(contents: Contents, wanted: Wanted): Points {
  const all = recordsOf(contents, wanted);
  const panelOf = (params: Params): string =>
    wanted.panel === undefined ? '' : String(params[wanted.panel] ?? '');
  const label = labels(
    all.map(({ record }) => record),
    wanted,
  );
  const drawn = all.flatMap(({ run, record }) => {
    const document = contents.documents[run];
    const y = document && numberOf(record, document.run);
    if (document === undefined || y == null) return [];
    const panel = panelOf(record.params);
    const [low, high] = intervalOf(record, document.run) ?? [y, y];
    const title = pointTip(record, document, contents.documents.length > 1 ? run : null);
    const x = wanted.x === undefined ? 0 : Number(record.params[wanted.x]);
    const series = label(record);
    const noisy = record.verdict.state === 'noisy';
    return [{ run, record, series, panel, x, y, low, high, noisy, title }];
  });
  const without = all.filter(({ run, record }) => {
    const document = contents.documents[run];
    return document !== undefined && shown(record, document.run).kind !== 'number';
  });
  const under = underOf(contents, wanted, { all, drawn }, panelOf);
  return { drawn, without, all, under, unit: all[0]?.record.unit ?? 'ratio' };
}

/** The tooltip of a record. */
export function pointTip(record: Result, document: Document, run: number | null): string {
  const predicted = predictedRange(record);
  return [
    run === null ? titleOf(record) : `${letter(run)}: ${titleOf(record)}`,
    measuredText(record, document.run),
    predicted === '' ? `no model: ${noModelOf(record)}` : `predicted ${predicted}`,
    wordsOf(record).join(', '),
    ...reasonsOf(record),
  ].join('\n');
}
