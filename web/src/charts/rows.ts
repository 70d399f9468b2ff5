// The rows of a chart: names beside the rows if there is room, else above them. Names are not cut
// unless the page is too narrow.

import * as Plot from '@observablehq/plot';
import { HALO } from './marks';

/** Pixels per letter. */
export const LETTER = 6.2;
/** Pixels per line of names. */
const LINE = 13;
/** Pixels between rows with names above, in addition to the names. */
const TIGHT = 18;
/** Names that need more of the width than this share are drawn above their rows. */
const SHARE = 0.45;

/** Room for half of a tick label at the left end of the axis. */
const EDGE = 24;

export interface Rows {
  left: number;
  height: number;
  scale: Plot.ScaleOptions;
  marks: Plot.Markish[];
}

/** A name in one line, or in two if it is too long. */
function broken(name: string, letters: number): string {
  if (name.length <= letters) return name;
  const at = name.lastIndexOf(' ', letters);
  const [first, rest] = at > 0 ? [name.slice(0, at), name.slice(at + 1)] : ['', name];
  const cut = rest.length > letters ? `${rest.slice(0, letters - 1)}…` : rest;
  return first === '' ? cut : `${first}\n${cut}`;
}

/** The letters of a name, wide ones as one and a half. */
const lettersOf = (name: string): number => name.length + (name.match(/[mw]/gi)?.length ?? 0) / 2;

/** Rows with these names, numbered from 0 because names need not be unique. */
export function rows(names: string[], width: number, row: number): Rows {
  const longest = Math.max(...names.map(lettersOf));
  const above = longest * LETTER > width * SHARE;
  const letters = above ? Math.floor((width - EDGE) / LETTER) : longest;
  const texts = names.map((name) => broken(name, letters));
  const extra = above ? LINE * (texts.some((text) => text.includes('\n')) ? 2 : 1) : 0;
  const numbers = names.map((_, at) => at);
  const shared = { y: (at: number) => at, text: (at: number) => texts[at] ?? '' };
  const look = { fill: 'currentColor', frameAnchor: 'left', ...HALO, className: 'names' } as const;
  const beside = { ...shared, ...look, textAnchor: 'end', dx: -10 } as const;
  const over = { ...shared, ...look, textAnchor: 'start', lineAnchor: 'bottom' } as const;
  return {
    left: above ? EDGE : longest * LETTER + 28,
    height: names.length * ((above ? TIGHT : row) + extra) + extra,
    scale: { type: 'point', domain: numbers, axis: null, padding: 0.7 },
    marks: [Plot.text(numbers, above ? { ...over, dx: 6 - EDGE, dy: -6 } : beside)],
  };
}
