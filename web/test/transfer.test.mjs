// Tests of the charts of `fathom transfer`, on a recorded run.

import assert from 'node:assert/strict';
import { chrome, named, open, prepare, workspace } from './report.mjs';

prepare(() => {
  workspace.store('transfer');
  workspace.fathom('report');
});
const texts = (page, id, part) => page.locator(`#${id} ${part}`).allTextContents();

/** A page whose first time, effects and advice are known, with an interaction. */
function known() {
  return workspace.page('known.html', (contents) => {
    const { records } = contents.documents[0];
    const of = (metric) => records.filter((record) => record.metric === metric);
    const measured = (record, median, low, high) => {
      record.verdict = { state: 'valid', reasons: [] };
      const interval = { low, high, level: 0.95, basis: 'processes' };
      Object.assign(record.summary, { median, interval, bound: null });
    };
    const [time] = of('transfer.time');
    measured(time, 1e6, 9e5, 2e6);
    time.facts = [{ name: 'rate', value: 12 * 2 ** 20, unit: 'bytes/s' }];
    const effects = of('transfer.effect').filter(({ params }) => params.set === 'small');
    for (const effect of effects) measured(effect, 1, 0.9, 1.1);
    measured(effects[0], 0.5, 0.4, 0.6);
    measured(effects[1], 2, 1.5, 3);
    const interaction = structuredClone(effects[1]);
    interaction.params.with = 'receive-mmap';
    interaction.facts = [{ name: 'effect there', value: 1.25, unit: 'ratio' }];
    records.push(interaction);
    of('transfer.advice')[0].value = 'small: sendfile to splice is the fastest; file: nothing';
    contents.words[0].push({});
    return contents;
  });
}

/** The rows of each table of times on the terminal. */
function terminalRows() {
  const text = workspace.fathom('show').toString();
  return text.split(/\ntransfer of \w+: /).slice(1).map((table) => {
    const lines = table.split('\n');
    const from = lines.findIndex((line) => line.startsWith('  send'));
    const rows = lines.slice(from + 1, lines.findIndex((line) => line.startsWith('CPU:')));
    // Without a number where io_uring is forbidden.
    return rows.filter((line) => !line.includes(' – ')).map((line) => {
      const [, send, receive, setting] = line.split(/ {2,}/);
      return `${send} to ${receive}${/^[a-z]/.test(setting) ? `, ${setting}` : ''}`;
    });
  });
}

named('times are in the order and words of the terminal', async () => {
  const { page, log } = await open(chrome, known().path);
  await page.locator('#transfer-2 svg').waitFor();
  assert.deepEqual(log, []);
  const tables = terminalRows();
  assert.equal(tables.length, 2);
  for (const [at, rows] of tables.entries()) {
    assert.ok(rows.length >= 20, rows.join('\n'));
    assert.deepEqual(await texts(page, `transfer-${at + 1}`, 'g.names text'), rows);
  }
  assert.ok(tables[0].includes('copy to copy, buffer 512 B'), tables[0].join('\n'));
  const [says] = await texts(page, 'transfer-1', '.says');
  assert.match(says, /: persistent, blocking, buffer 64 KiB, window 64 KiB\.$/);
  const [first] = await texts(page, 'transfer-1', 'g.values text');
  assert.equal(first, '1.000 ms, 12.0 MiB/s');
  await page.locator('#transfer-1 summary').click();
  const row = await page.locator('#transfer-1 tbody tr').first().textContent();
  assert.match(row, /small, copy to copy, persistent, .*1\.000 ms ± 55 %, 12\.0 MiB\/s/);
});

named('effects are named and coloured by their direction', async () => {
  const { page } = await open(chrome, known().path);
  await page.locator('#interactions-1 svg').waitFor();
  const names = await texts(page, 'effects-1', 'g.names text');
  assert.equal(names[0], 'send mmap against copy');
  assert.ok(names.includes('connection per-file against persistent'), names.join());
  assert.ok(names.includes('buffer 512 B against 64 KiB'), names.join());
  const inks = await page
    .locator('#effects-1 g.measured circle')
    .evaluateAll((all) => all.map((circle) => circle.getAttribute('fill')));
  assert.deepEqual(inks.slice(0, 3), ['var(--k1)', 'var(--k2)', 'var(--k0)']);
  assert.equal(inks.length, names.length);
  const interactions = await texts(page, 'interactions-1', 'g.names text');
  assert.deepEqual(interactions, ['send sendfile against copy, where receive-mmap']);
  await page.locator('#interactions-1 summary').click();
  const row = await page.locator('#interactions-1 tbody tr').textContent();
  assert.match(row, /2\.00 × \[1\.50 ×, 3\.00 ×\]effect there 1\.25/);
});

named('transfer page begins with the fastest path and lists no charts', async () => {
  const { page } = await open(chrome, known().path);
  await page.locator('#transfer-2 svg').waitFor();
  const words = await page.locator('h1 + .answer-words p').allTextContents();
  assert.match(words[0], /^small: least time ~?[\d.]+ [µm]?s by \S+ to \S+/);
  assert.match(words[1], /^file: least time /);
  assert.match(words[2], /inconclusive below 10 repetitions/);
  const next = await page.locator('.answers section').last().locator('li').allTextContents();
  assert.equal(next[0], 'more repetitions (--repeat)');
  assert.equal(await page.locator('.lacking').count(), 0);
  const rows = await texts(page, 'table', 'tbody th');
  const title = 'transfer of a set: small, copy to mmap, persistent, blocking, ';
  assert.ok(rows.some((row) => row.startsWith(title)), rows[1]);
});

named('transfer charts fit a narrow dark page', async () => {
  const options = { viewport: { width: 390, height: 800 }, colorScheme: 'dark' };
  const { page } = await open(chrome, known().path, options);
  for (const id of ['transfer-1', 'effects-1', 'interactions-1']) {
    await page.locator(`#${id} svg`).waitFor();
    const fits = await page
      .locator(`#${id} svg text`)
      .evaluateAll((all) => all.every((text) => text.getBoundingClientRect().right <= innerWidth));
    assert.ok(fits, id);
  }
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
});
