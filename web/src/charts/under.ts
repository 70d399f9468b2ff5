// Published figures under what was measured here: where they stand, and how they are drawn.

import * as Plot from '@observablehq/plot';
import type { Contents, Published, Result } from '../contents';
import { parametersText } from '../parameters';
import { publishedOf, studyName, tellPublished } from '../published';
import type { Entry } from './legend';
import type { Point, Wanted } from './points';

/** A published figure at a place of a chart. */
export interface Under {
  figure: Published;
  /** Figures of one series are joined. */
  series: string;
  panel: string;
  x: number;
  y: number;
  /** The point of ours that is the same work, where its place is taken from one. */
  beside: Point | null;
  title: string;
}

const INK = 'var(--published)';

/** Where a figure stands: at its own place where it tells one, or at those of the same work here. */
function places(figure: Published, y: number, wanted: Wanted, drawn: Point[], like: Set<Result>) {
  const own = drawn.filter(({ record }) => like.has(record));
  const { x, panel } = wanted;
  if (x === undefined) return own.map((beside) => ({ panel: beside.panel, x: 0, y, beside }));
  const at = figure.params[x];
  const xs = typeof at === 'number' ? [at] : own.map((point) => point.x);
  const told = panel === undefined ? undefined : figure.params[panel];
  // A figure that does not tell its panel may be of any.
  const all = drawn.map((point) => point.panel);
  const panels = told === undefined ? all : all.filter((name) => name === String(told));
  return [...new Set(panels)].flatMap((name) =>
    [...new Set(xs)].map((place) => ({ panel: name, x: place, y, beside: null })),
  );
}

/** The figures that belong to a chart: of the same work as a case of it, or of more points. */
export function underOf(
  contents: Contents,
  wanted: Wanted,
  all: { run: number; record: Result }[],
  drawn: Point[],
): Under[] {
  const unit = all[0]?.record.unit;
  const like = new Map<Published, Set<Result>>();
  for (const { run, record } of all) {
    for (const figure of publishedOf(contents, run, record))
      like.set(figure, (like.get(figure) ?? new Set()).add(record));
  }
  const more = ({ metric, params }: Published): boolean =>
    wanted.metrics.includes(metric) && (wanted.only === undefined || wanted.only(params));
  return (contents.study?.figures ?? []).flatMap((figure): Under[] => {
    const { metric, params, measured: y } = figure;
    const same = like.get(figure);
    if (typeof y !== 'number' || figure.unit !== unit || !(same ?? more(figure))) return [];
    const kind = parametersText(params, (name) => ![wanted.x, wanted.panel].includes(name));
    const series = `${metric} ${kind}`;
    const title = tellPublished(contents, figure);
    const at = places(figure, y, wanted, drawn, same ?? new Set());
    return at.map((place) => ({ figure, series, title, ...place }));
  });
}

/** Their name in a legend; none where a chart has none of them. */
export const entries = (contents: Contents, under: Under[]): Entry[] =>
  under.length === 0 ? [] : [{ name: studyName(contents), glyph: '◆', ink: INK }];

/** Lines that join the figures of a series. */
export function joined(under: Under[]): Plot.Markish {
  return Plot.line(
    [...under].sort((a, b) => a.x - b.x),
    {
      x: 'x',
      y: 'y',
      z: 'series',
      fx: 'panel',
      stroke: INK,
      strokeWidth: 1,
      strokeDasharray: '4 3',
      className: 'published-lines',
    },
  );
}

/** Their diamonds. */
export function diamonds(under: Under[], place: Plot.DotOptions): Plot.Markish {
  return Plot.dot(under, {
    ...place,
    symbol: 'diamond',
    r: 3.5,
    fill: INK,
    stroke: INK,
    className: 'published',
    title: 'title',
    tip: { maxRadius: 24 },
  });
}
