// The search of the table: all words of the query must match, in any order.

import type { Params } from './contents';
import { words as inWords } from './parameters';
import { binarySize } from './quantity';

/** Lower case, with a size as one word: `128 MiB` is searched as `128mib`. */
const plain = (text: string): string =>
  text.toLowerCase().replace(/(\d)\s+(?=(?:[kmgt]ib|b)\b)/g, '$1');

/** Parameters in every notation: of the program, of the page, and as typed by hand. */
export function parameterTexts(params: Params): string[] {
  return Object.entries(params).flatMap(([name, value]) => {
    const size = name.endsWith('bytes') || name === 'block';
    const texts = typeof value === 'number' && size ? [value, binarySize(value)] : [value];
    const names = [name, name.replace(/_bytes$/, '')];
    return [inWords(name, value), ...names.flatMap((of) => texts.map((text) => `${of}=${text}`))];
  });
}

/** Matches texts with all words of the query; a number matches only from its first digit. */
export function finder(typed: string): (text: string) => boolean {
  const wanted = plain(typed).trim().split(/\s+/).filter(Boolean);
  const patterns = wanted.map((word) => {
    const exact = word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(/^\d/.test(word) ? `(?<![\\d.])${exact}` : exact);
  });
  return (text) => patterns.every((pattern) => pattern.test(text));
}

export const searchable = (parts: string[]): string => plain(parts.join('\n'));
