// The top of the page: the answer, the main results, the quality of the run, findings, results
// without a number, and the machine.

import { answers } from './answer';
import type { Contents, Document } from './contents';
import { hasNumber, letter, nameOf, reasonsOf, titleOf, valueText } from './contents';
import { compared, counted } from './compared';
import { element, facts } from './element';
import type { Heading, Show } from './opening';
import { opening, titled } from './opening';
import { binarySize, quantity } from './quantity';
import { changedMost, tiles } from './tiles';

/** Entries listed at most; the table has all. */
const LISTED = 6;

type Fact = [string, (string | null | undefined | false)[]];

function cacheText(document: Document): string {
  const data = document.host.cpu.caches.filter((cache) => cache.kind !== 'instruction');
  return data.map((cache) => `L${cache.level} ${binarySize(cache.size_bytes)}`).join(', ');
}

function frequency(document: Document): string {
  const { base_hz: base, boost_hz: boost, hz } = document.host.cpu;
  if (base != null && boost != null) {
    return `${quantity(base, 'Hz', 3)} to ${quantity(boost, 'Hz', 3)}`;
  }
  const known = base ?? boost ?? hz;
  return known == null ? '' : quantity(known, 'Hz', 3);
}

/** A count with its noun, if known. */
const known = (count: number | null | undefined, what: string): string =>
  count == null ? '' : counted(count, what);

/** Rates by powers of 1000: `2.5 Gbit/s`. */
const giga = (perSecond: number | null | undefined, unit: string): string =>
  perSecond == null ? '' : `${Number((perSecond / 1e9).toPrecision(3))} G${unit}`;

/** Disks, bus links and network interfaces, as on the terminal. */
function hardware({ host }: Document): Fact[] {
  const joined = (parts: (string | null | undefined | false)[]): string =>
    parts.filter(Boolean).join(' ');
  const cards = host.network.filter(({ driver, bits_per_s: bits }) => driver ?? bits);
  return [
    [
      'disks',
      host.disks.map((disk) =>
        joined([
          disk.name,
          disk.model?.trim(),
          quantity(disk.size_bytes, 'bytes', 3),
          disk.rotational != null && (disk.rotational ? 'rotational' : 'not rotational'),
        ]),
      ),
    ],
    [
      'bus links',
      host.links.map((link) =>
        joined([
          `${link.name} (${link.kind})`,
          giga(link.transfers_per_s, 'T/s'),
          link.lanes != null && `× ${link.lanes}`,
        ]),
      ),
    ],
    [
      'network',
      cards.map((card) =>
        joined([
          card.name,
          card.driver && `(${card.driver})`,
          giga(card.bits_per_s, 'bit/s') || 'unknown speed',
        ]),
      ),
    ],
  ];
}

function machine(document: Document): Fact[] {
  const { host, run } = document;
  const { cpu, memory, cgroup } = host;
  // Of what another program measured, less is known.
  const isImport = run.procedure?.startsWith('import ') ?? false;
  return [
    ['processor', [cpu.model || 'unknown', frequency(document)]],
    [
      'CPUs',
      [
        cpu.logical > 0 && known(cpu.logical, 'logical CPU'),
        known(cpu.cores, 'core'),
        known(cpu.sockets, 'socket'),
        cpu.smt != null &&
          (cpu.smt
            ? 'SMT on'
            : (host.virtualization ?? 'none') === 'none'
              ? 'SMT off'
              : 'no SMT visible'),
      ],
    ],
    ['caches', [cacheText(document)]],
    [
      'memory',
      [
        memory.total_bytes != null && quantity(memory.total_bytes, 'bytes', 3),
        ...memory.modules.slice(0, 1).map((module) => module.kind),
        memory.thp && `huge pages: ${memory.thp}`,
      ],
    ],
    [
      'limits',
      [
        cgroup.cpu_quota != null && `CPU quota ${cgroup.cpu_quota}`,
        cgroup.memory_limit_bytes != null &&
          `memory limit ${quantity(cgroup.memory_limit_bytes, 'bytes', 3)}`,
      ],
    ],
    ...hardware(document),
    ['system', [host.distribution, host.kernel && `kernel ${host.kernel}`]],
    [
      'environment',
      [host.virtualization === 'none' ? 'no virtualisation' : host.virtualization, host.container],
    ],
    ['clock', [!isImport && `${run.clock.source} at ${quantity(run.clock.hz, 'Hz', 4)}`]],
    [
      'measured',
      [
        `${run.started.replace('T', ' ').replace(/(\.\d+)?Z$/, '')} UTC`,
        ...(isImport ? [] : [run.effort, `on CPU ${run.cpu}`, run.cpu_reason]),
        ...(run.tuned ?? []),
      ],
    ],
    ['core to itself', [run.reference && `${run.reference.clean} of ${run.reference.visits} processes`]],
    [
      'run',
      [
        run.id,
        `fathom ${document.tool.version}`,
        run.asked.length > 0 && `${isImport ? '' : 'metrics '}${run.asked.join(' ')}`,
      ],
    ],
    ...(document.far ?? []).map(({ name, host: far }): Fact => [
      'far end',
      [name !== far.name && name, far.name, far.cpu.model, far.kernel && `kernel ${far.kernel}`],
    ]),
  ];
}

