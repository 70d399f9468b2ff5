// The specifications of all charts: what each draws, and the command that measures it.

import type { Params } from '../contents';

interface Every {
  id: string;
  title: string;
  /** How to read it, in a sentence. */
  says: string;
  metrics: string[];
  /** Cases to draw; all by default. */
  only?: (params: Params) => boolean;
  /** Only cases that have this fact. */
  withFact?: string;
  /** The command that measures missing results. */
  measure: string;
  /** Uses the whole width of the page. */
  wide?: boolean;
  /** Several metrics are distinguished by their titles, not by the last part of their ids. */
  titles?: boolean;
}

/** What is drawn of a record in place of its headline: a quantile or a fact. */
export interface Part {
  metric: string;
  name: string;
  quantile?: number;
  fact?: string;
}

/** A quantity over one parameter. All other differing parameters distinguish lines. */
export interface LineSpec extends Every {
  kind: 'lines';
  x: string;
  xLabel: string;
  /** `steps`: values at equal distances. */
  xScale?: 'log' | 'steps';
  yLog?: boolean;
  /** The name of the value axis, if not by its unit. */
  yLabel?: string;
  /** Several lines per kind of case: the parts of its records, all of one unit. */
  parts?: Part[];
  /** One panel per combination of values of these parameters. */
  panel?: string[];
  /** Marks the cache sizes of the machine. */
  caches?: boolean;
  /** Draws capacities, saturation and knee of a load. */
  limits?: boolean;
  /** Draws the least-squares line of each kind of case. */
  fitted?: boolean;
  /** Not drawn without a line: another chart has its points. */
  lineOnly?: boolean;
  /** Metrics for a note below: `metric: text`. */
  beside?: { [metric: string]: string };
}

/** One row per case. */
export interface DotSpec extends Every {
  kind: 'dots';
  /** The name of a row, if not its differing parameters. */
  name?: (params: Params) => string;
  /** A fact to print beside the values. */
  fact?: string;
}

/** A cell per pair. */
export interface MatrixSpec extends Every {
  kind: 'matrix';
  row: string;
  column: string;
}

/** A heat map over time for each case. */
export interface HeatSpec extends Every {
  kind: 'heat';
}

export type Spec = LineSpec | DotSpec | MatrixSpec | HeatSpec;

/** Which records a chart has, and how it names them. */
export type Wanted = Pick<Every, 'metrics' | 'only' | 'withFact' | 'titles'> &
  Partial<Pick<LineSpec, 'x' | 'parts' | 'panel'>> &
  Pick<DotSpec, 'name'>;

/** Both axes are logarithmic. */
const BY_LOG = { xScale: 'log', yLog: true } as const;

/** The parameters of a case of a load. */
const CASE = ['mode', 'think_s'];

const LOAD = {
  kind: 'lines',
  x: 'clients',
  xLabel: 'clients',
  measure: 'fathom load URL',
} as const;

const QUANTILES: Part[] = [
  { metric: 'load.response_time', name: 'median' },
  { metric: 'load.response_time', name: 'p90', quantile: 0.9 },
  { metric: 'load.response_time', name: 'p99', quantile: 0.99 },
];

/** A fact about one step of a load. */
const ofLoad = (fact: string, name = fact): Part => ({ metric: 'load.throughput', name, fact });

