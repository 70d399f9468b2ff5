// Published figures beside records: which belong to a record, and what they say in words.

import type { Contents, Figure, Published, Result } from './contents';
import { nameOf } from './contents';
import { percent, quantity, range } from './quantity';

/** The figures that are the same work as a record, as the program matched them. */
export function publishedOf(contents: Contents, run: number, record: Result): Published[] {
  if (contents.study === null) return [];
  const at = contents.documents[run]?.records.indexOf(record) ?? -1;
  return contents.study.figures.filter(({ like }) => like[run]?.includes(at));
}

/** How a study's points are named. */
export const studyName = (contents: Contents): string => `published: ${contents.study?.name ?? ''}`;

/** A figure as text; words as they were published. */
export function figureText(figure: Figure | null, unit: Published['unit']): string {
  if (figure === null) return '';
  if (typeof figure === 'string') return figure;
  return typeof figure === 'number' ? quantity(figure, unit) : range(...figure, unit);
}

/** The deviation is called one: a published figure has no interval. */
export const deviationText = ({ sd_percent: sd }: Published): string =>
  sd === null ? '' : `deviation ${percent(sd / 100)}`;

/** What was measured there. */
export const publishedText = (figure: Published): string =>
  [figureText(figure.measured, figure.unit), deviationText(figure)].filter(Boolean).join(', ');

/** What was expected there. */
export const expectedText = ({ predicted, unit }: Published): string =>
  figureText(predicted, unit) || 'not published';

/** A figure in some lines, for whoever points at it. */
export function tellPublished(contents: Contents, figure: Published): string {
  return [
    studyName(contents),
    nameOf(figure),
    publishedText(figure),
    ...(figure.predicted === null ? [] : [`predicted there: ${expectedText(figure)}`]),
    ...(figure.protocol === null ? [] : [figure.protocol]),
  ].join('\n');
}
