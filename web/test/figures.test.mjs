// Tests of what a figure must keep clear: labels, legends, and predictions; and of its equations.

import assert from 'node:assert/strict';
import { chrome, named, open, prepare, workspace } from './report.mjs';

const METRICS = ['cpu.call', 'os.syscall', 'file.read.latency', 'os.switch.process'];

prepare(() => {
  workspace.store('battery-1', METRICS);
  workspace.fathom('report');
});
const valid = { state: 'valid', reasons: [] };

/** A page on which the first records are those of a metric, with these parameters and medians. */
async function drawn(metric, cases, more = () => {}) {
  const apply = (contents) => {
    const [document] = contents.documents;
    const records = cases.map(([params, median], at) => {
      const record = structuredClone(document.records[0]);
      const title = `title of ${metric}`;
      Object.assign(record, { metric, params, title, verdict: valid, prediction: null, facts: [] });
      const interval = { ...record.summary.interval, low: median * 0.99, high: median * 1.01 };
      Object.assign(record.summary, { median, interval, bound: null });
      more(record, at);
      return record;
    });
    document.records = records;
    contents.words[0] = records.map(() => ({}));
    contents.tiles[0] = [];
    contents.samples[0] = [];
    return contents;
  };
  const { path } = workspace.page('drawn.html', apply);
  return open(chrome, path);
}

/** The boxes of all elements. */
const boxes = (locator) =>
  locator.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()));

const touch = (a, b) =>
  a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;

const overlaps = (all) =>
  all.flatMap((a, at) => all.slice(at + 1).filter((b) => touch(a, b))).length;

const read = (block, state, threads, more = {}) => ({ block, state, threads, ...more });

named('cold and warm reads are on one logarithmic axis, reads by their order', async () => {
  const cases = [4096, 65536, 1048576].flatMap((block) => [
    [read(block, 'cold', 1, { read: 1 }), 1e8],
    [read(block, 'warm', 1, { read: 2 }), 1e10],
  ]);
  const { page, log } = await drawn('file.read.throughput', cases, (record) => {
    record.unit = 'bytes/s';
  });
  await page.locator('#sweep svg').waitFor();
  assert.equal(await page.locator('#sweep svg').count(), 1);
  assert.equal(await page.locator('#sweep g.lines path').count(), 2);
  const names = await page.locator('#sweep g.names text').allTextContents();
  assert.deepEqual(
    names.map((name) => name.replace(/^● /, '')),
    ['cold, first read', 'warm, second read'],
  );
  assert.equal(await page.locator('#sweep [aria-label="fx-axis tick label"]').count(), 0);
  const places = (await boxes(page.locator('#sweep g.measured circle'))).map(({ top }) => top);
  // On a linear axis the slow line would be at its lower end.
  const [frame] = await boxes(page.locator('#sweep svg'));
  assert.ok(Math.max(...places) < frame.bottom - 44 - 8, places.join());
  assert.deepEqual(log, []);
});

named('legends do not overlap, whatever their letters', async () => {
  const wide = ['WWWWWWWW mmmm', 'OOOO_DIRECT', 'warm', 'iiiiiiii', 'MMMMMMMM WWWW', 'cold'];
  const cases = [4096, 65536, 1048576].flatMap((block) =>
    wide.map((order, at) => [{ file_bytes: block, order }, 1e8 * (at + 1)]),
  );
  for (const width of [1280, 390]) {
    const { page } = await drawn('file.read.latency', cases);
    await page.setViewportSize({ width, height: 800 });
    await page.locator('#file-latency svg').waitFor();
    const names = page.locator('#file-latency g.names text');
    assert.equal(await names.count(), 6);
    assert.equal(overlaps(await boxes(names)), 0, String(width));
  }
});

