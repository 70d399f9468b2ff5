// Tests of the beginning of the page, of charts of a single point, and of what a chart can be saved
// as.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { Workspace, browser, closePages, open, skip } from './report.mjs';

const TILES = ['cpu.frequency', 'os.syscall', 'os.switch.process', 'file.read.latency'];

let workspace;
let chrome;

before(async () => {
  if (skip) return;
  workspace = new Workspace();
  workspace.store('battery-1', ['cpu.frequency', 'cpu.call']);
  workspace.store('battery-2', ['cpu.call', ...TILES]);
  workspace.fathom('report', '-o', 'report.html');
  workspace.fathom('report', 'latest~1', 'latest', '-o', 'two.html');
  chrome = await browser();
});

afterEach(closePages);

after(async () => {
  await chrome?.close();
  workspace?.remove();
});

const named = (name, body) => test(name, { skip }, body);
const valid = { state: 'valid', reasons: [] };

async function changed(change, from = 'report.html', options = {}, hash = '') {
  const apply = (all) => (change(all), all);
  const { path, contents } = workspace.page('changed.html', apply, from);
  return { ...(await open(chrome, path + hash, options)), contents };
}

/** What matches in the tiles at the beginning: a chart with one point at a place has tiles, too. */
const inTiles = (page, selector) => page.locator('.tiles').first().locator(selector);

/** The tile with a name, as the texts of its parts. */
const tileOf = (page, name) =>
  page
    .locator('.tile', { has: page.locator('.name', { hasText: name }) })
    .evaluate((tile) => [...tile.children].map((part) => part.textContent));

async function saved(page, id, kind) {
  const saving = page.waitForEvent('download');
  await page.locator(`#${id} .save`, { hasText: kind }).click();
  const file = await saving;
  assert.equal(file.suggestedFilename(), `${id}.${kind.toLowerCase()}`);
  return readFileSync(await file.path());
}

named('page begins with tiles, the status first', async () => {
  const { page, contents, log } = await changed(({ documents: [{ records }] }) => {
    for (const record of records) if (record.summary) record.verdict = valid;
    const read = records.find((one) => one.params.state === 'direct' || one.params.order);
    assert.ok(read);
  });
  const { records } = contents.documents[0];
  const names = await inTiles(page, '.name').allTextContents();
  const order = ['Core frequency', 'System call', 'Process switch', 'Random 4 KiB read'];
  assert.deepEqual(names, order);
  const before = await page.locator('.tiles').first().evaluate((tiles) => {
    const parts = [...document.querySelectorAll('.quality, .short, .facts, table')];
    return parts.map((part) => tiles.compareDocumentPosition(part) & 4);
  });
  assert.deepEqual(before, [4, 4, 4, 4]);
  for (const { title, record } of contents.tiles[0]) {
    const [word, name, value] = await tileOf(page, title);
    assert.equal(name, title);
    const { agreement, prediction, summary } = records[record];
    assert.equal(word, ['outside', 'violated'].includes(agreement) ? agreement : 'valid');
    assert.match(value, /^(≤ )?[\d.]+ (ns|µs|ms|GHz) (± [\d.]+ %|\+\d+ −\d+ %)?$/);
    const parts = await tileOf(page, title);
    const { value: predicted, low, high } = prediction ?? {};
    // A bound that is far away says nothing; these tiles have lower ones only.
    const isLoose = predicted == null && high == null && summary.median > 5 * low;
    const beginning = !prediction ? 'no model' : isLoose ? 'loose bound' : 'expected ';
    assert.ok(parts.some((text) => text.startsWith(beginning)), `${title}: ${parts}`);
  }
  const read = contents.tiles[0].find(({ iops }) => iops);
  const rate = (await tileOf(page, read.title)).find((text) => text.includes('IOPS'));
  const number = Number(/^[\d,.]+/.exec(rate)[0].replaceAll(',', ''));
  assert.ok(Math.abs((number * records[read.record].summary.median) / 1e9 - 1) < 0.01, rate);
  assert.match(await page.locator('.trend').first().textContent(), /^2 runs: /);
  assert.deepEqual(log, []);
});