function machineFacts(document: Document): HTMLElement {
  const all = machine(document).map(([name, parts]): [string, string] => [
    name,
    parts.filter(Boolean).join(', '),
  ]);
  return facts(
    all.filter(([, text]) => text !== ''),
    { class: 'facts' },
  );
}

/** The conclusions of a published study. */
function claims({ records, run }: Document, heading: Heading): HTMLElement[] {
  const of = records.filter(({ metric }) => metric === 'transfer.claim');
  if (of.length === 0) return [];
  const made = of.map((record) =>
    element('li', {}, `${record.params.claim}: ${valueText(record, run)}`),
  );
  const listed = list(heading('Conclusions of the 2020 study'), made, false);
  return [element('div', { class: 'lists' }, listed)];
}

const list = (head: Node, items: Node[], buttons: Node[] | false): HTMLElement =>
  element('section', {}, head, element('ul', {}, items), buttons || null);

/** Results without a number, with reasons and remedies. */
function absent(document: Document, show: Show, heading: Heading): HTMLElement | null {
  const all = document.records.filter((record) => !hasNumber(record));
  if (all.length === 0) return null;
  const items = all
    .slice(0, LISTED)
    .map((record) =>
      element(
        'li',
        {},
        element('strong', { title: nameOf(record) }, titleOf(record)),
        ` ${record.verdict.state}`,
        element('small', {}, reasonsOf(record).join('; ')),
      ),
    );
  const states = [...new Set(all.map((record) => record.verdict.state))];
  const more = states.map((state) =>
    element('button', { type: 'button', onclick: () => show(state) }, `Show all ${state}`),
  );
  const listed = list(heading('Results without a number'), items, all.length > LISTED && more);
  return element('div', { class: 'lists' }, listed);
}

/** Counts, findings and facts about the whole run, below its numbers. */
function whole(contents: Contents, run: number, document: Document): HTMLElement {
  const closing = contents.closing[run];
  const findings = closing?.findings ?? [];
  return element(
    'div',
    { class: 'short' },
    closing?.verdict != null && element('p', { class: 'warn' }, closing.verdict),
    element('p', {}, closing?.counts),
    findings.length > 0 &&
      element(
        'ol',
        {},
        findings.map((finding) => element('li', {}, ...titled(finding, document))),
      ),
    (closing?.whole ?? []).length > 0 &&
      element('p', { class: 'faint' }, closing?.whole.join(' ')),
  );
}

/** The machine and the run: a short chapter; of several runs to unfold. */
function about(document: Document, heading: Heading | null): HTMLElement[] {
  const title = 'Machine and run';
  if (heading !== null) return [heading(title), machineFacts(document)];
  const unfolded = element('summary', {}, title);
  return [element('details', { class: 'about' }, unfolded, machineFacts(document))];
}

/** One run; with its letter if there are several. */
function ofRun(contents: Contents, run: number, document: Document, show: Show): HTMLElement[] {
  const several = contents.documents.length > 1;
  const described = `${hostName(contents, document)}: ${document.host.cpu.model || 'unknown CPU'}`;
  const name = [document.run.label, workOf(document), described].filter(Boolean).join(': ');
  const heading: Heading = (text) => element(several ? 'h3' : 'h2', { class: 'minor' }, text);
  return [
    several ? element('h2', {}, `${letter(run)}: ${name}`) : element('h1', {}, name),
    ...opening(contents, run, document, show, heading),
    ...answers(document),
    ...claims(document, heading),
    // Of several runs the table has the numbers side by side.
    several ? null : tiles(contents.tiles[run] ?? [], document),
    whole(contents, run, document),
    absent(document, show, heading),
    ...about(document, several ? null : heading),
  ].filter((part) => part !== null);
}

export function summary(contents: Contents, show: Show): HTMLElement {
  const runs = contents.documents.map((document, run) =>
    element('article', {}, ...ofRun(contents, run, document, show)),
  );
  const several = runs.length > 1;
  const name = element('h1', {}, `${runs.length} runs side by side`);
  const head = several ? [name, ...compared(contents), ...changedMost(contents)] : [];
  const side = element('div', { class: several ? 'runs several' : 'runs' }, runs);
  return element('section', { 'aria-label': 'summary' }, head, side);
}

/** The command of a run that is not of the battery: its address, paths or programs. */
const workOf = ({ run }: Document): string => (run.procedure == null ? '' : run.asked.join(' '));

/** The title of the page. */
export function title(contents: Contents): string {
  const names = contents.documents.map((document) =>
    [workOf(document), hostName(contents, document)].filter(Boolean).join(', '),
  );
  return `Fathom: ${[...new Set(names)].join('; ')}`;
}

/** The name, with the beginning of the id if another host on the page has the same name. */
function hostName(contents: Contents, { host }: Document): string {
  const hosts = contents.documents.map((document) => document.host);
  const collides = hosts.some(({ name, id }) => name === host.name && id !== host.id);
  const id = collides && host.id ? ` (${host.id.slice(0, 8)})` : '';
  return `${host.name || 'a machine'}${id}`;
}