named('label of a line that ends early is in the legend', async () => {
  const cases = [
    [{ file_bytes: 4096, order: 'early' }, 100],
    [{ file_bytes: 65536, order: 'early' }, 110],
    [{ file_bytes: 4096, order: 'late' }, 100],
    [{ file_bytes: 1048576, order: 'late' }, 120],
  ];
  const { page } = await drawn('file.read.latency', cases);
  const names = page.locator('#file-latency g.names text');
  await names.first().waitFor();
  const points = await boxes(page.locator('#file-latency g.measured circle'));
  const top = Math.min(...points.map((box) => box.top));
  for (const { bottom } of await boxes(names)) assert.ok(bottom <= top);
});

named('labels have a halo', async () => {
  const cases = [1, 2, 3].flatMap((args) => [
    [{ args, form: 'a' }, args],
    [{ args, form: 'b' }, 2 * args],
  ]);
  const { page } = await drawn('cpu.call', cases);
  const label = page.locator('#call g.names').first();
  await label.waitFor();
  assert.equal(await label.getAttribute('stroke'), 'var(--paper)');
  assert.equal(await label.getAttribute('paint-order'), 'stroke');
});

named('predicted values and ranges are never cut off', async () => {
  for (const [predicted, id, metric, param] of [
    [{ value: 4000, low: 20, high: 90000 }, 'call', 'cpu.call', 'args'],
    [{ value: 4000, low: 20, high: 90000 }, 'syscalls', 'os.syscall', 'call'],
  ]) {
    const cases = [1, 2, 3].map((at) => [{ [param]: param === 'args' ? at : `c${at}` }, 100 * at]);
    const { page } = await drawn(metric, cases, (record) => {
      record.prediction = { ...predicted, formula: '', source: '', inputs: [] };
    });
    await page.locator(`#${id} svg`).waitFor();
    const ranges = page.locator(`#${id} g.predicted-ranges line`);
    assert.equal(await ranges.count(), 3, id);
    const [svg] = await boxes(page.locator(`#${id} svg`));
    const marks = page.locator(`#${id} :is(g.predicted-ranges line, g.predictions path)`);
    for (const box of await boxes(marks)) {
      const inside = box.top >= svg.top && box.bottom <= svg.bottom && box.right <= svg.right;
      assert.ok(inside && box.left >= svg.left, `${id}: ${JSON.stringify(box)}`);
    }
  }
});

named('equation of a line is below its figure', async () => {
  const cases = [1, 2, 4].map((processes) => [{ processes, state: 'direct' }, 100 * processes]);
  const { page } = await drawn('file.contention', cases, (record, at) => {
    if (at === 0) record.facts = [{ name: 'line', text: '2 ns + 3 ns × processes, r² = 0.99' }];
  });
  const caption = page.locator('#contention figcaption');
  await caption.waitFor();
  const text = await caption.textContent();
  assert.match(text, /Least-squares line: 2 ns \+ 3 ns × processes, r² = 0\.99\./);
});

named('network and page cache have their curves', async () => {
  const sizes = [4096, 65536, 1048576];
  const bandwidth = 'network.tcp.bandwidth';
  for (const [metric, id, cases] of [
    ['network.tcp.rtt', 'round-trips', [1, 56].map((bytes) => [{ bytes }, 1000])],
    [bandwidth, 'chunks', sizes.map((size) => [{ chunk_bytes: size, streams: 1 }, 1e9])],
    [bandwidth, 'streams', [1, 2].map((streams) => [{ chunk_bytes: 4096, streams }, 1e9])],
    ['file.read.remote', 'remote-latency', sizes.map((size) => [{ file_bytes: size }, 1000])],
    ['file.capacity.block_time', 'capacity-times', sizes.map((size) => [{ file_bytes: size }, 99])],
  ]) {
    const { page, log } = await drawn(metric, cases);
    const points = page.locator(`#${id} g.measured circle`);
    await points.first().waitFor();
    assert.equal(await points.count(), cases.length, id);
    // Through two positions there is no line.
    const lines = await page.locator(`#${id} g.lines path`).count();
    assert.equal(lines, cases.length > 2 ? 1 : 0, id);
    assert.deepEqual(log, [], id);
  }
  const { page } = await drawn('network.tcp.connect', [[{ to: 'loopback' }, 1000]]);
  assert.match(await page.locator('#connections .value').textContent(), /^1\.000 µs/);
});
