// Links between the views of `fathom ui`. The page of `fathom report` has none of them.

import type { Document, Result } from './contents';
import { nameOf } from './contents';
import { element } from './element';

let live = false;

/** The page has a server, which has the other views. */
export function setLive(): void {
  live = true;
}

export const isLive = (): boolean => live;

const query = (parameters: { [name: string]: string }): string =>
  String(new URLSearchParams(parameters));

export const toRun = (id: string): string => `/run/${encodeURIComponent(id)}`;

export const toComparison = (a: string, b: string): string => `/compare?${query({ a, b })}`;

/** Of a metric, a group or a case. */
export const toHistory = (metric: string, host: string): string =>
  `/history?${query({ metric, host })}`;

export const toHosts = (label: string): string => `/hosts?${query({ label })}`;

export const toRuns = (filter: { [name: string]: string }): string => `/?${query(filter)}`;

/** What histories take for one host. */
export const identityOf = ({ host }: Document): string => host.id ?? host.name;

export const toHistoryOf = (record: Result, document: Document): string =>
  toHistory(nameOf(record), identityOf(document));

/** A text that is a link where the page has a server. */
export const linked = (text: string, to: string): Node | string =>
  live ? element('a', { href: to }, text) : text;
