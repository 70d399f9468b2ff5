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

/** The views below the address of the server, which may be a path behind a proxy. */
const VIEW = /\/(run\/[^/]*|compare|history|hosts)?$/;

/** The path of a view, below that of the server. */
export const address = (path: string): string => location.pathname.replace(VIEW, '') + path;

/** Where the data of this address are. */
export function dataPath(): string {
  const view = VIEW.exec(location.pathname)?.[1] ?? 'runs';
  return address(`/api/${view}`) + location.search;
}

const query = (parameters: { [name: string]: string }): string =>
  String(new URLSearchParams(parameters));

export const toRun = (id: string): string => address(`/run/${encodeURIComponent(id)}`);

export const toComparison = (a: string, b: string): string => address(`/compare?${query({ a, b })}`);

/** Of a metric, a group or a case; of the own host without one. */
export const toHistory = (metric: string, host = ''): string =>
  address(`/history?${query(host === '' ? { metric } : { metric, host })}`);

export const toHosts = (label: string): string => address(`/hosts?${query({ label })}`);

export const toRuns = (filter: { [name: string]: string }): string => address(`/?${query(filter)}`);

/** What histories take for one host. */
export const identityOf = ({ host }: Document): string => host.id ?? host.name;

export const toHistoryOf = (record: Result, document: Document): string =>
  toHistory(nameOf(record), identityOf(document));

/** A text that is a link where the page has a server. */
export const linked = (text: string, to: string): Node | string =>
  live ? element('a', { href: to }, text) : text;
