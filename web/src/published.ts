// Published figures beside records: which belong to a record, and their texts.

import type { Contents, Figure, Published, Result } from './contents';
import { nameOf } from './contents';
import { percent, quantity, range } from './quantity';

/** The figures for the same work as a record, as matched by the program. */
export function publishedOf(contents: Contents, run: number, record: Result): Published[] {
  if (contents.study === null) return [];
  const at = contents.documents[run]?.records.indexOf(record) ?? -1;
  return contents.study.figures.filter(({ like }) => like[run]?.includes(at));
}

export const studyName = (contents: Contents): string => `published: ${contents.study?.name ?? ''}`;

/** A figure as text; a verbal figure as published. */
export function figureText(figure: Figure | null, unit: Published['unit']): string {
  if (figure === null) return '';
  if (typeof figure === 'string') return figure;
  return typeof figure === 'number' ? quantity(figure, unit) : range(...figure, unit);
}

/** Called a deviation: a published figure has no confidence interval. */
export const deviationText = ({ sd_percent: sd }: Published): string =>
  sd === null ? '' : `deviation ${percent(sd / 100)}`;

/** The measured value of a figure. */
export const publishedText = (figure: Published): string =>
  [figureText(figure.measured, figure.unit), deviationText(figure)].filter(Boolean).join(', ');

/** The prediction of a figure. */
export const expectedText = ({ predicted, unit }: Published): string =>
  figureText(predicted, unit) || 'not published';

/** The tooltip of a figure. */
export function publishedTip(contents: Contents, figure: Published): string {
  return [
    studyName(contents),
    nameOf(figure),
    publishedText(figure),
    ...(figure.predicted === null ? [] : [`predicted: ${expectedText(figure)}`]),
    ...(figure.protocol === null ? [] : [figure.protocol]),
  ].join('\n');
}