named('tile names what is wrong and hides bad numbers', async () => {
  const { page } = await changed(({ documents: [{ records }], tiles: [tiles], words: [words] }) => {
    const reason = { cause: 'spread', text: 'a known cause' };
    const set = ({ record }, state, agreement) => {
      const reasons = state === 'valid' ? [] : [reason];
      Object.assign(records[record], { verdict: { state, reasons }, agreement });
      words[record].reasons = reasons;
    };
    set(tiles[0], 'valid', 'outside');
    set(tiles[1], 'noisy', 'violated');
    set(tiles[2], 'invalid', null);
    set(tiles[3], 'noisy', null);
  });
  const words = await inTiles(page, '.word').allTextContents();
  assert.deepEqual(words, ['outside', 'noisy, violated', 'invalid', 'noisy']);
  assert.equal(await inTiles(page, '.value').count(), 3);
  assert.deepEqual(await inTiles(page, '.cause').allTextContents(), [
    'a known cause',
    'a known cause',
    'a known cause',
  ]);
  const colour = (at) =>
    page.locator('.tile .word').nth(at).evaluate((word) => getComputedStyle(word).color);
  assert.notEqual(await colour(0), await colour(1));
});

named('quality has undisturbed visits and disturbances', async () => {
  const { page } = await changed(({ documents: [{ run }], causes }) => {
    run.verdict = { state: 'noisy', reasons: [] };
    run.reference = { loop_ns: 1, frequency_ns: 1, basis: 'this_run', visits: 50, clean: 20 };
    causes[0] = [
      { state: 'noisy', cause: 'CPU steal', count: 3, next: null },
      { state: 'invalid', cause: 'crash', count: 1, next: null },
    ];
  });
  const [word, count, ...texts] = await page.locator('.quality > *').allTextContents();
  assert.match(count, /^\d+ of \d+ valid$/);
  const clean = '40 % of processes undisturbed (20 of 50)';
  assert.deepEqual([word, ...texts], ['noisy run', clean, 'noisy results: CPU steal (3)']);
});

named('chart of a single point is a number', async () => {
  const { page, log } = await changed(({ documents: [{ records }] }) => {
    const [first, ...others] = records.filter(({ metric }) => metric === 'os.syscall');
    first.verdict = valid;
    for (const record of others) record.verdict = { state: 'unavailable', reasons: [] };
  });
  await page.locator('#call svg').waitFor();
  assert.equal(await page.locator('#syscalls svg').count(), 0);
  assert.match(await page.locator('#syscalls .value').textContent(), /^[\d.]+ ns/);
  assert.deepEqual(await page.locator('#syscalls .save').allTextContents(), ['CSV']);
  assert.deepEqual(log, []);
});

named('CSV of a chart has the data of the run', async () => {
  const { page, contents } = await changed(({ documents: [{ records }], words: [words] }) => {
    const at = records.findIndex(({ metric }) => metric === 'cpu.call');
    records[at].verdict = { state: 'noisy', reasons: [] };
    words[at].reasons = [{ text: 'a "known", cause' }];
  });
  const text = String(await saved(page, 'call', 'CSV'));
  const [head, ...rows] = text.trimEnd().split('\n');
  const names = head.split(',');
  const own = contents.documents[0].records.filter(({ metric }) => metric === 'cpu.call');
  assert.equal(rows.length, own.length);
  assert.ok(rows[0].endsWith('"a ""known"", cause"'), rows[0]);
  own.forEach((record, at) => {
    const cells = rows[at].split(',');
    const cell = (name) => cells[names.indexOf(name)];
    assert.equal(cell('params'), `args=${record.params.args}`);
    assert.equal(cell('state'), record.verdict.state);
    const shows = ['valid', 'noisy'].includes(record.verdict.state);
    assert.equal(cell('value'), shows ? String(record.summary.median) : '');
    assert.equal(cell('low'), shows ? String(record.summary.interval.low) : '');
    assert.equal(cell('predicted_low'), String(record.prediction?.low ?? ''));
  });
});

