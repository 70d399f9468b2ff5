// The legend of all charts.

import type { Contents } from '../contents';
import { intervalOf } from '../contents';
import { element } from '../element';

/** The level of the intervals shown, or the range of levels. */
function levelText({ documents }: Contents): string {
  const levels = documents.flatMap(({ records, run }) =>
    records.map((record) => (intervalOf(record, run) ? record.summary?.interval?.level : null)),
  );
  const known = levels.filter((level) => level != null);
  if (known.length === 0) return '';
  const text = (level: number): string => String(Number((level * 100).toFixed(1)));
  const [low, high] = [text(Math.min(...known)), text(Math.max(...known))];
  return low === high ? `${low} % ` : `${low}–${high} % `;
}

export function key(contents: Contents): HTMLElement {
  const several = contents.documents.length > 1;
  return element(
    'p',
    { class: 'key' },
    element('span', {}, '● measured'),
    element('span', {}, '○ noisy: hover for the cause, or open Data below'),
    element('span', {}, `│ ${levelText(contents)}confidence interval`),
    element('span', {}, '— predicted value and range'),
    element('span', {}, '⌃ ⌄ lower or upper bound'),
    contents.study !== null && element('span', {}, '◆ grey, dashed: published'),
    several && element('span', {}, 'A, B … runs, by line and symbol'),
  );
}
