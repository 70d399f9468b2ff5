// Tests of the charts of a load, on a recorded one of `fathom serve`.

import assert from 'node:assert/strict';
import { chrome, named, open, prepare, workspace } from './report.mjs';

const IDS = ['throughput', 'response', 'utilisation', 'transfer', 'reads'];
const CASES = ['random files, 0 s think time', 'fixed files, 0 s think time'];

prepare(() => {
  workspace.store('load');
  workspace.fathom('report');
});

/** A page on which each step has the same known state and facts. */
function known() {
  return workspace.page('known.html', (contents) => {
    for (const record of contents.documents[0].records) {
      if (!record.metric.startsWith('load.') || record.params.clients === undefined) continue;
      const { clients } = record.params;
      record.verdict = { state: 'valid', reasons: [] };
      const facts = [
        ['server CPU', 0.2 * clients, 'ratio'],
        ['client CPU', 0.1 * clients, 'ratio'],
        ['disk busy', 0.05, 'ratio'],
        ['disk', 5e6 * clients, 'bytes/s'],
        ['disk reads', 300 * clients, '1/s'],
        ['wire', 1e7 * clients, 'bytes/s'],
      ];
      if (record.metric === 'load.throughput')
        record.facts = facts.map(([name, value, unit]) => ({ name, value, unit }));
      const interval = { low: 900 * clients, high: 1200 * clients, level: 0.95 };
      const { summary } = record;
      Object.assign(summary, { median: 1000 * clients, bound: null });
      summary.interval = { ...summary.interval, ...interval, basis: 'within_run' };
      if (record.metric === 'load.response_time') {
        summary.quantiles = [
          { q: 0.9, value: 3000 * clients },
          { q: 0.99, value: 9000 * clients },
        ];
      }
    }
    return contents;
  });
}

const marks = (page, id) => page.locator(`#load-${id} g.measured circle`).count();
const texts = (page, id, part) => page.locator(`#load-${id} ${part}`).allTextContents();

named('load has a chart for each quantity over clients', async () => {
  const { page, log } = await open(chrome, known().path);
  await page.locator('#load-reads svg').waitFor();
  assert.deepEqual(log, []);
  // Two cases of three steps: throughput, three times, three utilisations, three rates, reads.
  const counts = [6, 18, 18, 18, 6];
  for (const [at, id] of IDS.entries()) {
    assert.equal(await marks(page, id), counts[at], id);
    const ticks = await texts(page, id, '[aria-label="x-axis tick label"] text');
    assert.deepEqual([...new Set(ticks)], ['1', '2', '4'], id);
    assert.match((await texts(page, id, 'svg')).join(), /clients/, id);
  }
  const panels = await texts(page, 'response', '[aria-label="fx-axis tick label"] text');
  assert.deepEqual(panels, CASES);
  // Only what differs between the lines.
  const lines = await texts(page, 'throughput', 'g.names text');
  assert.deepEqual(lines.sort(), ['fixed files', 'random files']);
  const names = await texts(page, 'response', 'g.names text');
  assert.deepEqual([...new Set(names)].sort(), ['median', 'p90', 'p99']);
  const percents = await texts(page, 'utilisation', '[aria-label="y-axis tick label"] text');
  assert.ok(percents.length > 2 && percents.every((tick) => /^\d+ %$/.test(tick)), percents.join());
  const rates = await texts(page, 'transfer', '[aria-label="y-axis tick label"] text');
  assert.ok(rates.some((tick) => / MiB\/s$/.test(tick)), rates.join());
});

named('points of a load have their value and interval', async () => {
  const { page } = await open(chrome, known().path);
  const first = page.locator('#load-response');
  await first.locator('summary').click();
  await first.locator('tbody tr').first().waitFor();
  const rows = await first.locator('tbody tr').allTextContents();
  const of = (part, value) => rows.filter((row) => row.includes(part) && row.includes(value));
  assert.equal(of('p99', '36.00 µs').length, 2, rows.join('\n'));
  assert.equal(of('median', '4.000 µs').length, 2);
  const heights = (part) =>
    page.locator(`#load-response g.intervals line`).evaluateAll((all, at) =>
      all.map((line) => Math.abs(line.getAttribute('y1') - line.getAttribute('y2')))[at],
      part,
    );
  // Only medians have an interval: the first of three points of a step.
  assert.ok((await heights(0)) > 5 && (await heights(1)) === 0);
});

