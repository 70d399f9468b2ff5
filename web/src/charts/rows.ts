// Charts of one row a case: where the names stand. Beside the rows where there is room, above them
// on a narrow page; none is cut while the page is wide enough for it.

import * as Plot from '@observablehq/plot';

/** Pixels of a letter. */
const LETTER = 6.2;
/** Names that take more of the width than this stand above their rows. */
const SHARE = 0.45;

/** Room for half of a number at the left end of the axis. */
const EDGE = 24;

export interface Rows {
  /** Room for the names on the left. */
  left: number;
  height: number;
  scale: Plot.ScaleOptions;
  marks: Plot.Markish[];
}

/** Rows of these names, numbered from 0: two cases may have the same name. */
export function rows(names: string[], width: number, row: number): Rows {
  const longest = Math.max(...names.map((name) => name.length));
  const above = longest * LETTER > width * SHARE;
  const letters = Math.floor((above ? width - EDGE : longest * LETTER) / LETTER);
  const short = (name: string): string =>
    name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
  const numbers = names.map((_, at) => at);
  const shared = { y: (at: number) => at, text: (at: number) => short(names[at] ?? '') };
  const look = { fill: 'currentColor', className: 'names' };
  const mark = above
    ? Plot.text(numbers, { ...shared, ...look, frameAnchor: 'left', textAnchor: 'start', dx: 6 - EDGE, dy: -12 })
    : Plot.text(numbers, { ...shared, ...look, frameAnchor: 'left', textAnchor: 'end', dx: -10 });
  return {
    left: above ? EDGE : longest * LETTER + 20,
    height: names.length * (above ? row + 12 : row),
    scale: { type: 'point', domain: numbers, axis: null, padding: 0.7 },
    marks: [mark],
  };
}
