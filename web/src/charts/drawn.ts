// What a chart draws: points of records, and published figures under them.

import type { Document, Published, Result, Unit } from '../contents';

/** A record of a run. */
export interface Found {
  run: number;
  document: Document;
  record: Result;
}

/** A drawn record. */
export interface Point extends Found {
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
  without: Found[];
  /** All records, in order. */
  all: Found[];
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