named('invalid steps of a load are named and not drawn', async () => {
  const { contents } = known();
  const { path } = workspace.page('invalid.html', () => {
    const { records } = contents.documents[0];
    const reason = { cause: 'load_generator', text: 'client-bound: busy' };
    for (const [at, record] of records.entries()) {
      if (record.params.clients !== 4 || record.params.mode !== 'fixed') continue;
      record.verdict = { state: 'invalid', reasons: [reason] };
      contents.words[0][at] = { reasons: [{ text: reason.text }] };
    }
    return contents;
  });
  const { page } = await open(chrome, path);
  await page.locator('#load-reads svg').waitFor();
  assert.deepEqual([await marks(page, 'throughput'), await marks(page, 'reads')], [5, 5]);
  const note = await page.locator('#load-throughput figcaption').textContent();
  assert.match(note, /Without a number: .*4 clients.*invalid, client-bound: busy/);
});

/** The known page with these capacities, and the saturation and knee of one case. */
function limited(capacities) {
  const { contents } = known();
  const { records } = contents.documents[0];
  const is = (metric) => (record) => record.metric === metric;
  const measured = records.find(is('load.capacity'));
  const step = records.find(
    (record) => record.metric === 'load.throughput' && record.params.mode === 'random',
  );
  const { clients, ...params } = step.params;
  assert.ok(clients);
  const of = (record, more, median) => {
    return { ...structuredClone(record), ...more, summary: { ...record.summary, median } };
  };
  contents.documents[0].records = records.filter(
    ({ metric }) => !/^load\.(capacity|saturation|knee)$/.test(metric),
  );
  contents.documents[0].records.push(
    ...capacities.map(([resource, value]) => {
      const facts = [{ name: 'requests', value, unit: '1/s' }];
      return of(measured, { params: { of: resource }, facts }, 1e9);
    }),
    of(step, { metric: 'load.saturation', params, facts: [] }, 3600),
    of(step, { metric: 'load.knee', params, unit: 'ratio', facts: [] }, 2.5),
  );
  contents.words = [[]];
  return workspace.page('limited.html', () => contents);
}

named('capacities, saturation and knee are drawn', async () => {
  const { path } = limited([
    ['network', 5000],
    ['disk', 20_000],
    ['server-cpu', 11_000],
  ]);
  const { page, log } = await open(chrome, path);
  await page.locator('#load-throughput svg').waitFor();
  assert.deepEqual(log, []);
  const names = await texts(page, 'throughput', 'g.names-of-limits text');
  assert.deepEqual(names, [
    'network 5000 requests/s',
    'server CPU 11000 requests/s',
    'random files, saturation 3600 requests/s',
  ]);
  assert.deepEqual(await texts(page, 'throughput', 'g.names-of-knees text'), ['knee 2.50']);
  const note = await page.locator('#load-throughput figcaption').textContent();
  assert.match(note, /Capacities beyond the axis: disk 20000 requests\/s\./);
  // The bound rises to the knee, and the knee is at its corner.
  const bound = await page.locator('#load-throughput g.bounds path').getAttribute('d');
  const corners = bound.match(/[\d.]+,[\d.]+/g).map((pair) => pair.split(',').map(Number));
  assert.equal(corners.length, 3, bound);
  assert.ok(corners[0][1] > corners[1][1] && corners[1][1] === corners[2][1], bound);
  const x = await page.locator('#load-throughput g.knees line').getAttribute('x1');
  assert.ok(Math.abs(Number(x) - corners[1][0]) < 1, `${x}: ${bound}`);
});

named('far capacities do not flatten the throughput', async () => {
  const heights = async (capacities) => {
    const { page } = await open(chrome, limited(capacities).path);
    await page.locator('#load-throughput svg').waitFor();
    const ticks = await texts(page, 'throughput', '[aria-label="y-axis tick label"] text');
    return ticks.join();
  };
  assert.equal(await heights([['disk', 1e6]]), await heights([]));
  assert.notEqual(await heights([['disk', 11_000]]), await heights([]));
});

/** Two sweeps of four slices: in the second one the server stalls for two of them. */
const HEAT = {
  starts_ns: [0, 1e8, 2e8, 3e8, 9e9, 9.1e9, 9.2e9, 9.3e9],
  lengths_ns: Array(8).fill(1e8),
  limits: [1e6, 2e6, 4e6, 1e8, 2e8],
  counts: [...Array(5).fill([9, 1, 0, 0]), [0, 0, 0, 0], [0, 0, 0, 0], [5, 0, 0, 4]],
};

named('stall of a server is seen in the heat map', async () => {
  const { contents } = known();
  for (const record of contents.documents[0].records)
    if (record.metric === 'load.response_time') record.heat_map = HEAT;
  const { path } = workspace.page('stalled.html', () => contents);
  const { page, log } = await open(chrome, path);
  await page.locator('#load-heat svg').first().waitFor();
  assert.deepEqual(log, []);
  const count = (part) => page.locator(`#load-heat svg >> nth=0 >> g.${part} > *`).count();
  // Two cases of three steps, each with the cells that have responses.
  assert.equal(await page.locator('#load-heat svg').count(), 6);
  assert.deepEqual([await count('heat'), await count('silent'), await count('pauses')], [12, 2, 1]);
  await page.locator('#load-heat summary').click();
  await page.locator('#load-heat tbody tr').first().waitFor();
  const rows = await page.locator('#load-heat tbody tr').allTextContents();
  assert.equal(rows.length, 6 * 8);
  assert.match(rows[7], /760 ms91\.00–2\.00 ms100–200 ms$/);
});

