// What the search of the table looks at: all its words must be found, in any order.

import type { Params } from './contents';
import { words as inWords } from './parameters';
import { binarySize } from './quantity';

/** In small letters, and a size as one word: `128 MiB` is searched as `128mib`. */
const plain = (text: string): string =>
  text.toLowerCase().replace(/(\d)\s+(?=(?:[kmgt]ib|b)\b)/g, '$1');

/** Parameters in all the ways in which they are written: by the program, on the page, by hand. */
export function parameterTexts(params: Params): string[] {
  return Object.entries(params).flatMap(([name, value]) => {
    const size = name.endsWith('bytes') || name === 'block';
    const texts = typeof value === 'number' && size ? [value, binarySize(value)] : [value];
    const names = [name, name.replace(/_bytes$/, '')];
    return [inWords(name, value), ...names.flatMap((of) => texts.map((text) => `${of}=${text}`))];
  });
}

/** Whether all words of what was typed are in a text; a number only where one begins. */
export function finder(typed: string): (text: string) => boolean {
  const wanted = plain(typed).trim().split(/\s+/).filter(Boolean);
  const patterns = wanted.map((word) => {
    const exact = word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(/^\d/.test(word) ? `(?<![\\d.])${exact}` : exact);
  });
  return (text) => patterns.every((pattern) => pattern.test(text));
}

/** Parts of a row as the text that is searched. */
export const searchable = (parts: string[]): string => plain(parts.join('\n'));
