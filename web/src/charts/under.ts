// Published figures under what was measured here: where they stand, and how they are drawn.

import * as Plot from '@observablehq/plot';
import type { Contents, Params, Published, Result } from '../contents';
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

type Place = Pick<Under, 'panel' | 'x' | 'beside'>;

/** Where a figure stands: by the cases here that are the same work, else where it says itself. */
function placesOf(
  { params }: Published,
  same: Result[],
  drawn: Point[],
  wanted: Wanted,
  panelOf: (params: Params) => string,
): Place[] {
  const { x, panel } = wanted;
  if (x === undefined) {
    const own = drawn.filter(({ record }) => same.includes(record));
    return own.map((beside) => ({ panel: beside.panel, x: 0, beside }));
  }
  const panels = new Set(drawn.map((point) => point.panel));
  // A figure that does not tell its panel may be of any.
  const itself =
    panel === undefined || panel in params
      ? [params]
      : [...panels].map((name) => ({ ...params, [panel]: name }));
  const cases = same.length > 0 ? same.map((record) => record.params) : itself;
  const places = cases.map((of) => ({ panel: panelOf(of), x: Number(of[x]), beside: null }));
  const fit = places.filter((place) => panels.has(place.panel) && Number.isFinite(place.x));
  return [...new Map(fit.map((place) => [JSON.stringify(place), place])).values()];
}

/** The figures that belong to a chart: of the same work as a case of it, or of more points. */
export function underOf(
  contents: Contents,
  wanted: Wanted,
  { all, drawn }: { all: { run: number; record: Result }[]; drawn: Point[] },
  panelOf: (params: Params) => string,
): Under[] {
  const unit = all[0]?.record.unit;
  const like = new Map<Published, Result[]>();
  for (const { run, record } of all) {
    for (const figure of publishedOf(contents, run, record))
      like.set(figure, [...(like.get(figure) ?? []), record]);
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
    const places = placesOf(figure, same ?? [], drawn, wanted, panelOf);
    return places.map((place) => ({ figure, series, title, y, ...place }));
  });
}

/** Their name in a legend; none where a chart has none of them. */
export const entries = (contents: Contents, under: Under[]): Entry[] =>
  under.length === 0 ? [] : [{ name: studyName(contents), glyph: '◆', ink: 'var(--faint)' }];

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