named('load without heat maps has no such chart', async () => {
  const { page, log } = await open(chrome, known().path);
  await page.locator('#load-reads svg').waitFor();
  assert.equal(await page.locator('#load-heat').count(), 0);
  assert.deepEqual(log, []);
});

/** The tiles of a case of the answer, each as text. */
const answer = (page, at) => page.locator('.answer').nth(at).locator('.tile').allTextContents();

named('page of a load begins with its answer', async () => {
  const { page } = await open(chrome, limited([]).path);
  const next = await page.locator('h1').evaluate((head) => head.nextElementSibling.className);
  assert.match(next, /^answer-words /);
  const words = await page.locator('.answer-words p').allTextContents();
  assert.match(words[0], /^mode=random: Highest throughput: ~?\d+ requests\/s .*at \d clients?\./);
  assert.match(words[1], /^mode=fixed: Highest throughput: /);
  const steps = await page.locator('.answers section').last().locator('li').allTextContents();
  assert.match(steps[0], /clients|longer/);
  assert.deepEqual(await page.locator('.answer > p').count(), 2);
  const [first, ...others] = await answer(page, 0);
  assert.match(first, /^validThroughput at saturation3,600 requests\/s/);
  assert.match(first, /median 4\.00 µs, p99 36\.0 µs at 4 clients/);
  assert.match(others.join(), /Knee2\.50 clients/);
  const [fixed] = await answer(page, 1);
  assert.match(fixed, /^validHighest throughput4,000 requests\/s.*at 4 clients/);
});

named('page of a load is titled by its address, and has charts before the table', async () => {
  const { page } = await open(chrome, known().path);
  const asked = known().contents.documents[0].run.asked.join(' ');
  assert.match(asked, /^load http/);
  assert.ok((await page.title()).includes(asked));
  assert.ok((await page.locator('h1').textContent()).includes(asked));
  await page.locator('#load-reads svg').waitFor();
  const isBefore = await page.evaluate(() => {
    const [charts, table] = ['#charts', '#table'].map((one) => document.querySelector(one));
    return (charts.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
  });
  assert.ok(isBefore);
});

named('answer over a noisy step is noisy', async () => {
  const { contents } = limited([]);
  const { records } = contents.documents[0];
  const of = ({ metric, params }) =>
    metric === 'load.throughput' && params.mode === 'random' && params.clients === 2;
  const at = records.findIndex(of);
  records[at].verdict = { state: 'noisy', reasons: [{ cause: 'contention', text: 'CPU busy' }] };
  const reasons = [{ text: 'CPU busy' }];
  contents.words[0] = records.map((_, row) => (row === at ? { reasons } : {}));
  const { path } = workspace.page('noisy.html', () => contents);
  const { page } = await open(chrome, path);
  assert.equal(await page.locator('.answer').first().locator('.valid').count(), 0);
  const [first] = await answer(page, 0);
  assert.match(first, /^noisyThroughput at saturation~3,600 requests\/s/);
  assert.match(first, /1 of 3 steps noisy: CPU busy/);
  assert.match((await answer(page, 1))[0], /^valid/);
});

named('answer without a valid step says why', async () => {
  const { contents } = known();
  const { records } = contents.documents[0];
  const reasons = [{ text: 'client-bound: busy' }];
  contents.words[0] = records.map(() => ({ reasons }));
  for (const { metric, verdict } of records)
    if (metric === 'load.throughput') verdict.state = 'invalid';
  const { path } = workspace.page('none.html', () => contents);
  const { page } = await open(chrome, path);
  const tiles = await answer(page, 0);
  assert.deepEqual(tiles, ['invalidThroughputnone3 of 3 steps invalid: client-bound: busy']);
});

named('load charts fit a narrow dark page', async () => {
  const options = { viewport: { width: 390, height: 800 }, colorScheme: 'dark' };
  const { page } = await open(chrome, known().path, options);
  await page.locator('#load-reads svg').first().waitFor();
  // A drawing for each panel, one below the other.
  assert.equal(await page.locator('#load-response svg').count(), CASES.length);
  for (const id of IDS) {
    const fits = await page
      .locator(`#load-${id} svg`)
      .evaluateAll((all) => all.every((svg) => svg.getBoundingClientRect().right <= innerWidth));
    assert.ok(fits, id);
  }
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
});