named('PNG of a chart has its size', async () => {
  const { page, log } = await changed(() => {});
  await page.locator('#call svg').waitFor();
  const png = await saved(page, 'call', 'PNG');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  const width = Number(await page.locator('#call svg').getAttribute('width'));
  assert.equal(png.readUInt32BE(16), 2 * width);
  assert.deepEqual(log, []);
});

named('link of a chart opens the page there', async () => {
  const small = { viewport: { width: 800, height: 500 } };
  const { page } = await changed(() => {}, 'report.html', small, '#syscalls');
  await page.locator('#syscalls svg').waitFor();
  await page.waitForFunction(() => {
    const { top } = document.getElementById('syscalls').getBoundingClientRect();
    return top >= 0 && top < innerHeight;
  });
  assert.equal(await page.locator('#call h3 a').getAttribute('href'), '#call');
});

named('value and verdict are visible at 390 pixels', async () => {
  const narrow = { viewport: { width: 390, height: 800 } };
  for (const from of ['report.html', 'two.html']) {
    const { page } = await changed(() => {}, from, narrow);
    await page.locator('#call svg').waitFor();
    const beyond = await page.evaluate(() => {
      const last = document.querySelector('#table thead .verdict').cellIndex;
      const cells = [...document.querySelectorAll('#table tbody tr')].flatMap((row) =>
        [...row.cells].slice(0, last + 1),
      );
      const parts = [...cells, ...document.querySelectorAll('.tile, .tile *')];
      return parts
        .filter((part) => part.getBoundingClientRect().right > innerWidth - 15)
        .map((part) => part.textContent);
    });
    assert.deepEqual(beyond, [], from);
    const widths = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
    assert.ok(widths[0] <= widths[1], widths.join(' > '));
    // No text is wider than its cell.
    const wide = await page.locator('#table td.number, #table th, .tile > *').evaluateAll((all) =>
      all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent),
    );
    assert.deepEqual(wide, [], from);
  }
});

named('comparison begins with what changed most', async () => {
  const { page, contents } = await changed(({ comparison }) => {
    const rows = comparison.rows.filter(({ metric }) => metric === 'cpu.call');
    comparison.rows = rows;
    assert.ok(rows.length >= 4);
    const words = ['looks_slower', 'faster', 'slower', 'inconclusive'];
    const ratios = [9, 0.5, 1.5, 12];
    rows.forEach((row, at) => {
      const [word = 'unchanged', ratio = 1] = [words[at], ratios[at]];
      const noisy = { noisy_a: at === 1, noisy_b: false };
      Object.assign(row, { word, ratio, interval: [ratio, ratio], ...noisy });
    });
  }, 'two.html');
  const first = page.locator('.tiles').first();
  const texts = await first.locator('.word').allTextContents();
  assert.deepEqual(texts, ['faster', 'slower', 'looks slower']);
  assert.equal(await first.locator('.value').first().textContent(), '0.500 ×');
  assert.match(await first.locator('.tile').first().textContent(), /noisy in A$/);
  const { params } = contents.comparison.rows[1];
  const name = await first.locator('.name').first().textContent();
  assert.ok(/^(procedure|function) call/.test(name) && name.includes(String(params.args)), name);
});

named('cache levels are in their order', async () => {
  const levels = ['dram', 'l2', 'l1', 'l3'];
  const { page } = await changed(({ documents: [{ records }] }) => {
    const calls = records.filter(({ metric }) => metric === 'cpu.call');
    levels.forEach((level, at) => {
      const params = { op: 'read', threads: 1, level };
      Object.assign(calls[at], { metric: 'memory.bandwidth', params, verdict: valid });
    });
  });
  const names = page.locator('#bandwidth-levels g.names text');
  await names.first().waitFor();
  assert.deepEqual(await names.allTextContents(), ['L1', 'L2', 'L3', 'memory']);
  const rows = await page.locator('#table tbody small').allTextContents();
  const own = rows.filter((text) => text.startsWith('memory.bandwidth'));
  const order = own.map((text) => /level=(\w+)/.exec(text)[1]);
  assert.deepEqual(order, ['l1', 'l2', 'l3', 'dram']);
});
