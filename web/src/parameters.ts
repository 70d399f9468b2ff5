// Parameters of a case as text.

import type { Params } from './contents';
import { binarySize } from './quantity';

/** Parameters in bytes, with their nouns. */
const SIZES: { [name: string]: string } = {
  block: 'blocks',
  bytes: '',
  chunk_bytes: 'chunks',
  file_bytes: 'file',
  rss_bytes: 'resident',
  set_bytes: 'set',
  window_bytes: 'window',
};

/** Parameters that are counts. */
const COUNTED: { [name: string]: [string, string] } = {
  args: ['argument', 'arguments'],
  cpus: ['CPU', 'CPUs'],
  fds: ['descriptor', 'descriptors'],
  files: ['file', 'files'],
  processes: ['process', 'processes'],
  threads: ['thread', 'threads'],
};

export const isSize = (name: string): boolean => name in SIZES;

/** One parameter: `64 KiB blocks`, `2 threads`, `4K pages`, `random`. */
export function words(name: string, value: string | number): string {
  const counted = COUNTED[name];
  if (typeof value === 'number' && name in SIZES) {
    return `${binarySize(value)} ${SIZES[name] ?? ''}`.trim();
  }
  if (counted) return `${value} ${counted[value === 1 ? 0 : 1]}`;
  if (name === 'think_s') return `${value} s think time`;
  if (name === 'page') return `${value} pages`;
  if (name === 'load') return `${value} % load`;
  if (name === 'a' || name === 'b') return `CPU ${value}`;
  return String(value).replaceAll('_', ' ');
}

/** All parameters, or those selected. */
export function parametersText(params: Params, only?: (name: string) => boolean): string {
  const entries = Object.entries(params).filter(([name]) => only === undefined || only(name));
  return entries.map(([name, value]) => words(name, value)).join(', ');
}
