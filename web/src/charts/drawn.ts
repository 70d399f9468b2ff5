// What a chart draws: points of records, and published figures under them.

import type { Published, Result, Unit } from '../contents';

/** A drawn record. */
export interface Point {
  run: number;
  record: Result;
  /** The name of its line or row. */
  series: string;
  /** What of the record is drawn; empty if its headline. */
  part: string;
  panel: string;
  x: number;
  y: number;
  low: number;
  high: number;
  unit: Unit;
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

/** A published figure at a position of a chart. */
export interface Under {
  figure: Published;
  /** Figures of one series are joined by a line. */
  series: string;
  panel: string;
  x: number;
  y: number;
  /** The point for the same work, if the figure is placed beside one. */
  beside: Point | null;
  title: string;
}
