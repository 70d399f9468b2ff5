// Tests of the beginning of the page, of charts of a single point, and of what a chart can be saved
// as.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chrome, named, open, prepare, workspace } from './report.mjs';

const TILES = ['cpu.frequency', 'os.syscall', 'os.switch.process', 'file.read.latency'];

prepare(() => {
  workspace.store('battery-1', ['cpu.frequency', 'cpu.call']);
  workspace.store('battery-2', ['cpu.call', ...TILES]);
  workspace.fathom('report', '-o', 'report.html');
  workspace.fathom('report', 'latest~1', 'latest', '-o', 'two.html');
});
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
    const parts = [...document.querySelectorAll('.short, .facts, #table')];
    return parts.map((part) => tiles.compareDocumentPosition(part) & 4);
  });
  assert.deepEqual(before, [4, 4, 4]);
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
    const beginning = !prediction ? 'no model' : 'expected ';
    const says = parts.some((text) => text.startsWith(beginning));
    assert.equal(says, !isLoose, `${title}: ${parts}`);
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

named('page begins with a verdict, then three lists', async () => {
  const { page, log } = await changed((contents) => {
    contents.answers[0] = {
      mood: 'care',
      verdict: ['Unusual: 1 result.', '2 of 9 results noisy: ignore those.'],
      ignore: [{ text: '2 noisy: CPU steal', show: 'noisy' }],
      unusual: [],
      usual: 'Nothing: 9 compared with a prediction.',
      next: [{ text: 'measure longer: --time, or --thorough' }, { text: '`fathom doctor`: what disturbs' }],
    };
    const { records } = contents.documents[0];
    for (const record of records) record.verdict = valid;
    records[0].verdict = { state: 'noisy', reasons: [] };
  });
  const order = await page.evaluate(() => {
    const parts = ['.answer-words', '.answers', '.tiles', '#table'];
    const found = parts.map((one) => document.querySelector(one));
    const [first, ...rest] = found;
    return rest.map((part, at) => found[at].compareDocumentPosition(part) & 4 && first !== part);
  });
  assert.deepEqual(order, [true, true, true]);
  assert.deepEqual(await page.locator('.answer-words p').allTextContents(), [
    'Unusual: 1 result.',
    '2 of 9 results noisy: ignore those.',
  ]);
  const sections = page.locator('.answers section');
  const heads = await sections.locator('.minor').allTextContents();
  assert.deepEqual(heads, ['What to ignore', 'What is unusual', 'What to do next']);
  assert.equal(
    await sections.nth(1).locator('p').textContent(),
    'Nothing: 9 compared with a prediction.',
  );
  assert.deepEqual(await sections.nth(2).locator('code').allTextContents(), [
    '--time',
    '--thorough',
    'fathom doctor',
  ]);
  await sections.first().getByRole('button').click();
  assert.equal(await page.locator('#verdict').inputValue(), 'noisy');
  assert.equal(await page.locator('#table tbody tr').count(), 1);
  assert.deepEqual(log, []);
});

named('rows are one line, with the rest in their details', async () => {
  const name = 'a name that is far longer than the column of names is wide, '.repeat(3);
  const { page, log } = await changed(({ documents: [{ records }], words: [words] }) => {
    records[0].title = name;
    records[0].verdict = { state: 'noisy', reasons: [{ cause: 'steal', text: 'CPU steal' }] };
    words[0].reasons = [{ text: 'CPU steal', next: 'measure elsewhere' }];
  });
  const rows = page.locator('#table tbody tr');
  const heights = await rows.evaluateAll((all) => all.map((row) => row.clientHeight));
  assert.ok(heights.length > 5 && Math.max(...heights) < 36, heights.join());
  const cut = page.locator('#table .name').first();
  assert.ok(await cut.evaluate((one) => one.scrollWidth > one.clientWidth));
  assert.ok((await cut.getAttribute('title')).startsWith(name));
  const opener = page.locator('.opener').first();
  const count = await rows.count();
  await opener.press('Enter');
  assert.equal(await opener.getAttribute('aria-expanded'), 'true');
  const text = await page.locator('#table tr.more').textContent();
  assert.match(text, /interval/);
  assert.ok(text.includes('CPU steal → measure elsewhere'), text);
  await rows.first().locator('td').first().click();
  assert.equal(await rows.count(), count);
  assert.deepEqual(log, []);
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

named('rows are readable at 390 pixels', async () => {
  const narrow = { viewport: { width: 390, height: 800 } };
  for (const from of ['report.html', 'two.html']) {
    const { page } = await changed(() => {}, from, narrow);
    await page.locator('#call svg').waitFor();
    await page.locator('.opener').first().click();
    const widths = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
    assert.ok(widths[0] <= widths[1], widths.join(' > '));
    const beyond = await page.evaluate(() => {
      const parts = document.querySelectorAll('#table :is(th, td), .tile, .tile *, .answers *');
      return [...parts]
        .filter((part) => part.getBoundingClientRect().right > innerWidth - 15)
        .map((part) => part.textContent);
    });
    assert.deepEqual(beyond, [], from);
    // No text is wider than its cell, and the table needs no scrolling.
    const wide = await page
      .locator('#table :is(th, td), #table .name, .tile > *')
      .evaluateAll((all) =>
        all
          .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)
          .map((one) => one.textContent),
      );
    assert.deepEqual(wide, [], from);
    const row = page.locator('#table tbody tr:not(.more)').first();
    const shown = await row.locator('td:visible').allTextContents();
    assert.ok(shown.length >= 2 && shown.every((text) => text !== ''), shown.join('|'));
  }
});

named('comparison begins with what changed most', async () => {
  const { page, contents } = await changed(({ comparison }) => {
    const rows = comparison.rows.filter(({ metric }) => metric === 'cpu.call');
    [comparison.rows, comparison.factors] = [rows, []];
    assert.ok(rows.length >= 4);
    const words = ['looks_slower', 'faster', 'slower', 'inconclusive'];
    const ratios = [9, 0.5, 1.5, 12];
    rows.forEach((row, at) => {
      const [word = 'unchanged', ratio = 1] = [words[at], ratios[at]];
      const noisy = { noisy_a: at === 1, noisy_b: false };
      const share = at < 3 ? 'differs' : 'inconclusive';
      Object.assign(row, { word, ratio, interval: [ratio, ratio], share, ...noisy });
    });
  }, 'two.html');
  assert.match(await page.locator('h1 + .lead').textContent(), /^From A to B: /);
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
  const drawn = page.locator('#bandwidth-levels g.names text');
  await drawn.first().waitFor();
  assert.deepEqual(await drawn.allTextContents(), ['L1', 'L2', 'L3', 'memory']);
  const names = await page
    .locator('#table .name')
    .evaluateAll((all) => all.map(({ title }) => title.split('\n')[1]));
  const own = names.filter((text) => text.startsWith('memory.bandwidth'));
  const order = own.map((text) => /level=(\w+)/.exec(text)[1]);
  assert.deepEqual(order, ['l1', 'l2', 'l3', 'dram']);
});