export const SPECS: Spec[] = [
  {
    kind: 'lines',
    id: 'latency',
    title: 'Memory latency by working set size',
    says: 'Latency of dependent loads (pointer chase); grey lines: sizes of the caches.',
    metrics: ['memory.latency'],
    x: 'set_bytes',
    xLabel: 'working set',
    ...BY_LOG,
    caches: true,
    wide: true,
    measure: 'fathom run memory.latency',
  },
  {
    kind: 'dots',
    id: 'latency-levels',
    title: 'Latency by cache level',
    says: 'Load latency on the plateau of each level of the curve above.',
    metrics: ['l1', 'l2', 'l3', 'dram'].map((level) => `memory.latency.${level}`),
    measure: 'fathom run memory.latency.l1 memory.latency.dram',
  },
  {
    kind: 'lines',
    id: 'bandwidth',
    title: 'Memory bandwidth by threads',
    says: 'All threads together, with working sets larger than any cache.',
    metrics: ['memory.bandwidth'],
    only: (params) => params.level === 'dram',
    x: 'threads',
    xLabel: 'threads',
    measure: 'fathom run memory.bandwidth',
  },
  {
    kind: 'dots',
    id: 'bandwidth-levels',
    title: 'Read bandwidth by cache level, one core',
    says: 'Bandwidth of one thread that reads from a cache, or from memory.',
    metrics: ['memory.bandwidth'],
    only: (params) => params.threads === 1 && params.op === 'read',
    measure: 'fathom run memory.bandwidth',
  },
  {
    kind: 'lines',
    id: 'loaded',
    title: 'Loaded memory latency',
    says: 'Memory latency while the other cores read, by their duty cycle.',
    metrics: ['memory.latency.loaded'],
    x: 'load',
    xLabel: 'duty cycle of the other cores, %',
    measure: 'fathom run memory.latency.loaded',
  },
  {
    kind: 'matrix',
    id: 'core-to-core',
    title: 'Core-to-core latency',
    says: 'Time until one CPU sees a write by another, for each pair.',
    metrics: ['memory.core_to_core'],
    row: 'a',
    column: 'b',
    measure: 'fathom run memory.core_to_core',
  },
  {
    kind: 'lines',
    id: 'sweep',
    title: 'File read throughput by block size',
    says: 'Reading a file from the page cache (warm) and from the device (cold, O_DIRECT).',
    metrics: ['file.read.throughput'],
    x: 'block',
    xLabel: 'block size',
    ...BY_LOG,
    wide: true,
    measure: 'fathom file sweep',
  },
  {
    kind: 'lines',
    id: 'sweep-dd',
    title: 'File read throughput beside dd',
    says: 'The same blocks of the same file, read in turn by fathom and by dd, whose start-up time is subtracted.',
    metrics: ['file.read.throughput'],
    withFact: 'dd',
    parts: [
      { metric: 'file.read.throughput', name: 'fathom' },
      { metric: 'file.read.throughput', name: 'dd', fact: 'dd' },
    ],
    x: 'block',
    xLabel: 'block size',
    ...BY_LOG,
    wide: true,
    measure: 'fathom file sweep --with-dd',
  },
  {
    kind: 'dots',
    id: 'file-calls',
    title: 'System calls on a cached file',
    says: 'Time of one call on a file in the page cache.',
    metrics: ['file.call'],
    only: (params) => params.calls === undefined,
    measure: 'fathom run file.call',
  },
  {
    kind: 'lines',
    id: 'call-counts',
    title: 'Calls per second by number of calls',
    says: 'Reads of one byte and seeks on a cached file, over the number of calls of a pass.',
    metrics: ['file.call'],
    parts: [{ metric: 'file.call', name: '', fact: 'rate' }],
    x: 'calls',
    xLabel: 'calls',
    xScale: 'log',
    measure: 'fathom file calls',
  },
  {
    kind: 'lines',
    id: 'file-latency',
    title: 'File read latency by file size',
    says: 'Time of a 4 KiB block, sequential and random, from the page cache and from the device.',
    metrics: ['file.read.latency'],
    x: 'file_bytes',
    xLabel: 'file size',
    ...BY_LOG,
    measure: 'fathom run file.read.latency',
  },
  {
    kind: 'lines',
    id: 'contention',
    title: 'File read latency under contention',
    says: 'Time of a block in one process, by the number of processes reading their own files.',
    metrics: ['file.contention'],
    x: 'processes',
    xLabel: 'reading processes',
    fitted: true,
    beside: { 'file.contention.per_process': 'added per other process' },
    measure: 'fathom file contend',
  },
  {
    kind: 'dots',
    id: 'capacity',
    title: 'Largest file that stays cached',
    says: 'The largest file that is fully in the page cache after two reads.',
    metrics: ['file.capacity'],
    measure: 'fathom file capacity',
  },
  {
    kind: 'lines',
    id: 'capacity-times',
    title: 'Block time by file size',
    says: 'Time of a 4 KiB block when the file is read again; it rises where the cache ends.',
    metrics: ['file.capacity.block_time'],
    x: 'file_bytes',
    xLabel: 'file size',
    ...BY_LOG,
    measure: 'fathom file capacity',
  },
  {
    kind: 'lines',
    id: 'remote-latency',
    title: 'Remote file read by file size',
    says: 'Time of a 4 KiB block of a file of another process or host, by order and caches.',
    metrics: ['file.read.remote'],
    x: 'file_bytes',
    xLabel: 'file size',
    ...BY_LOG,
    measure: 'fathom run file.read.remote',
  },
  {
    kind: 'dots',
    id: 'syscalls',
    title: 'System calls',
    says: 'Time of one system call by the bare instruction, on cached data.',
    metrics: ['os.syscall'],
    measure: 'fathom run os.syscall',
  },
  {
    kind: 'lines',
    id: 'call',
    title: 'Function call by arguments',
    says: 'Time of a call and return; from the seventh, arguments go on the stack (x86-64).',
    metrics: ['cpu.call'],
    x: 'args',
    xLabel: 'arguments',
    fitted: true,
    beside: { 'cpu.call.per_argument': 'per argument' },
    measure: 'fathom run cpu.call',
  },
  {
    kind: 'lines',
    id: 'fork',
    title: 'fork by resident memory of the parent',
    says: 'Until fork returns in the parent, and until the child is reaped.',
    metrics: ['os.process.fork'],
    x: 'rss_bytes',
    xLabel: 'resident memory of the parent',
    ...BY_LOG,
    measure: 'fathom run os.process.fork',
  },
  {
    kind: 'lines',
    id: 'switch',
    title: 'Context switch by working set',
    says: 'Time of a switch on one CPU; in each turn a side reads and writes its own set.',
    metrics: ['os.switch.thread', 'os.switch.process'],
    x: 'set_bytes',
    xLabel: 'working set per turn',
    xScale: 'steps',
    measure: 'fathom run os.switch.thread os.switch.process',
  },
  {
    kind: 'lines',
    id: 'descriptors',
    title: 'select, poll and epoll by descriptors',
    says: 'Time of one call over the number of watched descriptors.',
    metrics: ['os.select', 'os.poll', 'os.epoll'],
    x: 'fds',
    xLabel: 'descriptors',
    ...BY_LOG,
    measure: 'fathom run os.select os.poll os.epoll',
  },
  {
    kind: 'lines',
    id: 'round-trips',
    title: 'Network round trip by size',
    says: 'A request and an answer of the same size by ICMP, TCP and UDP.',
    metrics: ['network.icmp.rtt', 'network.tcp.rtt', 'network.udp.rtt'],
    x: 'bytes',
    xLabel: 'bytes each way',
    xScale: 'steps',
    yLog: true,
    titles: true,
    measure: 'fathom run network.icmp.rtt network.tcp.rtt network.udp.rtt',
  },
  {
    kind: 'lines',
    id: 'chunks',
    title: 'TCP bandwidth by chunk size',
    says: 'Bytes per second over the bytes of a call of send and recv, one connection.',
    metrics: ['network.tcp.bandwidth'],
    only: (params) => params.streams === 1,
    x: 'chunk_bytes',
    xLabel: 'bytes of a call',
    ...BY_LOG,
    measure: 'fathom run network.tcp.bandwidth',
  },
  {
    kind: 'lines',
    id: 'streams',
    title: 'TCP bandwidth by connections',
    says: 'Bytes per second of all connections together, with chunks of one size.',
    metrics: ['network.tcp.bandwidth'],
    x: 'streams',
    xLabel: 'connections',
    lineOnly: true,
    measure: 'fathom run network.tcp.bandwidth',
  },
  {
    kind: 'dots',
    id: 'connections',
    title: 'TCP connect and close',
    says: 'Creating a connection, accepting it, and the ways to end it.',
    metrics: ['connect', 'accept', 'close_fin', 'close_rst', 'teardown'].map(
      (what) => `network.tcp.${what}`,
    ),
    titles: true,
    measure: 'fathom run network.tcp.connect network.tcp.teardown',
  },
  {
    ...LOAD,
    id: 'load-throughput',
    title: 'Load: throughput by clients',
    says: 'Complete responses per second of closed-loop clients.',
    metrics: ['load.throughput'],
    yLabel: 'requests',
    limits: true,
    wide: true,
  },
  {
    ...LOAD,
    id: 'load-response',
    title: 'Load: response time by clients',
    says: 'From the request sent to the last byte received, without think time.',
    metrics: ['load.response_time'],
    parts: QUANTILES,
    yLog: true,
    panel: CASE,
    wide: true,
  },
  {
    kind: 'heat',
    id: 'load-heat',
    title: 'Load: response time over time',
    says:
      'Darker: more of the responses; red: a slice of time without any. Of an open loop by when a ' +
      'request was due, else by when its response ended; dashed: from sweep to sweep.',
    metrics: ['load.response_time'],
    only: (params) => params.from === undefined,
    measure: 'fathom load URL',
    wide: true,
  },
  {
    ...LOAD,
    id: 'load-rate',
    title: 'Load: response time by rate',
    says: 'Open loop: to the last byte received, from when a request was due or was sent.',
    metrics: ['load.response_time'],
    x: 'rate',
    xLabel: 'requests/s',
    parts: QUANTILES,
    yLog: true,
    panel: ['arrivals', 'from'],
    wide: true,
  },
  {
    ...LOAD,
    id: 'load-utilisation',
    title: 'Load: utilisation by clients',
    says: 'CPU time of the server (100 %: one CPU) and of the busiest client thread; device busy.',
    metrics: ['load.throughput'],
    parts: ['server CPU', 'client CPU', 'disk busy'].map((fact) => ofLoad(fact)),
    yLabel: 'utilisation',
    panel: CASE,
    wide: true,
  },
  {
    ...LOAD,
    id: 'load-transfer',
    title: 'Load: bytes per second by clients',
    says: 'Bodies received, bytes on the server’s network links, and bytes that it reads from its device.',
    metrics: ['load.bandwidth', 'load.throughput'],
    parts: [
      { metric: 'load.bandwidth', name: 'bodies' },
      ofLoad('wire'),
      ofLoad('disk', 'device'),
    ],
    panel: CASE,
    wide: true,
  },
  {
    ...LOAD,
    id: 'load-reads',
    title: 'Load: device reads by clients',
    says: 'Read operations per second of the server’s device, those of others included.',
    metrics: ['load.throughput'],
    parts: [ofLoad('disk reads', 'device reads')],
    yLabel: 'operations',
    panel: CASE,
    wide: true,
  },
];
