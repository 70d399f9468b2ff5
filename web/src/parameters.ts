// Parameters of a case as text.

import type { Params } from './document';
import { binarySize } from './quantity';

/** Parameters in bytes, with their nouns. */
const SIZES: { [name: string]: string } = {
  block: 'blocks',
  buffer_bytes: 'buffer',
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
  clients: ['client', 'clients'],
  connections: ['connection', 'connections'],
  cpus: ['CPU', 'CPUs'],
  fds: ['descriptor', 'descriptors'],
  files: ['file', 'files'],
  processes: ['process', 'processes'],
  streams: ['stream', 'streams'],
  threads: ['thread', 'threads'],
};

export const isSize = (name: string): boolean => name in SIZES;

/** Values that say too little without their parameter. */
const TEXTS: { [parameter: string]: { [value: string]: string } } = {
  arrivals: { poisson: 'Poisson arrivals', uniform: 'uniform arrivals' },
  call: {
    buffered_read1: 'buffered read of 1 byte',
    getppid_called: 'getppid in a function',
    invalid: 'invalid call number',
    open_close: 'open + close',
    pread4k: 'pread of 4 KiB',
    read1: 'read of 1 byte',
    read4: 'read of 4 bytes',
    write1: 'write of 1 byte',
  },
  body: { discard: 'body discarded', verify: 'body verified' },
  calls: { bare: 'without the C library', libc: 'through the C library' },
  connection: { fresh: 'fresh connections', kept: 'a kept connection' },
  direction: { both: 'both ways', receive: 'receiving', send: 'sending' },
  end: { receive: 'page received', send: 'page sent' },
  from: { send: 'from the send' },
  kind: { cow: 'copy-on-write', anonymous_first: 'anonymous, new to the process' },
  level: { l1: 'L1', l2: 'L2', l3: 'L3', dram: 'memory' },
  mode: { fixed: 'fixed files', random: 'random files' },
  of: { 'server-cpu': 'server CPU' },
  op: { write_nt: 'non-temporal write' },
  over: { http: 'over HTTP', mount: 'over a mounted file system' },
  part: {
    first_instruction: 'until the first instruction',
    fork: 'until fork returns',
    total: 'until reaped',
  },
  resource: { 'server-cpu': 'server CPU' },
  server: { cold: 'cold server cache', warm: 'warm server cache' },
  server_cache: { cold: 'cold server cache', warm: 'warm server cache' },
  state: { direct: 'O_DIRECT' },
  think: { exponential: 'exponential think time' },
  sync: { none: 'no sync', data: 'one sync', every: 'sync after every block' },
  touched: { yes: 'touched', no: 'untouched' },
};

/** Reads of a file one after the other, by their number. */
const READS = ['first read', 'second read', 'third read'];

/** The order of cache levels. */
const LEVELS = ['l1', 'l2', 'l3', 'dram'];

/** The position of a case among the cache levels; 0 without a level. */
export const levelOf = (metric: string, { level }: Params): number =>
  1 + LEVELS.indexOf(String(level ?? metric.split('.').at(-1)));

/** One parameter, a number never without its name: `64 KiB blocks`, `2 threads`, `random`. */
export function words(name: string, value: string | number): string {
  const counted = COUNTED[name];
  if (name === 'set_bytes' && value === 0) return 'no working set';
  if (typeof value === 'number' && name in SIZES) {
    return `${binarySize(value)} ${SIZES[name] ?? ''}`.trim();
  }
  if (counted) return `${value} ${counted[value === 1 ? 0 : 1]}`;
  if (name === 'rate_bytes_s' && typeof value === 'number') return `${value / 1e6} MB/s`;
  if (name === 'rate') return `${value} requests/s`;
  if (name === 'think_s') return `${value} s think time`;
  if (name === 'read' && typeof value === 'number') return READS[value - 1] ?? `read ${value}`;
  if (name === 'page') return `${value} pages`;
  if (name === 'load') return `${value} % load`;
  if (name === 'a' || name === 'b') return `CPU ${value}`;
  if (name.endsWith('_ms')) return `${name.slice(0, -3)} ${value} ms`;
  if (typeof value === 'number') return `${name} ${value}`;
  return TEXTS[name]?.[value] ?? String(value).replaceAll('_', ' ');
}

/** The settings of a transfer in the order of the terminal's table, with the words before them. */
const SETTINGS: [string, string][] = [
  ['connection', ''],
  ['io', ''],
  ['buffer_bytes', 'buffer '],
  ['window_bytes', 'window '],
  ['ack', 'ack '],
];

/** The settings that the rows of a table need not name: the first ones; answers are an extra. */
export function usualOf(all: Params[]): Params {
  const first = Object.assign({}, ...[...all].reverse()) as Params;
  return Object.fromEntries(Object.entries(first).filter(([name]) => name !== 'ack'));
}

const levelText = (value: string | number): string =>
  typeof value === 'number' ? binarySize(value) : value;

/** `persistent, blocking, buffer 64 KiB`: the settings that are not usual. */
export const settingsText = (params: Params, usual: Params = {}): string =>
  SETTINGS.filter(([name]) => name in params && params[name] !== usual[name])
    .map(([name, before]) => before + levelText(params[name] ?? ''))
    .join(', ');

/** `copy to mmap, window 4 KiB`. */
export const transferText = (params: Params, usual: Params = {}): string =>
  [`${params.send} to ${params.receive}`, settingsText(params, usual)].filter(Boolean).join(', ');

/** `window 4 KiB against 64 KiB`. */
export function effectText({ factor, level, from, with: other }: Params): string {
  const name = String(factor).replace('_bytes', '');
  // The levels of a size are numbers as text.
  const [one, against] = [level, from].map((of) =>
    name === factor ? of : levelText(Number(of)),
  );
  return `${name} ${one} against ${against}${other === undefined ? '' : `, where ${other}`}`;
}

/** What a transfer moves, and where to if not to this host. */
export const setText = ({ set, to }: Params): string =>
  to === undefined ? String(set) : `${set} to ${to}`;

/** All parameters, or those selected. */
export function parametersText(params: Params, only?: (name: string) => boolean): string {
  const of = 'factor' in params ? effectText : 'receive' in params ? transferText : null;
  if (only === undefined && of !== null) return `${setText(params)}, ${of(params)}`;
  const entries = Object.entries(params).filter(([name]) => only === undefined || only(name));
  return entries.map(([name, value]) => words(name, value)).join(', ');
}
