// The charts there are, as data: what each draws of which metrics, and what measures them.

import type { Params } from '../contents';

interface Every {
  id: string;
  /** What one sees, as a headline. */
  title: string;
  /** How to read it, in a sentence. */
  says: string;
  metrics: string[];
  /** Cases that belong; all where it is absent. */
  only?: (params: Params) => boolean;
  /** The command that measures what is missing. */
  measure: string;
  /** Over the whole width of the page. */
  wide?: boolean;
}

/** A quantity over one parameter. Whatever else differs tells lines apart. */
export interface LineSpec extends Every {
  kind: 'lines';
  x: string;
  xLabel: string;
  /** `steps`: values side by side, at the same distance. */
  xScale?: 'log' | 'steps';
  yLog: boolean;
  /** One panel for each value of this parameter. */
  panel?: string;
  /** Sizes of the machine's caches are marked. */
  caches?: boolean;
  /** Metrics that say more in a sentence beneath: `metric: text`. */
  beside?: { [metric: string]: string };
}

/** One row a case. */
export interface DotSpec extends Every {
  kind: 'dots';
}

/** A cell for each pair. */
export interface MatrixSpec extends Every {
  kind: 'matrix';
  row: string;
  column: string;
}

export type Spec = LineSpec | DotSpec | MatrixSpec;

export const SPECS: Spec[] = [
  {
    kind: 'lines',
    id: 'latency',
    title: 'A load takes longer, the more memory it may hit',
    says: 'Time of a load that waits for the one before, over sets of growing size.',
    metrics: ['memory.latency'],
    x: 'set_bytes',
    xLabel: 'working set',
    xScale: 'log',
    yLog: true,
    caches: true,
    wide: true,
    measure: 'fathom run memory.latency',
  },
  {
    kind: 'lines',
    id: 'bandwidth',
    title: 'Bandwidth of memory by threads',
    says: 'All threads together, on sets that no cache holds.',
    metrics: ['memory.bandwidth'],
    only: (params) => params.level === 'dram',
    x: 'threads',
    xLabel: 'threads',
    yLog: false,
    measure: 'fathom run memory.bandwidth',
  },
  {
    kind: 'dots',
    id: 'bandwidth-levels',
    title: 'What one core reads, level by level',
    says: 'Bandwidth of one thread that reads from a cache, or from memory.',
    metrics: ['memory.bandwidth'],
    only: (params) => params.threads === 1 && params.op === 'read',
    measure: 'fathom run memory.bandwidth',
  },
  {
    kind: 'lines',
    id: 'loaded',
    title: 'A load beside the reads of other cores',
    says: 'Latency of memory while the other cores read, by how much of the time they do.',
    metrics: ['memory.latency.loaded'],
    x: 'load',
    xLabel: 'share of the time in which others read, %',
    yLog: false,
    measure: 'fathom run memory.latency.loaded',
  },
  {
    kind: 'matrix',
    id: 'core-to-core',
    title: 'A cache line from core to core',
    says: 'Time until one CPU sees what another has written, for each pair.',
    metrics: ['memory.core_to_core'],
    row: 'a',
    column: 'b',
    measure: 'fathom run memory.core_to_core',
  },
  {
    kind: 'lines',
    id: 'sweep',
    title: 'Small blocks cost calls, cold ones wait for the device',
    says: 'Rate of reading a file over the size of the block.',
    metrics: ['file.read.throughput'],
    x: 'block',
    xLabel: 'block',
    xScale: 'log',
    yLog: true,
    panel: 'state',
    wide: true,
    measure: 'fathom file sweep',
  },
  {
    kind: 'dots',
    id: 'file-calls',
    title: 'A read against a seek, and other calls on a file in memory',
    says: 'Time of one call on a file that is in the page cache.',
    metrics: ['file.call'],
    measure: 'fathom run file.call',
  },
  {
    kind: 'lines',
    id: 'file-latency',
    title: 'A block of a file by the size of the file',
    says: 'Time of one block of 4 KiB, in order and at random, from memory and from the device.',
    metrics: ['file.read.latency'],
    x: 'file_bytes',
    xLabel: 'size of the file',
    xScale: 'log',
    yLog: true,
    measure: 'fathom run file.read.latency',
  },
  {
    kind: 'lines',
    id: 'contention',
    title: 'A block while other processes read',
    says: 'Time of a block as one process sees it, by how many read files of their own.',
    metrics: ['file.contention'],
    x: 'processes',
    xLabel: 'processes that read',
    yLog: false,
    beside: { 'file.contention.per_process': 'each other process adds' },
    measure: 'fathom file contend',
  },
  {
    kind: 'dots',
    id: 'capacity',
    title: 'The largest file that stays in memory',
    says: 'What the page cache holds as a whole after a file was read twice.',
    metrics: ['file.capacity'],
    measure: 'fathom file capacity',
  },
  {
    kind: 'dots',
    id: 'syscalls',
    title: 'What the kernel takes for a call',
    says: 'Time of one system call by the bare instruction, on cached data.',
    metrics: ['os.syscall'],
    measure: 'fathom run os.syscall',
  },
  {
    kind: 'lines',
    id: 'call',
    title: 'A procedure call by its arguments',
    says: 'Time of a call and its return; from the seventh on, arguments go by the stack (x86-64).',
    metrics: ['cpu.call'],
    x: 'args',
    xLabel: 'arguments',
    yLog: false,
    beside: { 'cpu.call.per_argument': 'one more argument' },
    measure: 'fathom run cpu.call',
  },
  {
    kind: 'lines',
    id: 'fork',
    title: 'A fork by what the process holds in memory',
    says: 'Until fork returns in the parent, and in all until the child is reaped.',
    metrics: ['os.process.fork'],
    x: 'rss_bytes',
    xLabel: 'resident memory of the parent',
    xScale: 'log',
    yLog: true,
    measure: 'fathom run os.process.fork',
  },
  {
    kind: 'lines',
    id: 'switch',
    title: 'A switch by the memory that each side uses',
    says: 'Time of a switch on one CPU; at each turn a side reads and writes a set of its own.',
    metrics: ['os.switch.thread', 'os.switch.process'],
    x: 'set_bytes',
    xLabel: 'memory used at each turn',
    xScale: 'steps',
    yLog: false,
    measure: 'fathom run os.switch.thread os.switch.process',
  },
  {
    kind: 'lines',
    id: 'descriptors',
    title: 'Asking after many descriptors',
    says: 'Time of one call over the number of descriptors it watches.',
    metrics: ['os.select', 'os.poll', 'os.epoll'],
    x: 'fds',
    xLabel: 'descriptors',
    xScale: 'log',
    yLog: true,
    measure: 'fathom run os.select os.poll os.epoll',
  },
];
