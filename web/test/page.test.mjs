// Tests of the page in a browser, on recorded runs.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chrome, named, open, prepare, violations, workspace } from './report.mjs';

const METRICS = ['cpu.call', 'os.syscall', 'memory.latency'];
const shows = (record) => ['valid', 'noisy'].includes(record.verdict.state);
const numbers = (document, metric) =>
  document.records.filter((record) => record.metric === metric && shows(record));

let one;

prepare(() => {
  workspace.store('battery-1', METRICS);
  workspace.fathom('report');
  one = workspace.page('one.html');
});

named('page loads without errors and has every record', async () => {
  const { page, log, requests } = await open(chrome, `${workspace.folder}/report.html`);
  await page.locator('#call svg').waitFor();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(log, []);
  assert.equal(requests.length, 1, requests.join(' '));
  assert.equal(
    await page.locator('#table tbody tr').count(),
    one.contents.documents[0].records.length,
  );
  assert.match(await page.title(), /^Fathom: ./);
});

named('content security policy forbids requests', async () => {
  const { page, log } = await open(chrome, one.path);
  await page.evaluate(() => fetch('http://127.0.0.1:9/').catch(() => {}));
  assert.match(log.join('\n'), /Content Security Policy/);
});

named('chart has a mark and an interval per number', async () => {
  const { page } = await open(chrome, one.path);
  const [document] = one.contents.documents;
  for (const [id, metric, mark] of [
    ['call', 'cpu.call', 'circle'],
    ['latency', 'memory.latency', 'circle'],
    ['syscalls', 'os.syscall', 'circle'],
  ]) {
    const count = numbers(document, metric).length;
    assert.ok(count >= 8, `${metric}: ${count}`);
    await page.locator(`#${id} svg`).waitFor();
    assert.equal(await page.locator(`#${id} g.measured ${mark}`).count(), count, id);
    assert.equal(await page.locator(`#${id} g.intervals line`).count(), count, id);
  }
  const noisy = numbers(document, 'memory.latency').filter((one) => one.verdict.state === 'noisy');
  const hollow = page.locator('#latency g.measured circle[fill="var(--paper)"]');
  assert.equal(await hollow.count(), noisy.length);
  const ticks = await page
    .locator('#latency [aria-label="x-axis tick label"] text')
    .allTextContents();
  assert.ok(ticks.includes('1 KiB') && ticks.includes('64 KiB'), ticks.join());
  assert.ok(
    ticks.every((tick) => /^\d+ [KM]iB$/.test(tick)),
    ticks.join(),
  );
});

named('missing charts are listed with their command', async () => {
  const { page } = await open(chrome, one.path);
  const lacking = await page.locator('.lacking').textContent();
  assert.match(lacking, /file\.contention\); fathom file contend measures it/);
  assert.equal(await page.locator('#contention').count(), 0);
});

named('table is sorted by value with the keyboard', async () => {
  const { page } = await open(chrome, one.path);
  const head = page.locator('th', { has: page.getByRole('button', { name: 'measured' }) });
  await page.locator('thead').getByRole('button', { name: 'measured' }).focus();
  const measured = () => page.locator('#table tbody tr td:nth-child(2)').allTextContents();
  const scale = { ns: 1, µs: 1e3, ms: 1e6 };
  const value = (text) => {
    const [, number, unit] = /^(?:~|≤ )?([\d.]+) (ns|µs|ms)/.exec(text);
    return Number(number) * scale[unit];
  };
  for (const [order, sign] of [
    ['ascending', 1],
    ['descending', -1],
  ]) {
    await page.keyboard.press('Enter');
    assert.equal(await head.getAttribute('aria-sort'), order);
    const cells = await measured();
    const values = cells.filter((cell) => /^(~|≤ )?\d/.test(cell)).map(value);
    assert.ok(values.length >= 20, cells.join());
    assert.deepEqual(
      values,
      [...values].sort((a, b) => sign * (a - b)),
    );
    // Rows without a number come last in both directions.
    assert.ok(
      cells.slice(0, values.length).every((cell) => /^(~|≤ )?\d/.test(cell)),
      cells.join(),
    );
  }
  await page.getByRole('button', { name: 'operation' }).press('Enter');
  assert.equal(await head.getAttribute('aria-sort'), 'none');
});

named('table is filtered by text, group and verdict', async () => {
  const { page } = await open(chrome, one.path);
  const [document] = one.contents.documents;
  const rows = page.locator('#table tbody tr');
  const of = (group) => document.records.filter((one) => one.metric.startsWith(`${group}.`));
  await page.locator('#group').selectOption('os');
  assert.equal(await rows.count(), of('os').length);
  await page.locator('#search').fill('GETPPID');
  assert.equal(
    await rows.count(),
    of('os').filter((one) => one.params.call?.includes('getppid')).length,
  );
  assert.match(await page.getByRole('status').textContent(), /^2 of \d+ rows$/);
  await page.locator('#search').fill('');
  await page.locator('#group').selectOption('');
  const state = document.records[0].verdict.state;
  await page.locator('#verdict').selectOption(state);
  assert.equal(
    await rows.count(),
    document.records.filter((one) => one.verdict.state === state).length,
  );
});

named('invalid number is nowhere on the page', async () => {
  const hidden = workspace.page('invalid.html', (contents) => {
    for (const [at, record] of contents.documents[0].records.entries()) {
      if (record.metric !== 'os.syscall') continue;
      const reasons = [{ cause: 'clock', text: 'it ran backwards' }];
      record.verdict = { state: 'invalid', reasons };
      contents.words[0][at].reasons = reasons;
      const { summary } = record;
      for (const name of ['median', 'mean', 'min', 'max']) summary[name] = 76543.21;
      Object.assign(summary.interval, { low: 76543.2, high: 76543.22 });
      summary.process_medians = summary.process_medians.map(() => 76543.21);
    }
    return contents;
  });
  const { page, log } = await open(chrome, hidden.path);
  await page.locator('#call svg').waitFor();
  assert.deepEqual(log, []);
  const text = await page.locator('main').textContent();
  assert.doesNotMatch(text, /76[.,]?54/);
  assert.equal(await page.locator('#syscalls').count(), 0);
  assert.match(text, /No number: .*os\.syscall.*: it ran backwards/);
  await page.locator('#verdict').selectOption('invalid');
  const cells = await page.locator('#table tbody tr td:nth-child(2)').allTextContents();
  assert.deepEqual(new Set(cells), new Set(['–']));
  const cases = await page.locator('#sampled option').allTextContents();
  assert.ok(!cases.some((name) => name.startsWith('system call')), cases.join());
});

named('text that looks like HTML stays text', async () => {
  const evil = '<img src=x onerror=alert(1)></script><script>alert(2)</script>';
  const page = workspace.page('evil.html', (contents) => {
    const [document] = contents.documents;
    document.host.name = evil;
    document.host.cpu.model = evil;
    for (const record of document.records) {
      record.title = evil;
      record.verdict = { state: 'noisy', reasons: [{ cause: 'spread', text: evil, next: evil }] };
      if (record.metric === 'os.syscall') record.params.call += evil;
    }
    contents.closing[0].findings = [evil];
    const item = { text: evil, detail: evil, show: 'noisy' };
    const lists = { ignore: [item], unusual: [item], next: [item], usual: evil };
    contents.answers[0] = { mood: 'care', verdict: [evil], ...lists };
    return contents;
  });
  const opened = await open(chrome, page.path);
  await opened.page.locator('#syscalls svg').waitFor();
  await opened.page.locator('#syscalls summary').click();
  await opened.page.locator('#sampled').selectOption({ index: 1 });
  await opened.page.locator('#syscalls g.measured circle').first().hover({ force: true });
  await opened.page.locator('#syscalls g[aria-label="tip"] path').waitFor();
  assert.deepEqual(opened.log, []);
  assert.equal(await opened.page.locator('img').count(), 0);
  assert.equal(await opened.page.locator('script').count(), 2);
  assert.ok((await opened.page.locator('h1').textContent()).includes(evil));
  assert.ok((await opened.page.locator('#syscalls g.names').textContent()).includes('<img'));
});

named('tooltip of a noisy point has its cause', async () => {
  const noisy = workspace.page('noisy.html', (contents) => {
    for (const [at, record] of contents.documents[0].records.entries()) {
      if (record.metric !== 'cpu.call') continue;
      const reasons = [{ cause: 'spread', text: 'a known cause' }];
      record.verdict = { state: 'noisy', reasons };
      contents.words[0][at].reasons = reasons;
    }
    return contents;
  });
  const { page } = await open(chrome, noisy.path, { colorScheme: 'dark' });
  await page.locator('#call svg').scrollIntoViewIfNeeded();
  const box = await page.locator('#call g.measured circle').nth(3).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const tip = page.locator('#call g[aria-label="tip"]');
  await tip.getByText('a known cause').waitFor();
  // The background of the page, so that text keeps its contrast in both themes.
  const ground = await tip.locator('path').evaluate((path) => getComputedStyle(path).fill);
  assert.equal(ground, 'rgb(21, 23, 26)');
});

named('theme follows the system and the button', async () => {
  const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await open(chrome, one.path, { colorScheme: 'dark' });
  assert.equal(await paper(dark.page), 'rgb(21, 23, 26)');
  await dark.page.locator('#theme').press('Enter');
  assert.equal(await paper(dark.page), 'rgb(255, 255, 255)');
  await dark.page.locator('#theme').click();
  assert.equal(await paper(dark.page), 'rgb(21, 23, 26)');
  // Always light in print.
  await dark.page.emulateMedia({ media: 'print' });
  assert.equal(await paper(dark.page), 'rgb(255, 255, 255)');
});

named('page fits a narrow screen', async () => {
  const { page } = await open(chrome, one.path, { viewport: { width: 390, height: 800 } });
  await page.locator('#call svg').waitFor();
  await page.locator('#latency summary').click();
  await page.locator('#sampled').selectOption({ index: 1 });
  await page.locator('#samples svg').waitFor();
  const widths = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  assert.ok(widths[0] <= widths[1], widths.join(' > '));
  const cut = await page.evaluate(
    () =>
      [...document.querySelectorAll('.drawing')].filter(
        (box) => box.scrollWidth > box.clientWidth + 1,
      ).length,
  );
  assert.equal(cut, 0);
});

named('saved chart is a standalone SVG', async () => {
  const { page } = await open(chrome, one.path, { colorScheme: 'dark' });
  await page.locator('#latency svg').waitFor();
  const saving = page.waitForEvent('download');
  await page.locator('#latency .save', { hasText: 'SVG' }).click();
  const file = await saving;
  assert.equal(file.suggestedFilename(), 'latency.svg');
  const text = readFileSync(await file.path(), 'utf8');
  // Other programs do not support light-dark().
  assert.doesNotMatch(text, /light-dark|<script|https?:\/\/(?!www\.w3\.org\/)/);
  const alone = await chrome.newPage();
  const parsed = await alone.evaluate((source) => {
    const read = new DOMParser().parseFromString(source, 'image/svg+xml');
    const holder = document.body.appendChild(document.importNode(read.documentElement, true));
    const line = holder.querySelector('g.measured circle');
    return {
      error: read.querySelector('parsererror')?.textContent ?? null,
      root: read.documentElement.namespaceURI,
      marks: read.querySelectorAll('g.measured circle').length,
      stroke: getComputedStyle(line).stroke,
      title: holder.querySelector('text').textContent,
    };
  }, text);
  const marks = numbers(one.contents.documents[0], 'memory.latency').length;
  assert.deepEqual(parsed, {
    error: null,
    root: 'http://www.w3.org/2000/svg',
    marks,
    // The light colour, whatever the theme.
    stroke: 'rgb(0, 99, 163)',
    title: 'Memory latency by working set size',
  });
  await alone.close();
});

named('each chart has an accessible name and its data', async () => {
  const { page } = await open(chrome, one.path);
  const charts = page.locator('figure');
  const count = await charts.count();
  assert.equal(count, 5);
  for (let at = 0; at < count; at += 1) {
    const chart = charts.nth(at);
    await chart.locator('svg').first().waitFor();
    assert.ok((await chart.locator('[role=img]').getAttribute('aria-label')).length > 20);
    await chart.locator('summary').press('Enter');
    await chart.locator('details tbody tr').first().waitFor();
  }
  assert.equal(await page.locator('#call details tbody tr').count(), 8);
});

named('page has no accessibility violations', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page } = await open(chrome, one.path, { colorScheme });
    await page.locator('#call svg').waitFor();
    await page.locator('#call summary').click();
    assert.deepEqual(await violations(page), [], colorScheme);
  }
});

named('raw values of a selected case are drawn', async () => {
  const { page } = await open(chrome, one.path);
  const [document] = one.contents.documents;
  const at = document.records.findIndex((one) => one.metric === 'cpu.call' && shows(one));
  const values = one.contents.samples[0][at].flatMap((process) => process.values);
  assert.ok(values.length >= 20);
  assert.equal(await page.locator('#samples').count(), 0);
  const { title, params } = document.records[at];
  const label = `${title}: ${params.args} argument${params.args === 1 ? '' : 's'}`;
  await page.locator('#sampled').selectOption({ label });
  await page.locator('#samples g.values circle').first().waitFor();
  assert.equal(await page.locator('#samples g.values circle').count(), values.length);
});

named('two runs share charts and have their ratios', async () => {
  const two = workspace.page('two.html', (contents) => {
    const [first] = contents.documents;
    const other = structuredClone(first);
    other.run.id = 'ffffffffffffffff';
    contents.documents.push(other);
    contents.closing.push(contents.closing[0]);
    contents.answers.push(contents.answers[0]);
    contents.tiles.push(contents.tiles[0]);
    contents.samples.push(contents.samples[0]);
    const rows = first.records
      .filter(shows)
      .slice(0, 12)
      .map(({ metric, params, unit }, at) => {
        const word = at === 0 ? 'worse' : 'unchanged';
        const ratio = at === 0 ? 1.5 : 1;
        const interval = [ratio - 0.1, ratio + 0.1];
        return {
          metric,
          params,
          unit,
          a: 1,
          b: ratio,
          noisy_a: false,
          noisy_b: false,
          ratio,
          interval,
          word,
          share: at === 0 ? 'differs' : 'unchanged',
        };
      });
    const sides = { not_comparable: [], only_a: [], only_b: [] };
    contents.comparison = { rows, ...sides, factors: [], false_alarms: 1, noise_runs: 3 };
    return contents;
  });
  const { page, log } = await open(chrome, two.path);
  await page.locator('#call svg').waitFor();
  const count = numbers(two.contents.documents[0], 'cpu.call').length;
  // Runs differ by symbol: circles, and squares drawn as paths.
  assert.equal(await page.locator('#call g.measured circle').count(), count);
  assert.equal(await page.locator('#call g.measured path').count(), count);
  assert.equal(await page.locator('#call g.lines path').count(), 2);
  assert.deepEqual((await page.locator('#call g.names text').allTextContents()).sort(), ['A', 'B']);
  assert.equal(await page.locator('#changes g.measured circle').count(), 12);
  assert.equal(await page.locator('#changes g.intervals line').count(), 12);
  assert.equal(await page.locator('#changes circle[stroke="var(--k2)"]').count(), 1);
  assert.match(await page.locator('.lead').textContent(), /1 differ, 11 unchanged/);
  assert.equal(
    await page.locator('#table tbody tr').count(),
    two.contents.documents[0].records.length,
  );
  assert.deepEqual(log, []);
});

named('page of two runs agrees with compare', async () => {
  workspace.store('battery-2', ['cpu.call']);
  workspace.fathom('report', 'latest~1', 'latest', '-o', 'real.html');
  const { page, log } = await open(chrome, `${workspace.folder}/real.html`);
  const compared = JSON.parse(workspace.fathom('compare', 'latest~1', 'latest', '--json'));
  await page.locator('#changes svg').waitFor();
  const ratios = compared.rows.filter((row) => row.ratio !== null).length;
  assert.equal(await page.locator('#changes g.measured circle').count(), ratios);
  assert.ok(ratios >= 8);
  assert.deepEqual(log, []);
});

named('study is drawn below the run and listed', async () => {
  const { id } = one.contents.documents[0].run;
  workspace.fathom('report', id, '--reference', '2016-i5-5257u', '-o', 'study.html');
  const changed = (contents) => {
    const [document] = contents.documents;
    // More points than the run has, and a figure in a chart of rows.
    const args = (record) => record.metric === 'cpu.call' && record.params.args;
    const gone = document.records.find((record) => args(record) === 3);
    gone.verdict = { state: 'invalid', reasons: [{ cause: 'clock', text: 'it ran backwards' }] };
    const at = document.records.findIndex(({ metric }) => metric === 'os.syscall');
    const call = contents.study.figures.find(({ metric }) => metric === 'cpu.call');
    const { metric, params } = document.records[at];
    contents.study.figures.push(
      { ...call, metric, params, measured: 4321, like: [[at]] },
      { ...call, params: { args: 12 }, like: [[]] },
      // These cannot be drawn.
      { ...call, unit: 'Hz', like: [[]] },
      { ...call, params: { args: 13 }, measured: 'several', like: [[]] },
    );
    return contents;
  };
  const { path, contents } = workspace.page('under.html', changed, 'study.html');
  const { page, log } = await open(chrome, path);
  const { study } = contents;
  const diamonds = (id) => page.locator(`#${id} g.published path`);
  await page.locator('#call svg').waitFor();
  const calls = study.figures.filter(
    ({ metric, unit, measured }) =>
      metric === 'cpu.call' && unit === 'ns' && typeof measured === 'number',
  );
  assert.equal(calls.length, 9);
  assert.equal(await diamonds('call').count(), calls.length);
  assert.equal(await page.locator('#call g.published-lines path').count(), 1);
  const numbersHere = numbers(contents.documents[0], 'cpu.call').length;
  assert.equal(await page.locator('#call g.measured circle').count(), numbersHere);
  assert.ok(numbersHere < calls.length, String(numbersHere));
  assert.equal(await diamonds('syscalls').count(), 1);
  // The study has only plateaus of memory latency, which are other metrics.
  assert.equal(await diamonds('latency').count(), 0);
  // Drawn before the measured points, and so below them.
  const order = await page.locator('#call svg').evaluate((svg) => {
    const groups = [...svg.querySelectorAll('g.published, g.measured, g.lines')];
    return groups.map((group) => group.getAttribute('class'));
  });
  assert.deepEqual(order, ['published', 'lines', 'measured']);
  for (const id of ['call', 'syscalls']) {
    const names = await page.locator(`#${id} g.names text`).allTextContents();
    assert.ok(names.includes('◆ published: 2016-i5-5257u'), names.join());
  }
  await page.locator('#call summary').click();
  const rows = page.locator('#call details tbody tr', { hasText: 'published' });
  await rows.first().waitFor();
  assert.equal(await rows.count(), calls.length);
  assert.match(
    await rows.first().textContent(),
    /^(procedure|function) call and return: 0 arguments10\.66 ns, deviation 28 %11\.10 nspublishedone call/,
  );
  const text = await page.locator('.study').textContent();
  for (const part of [study.name, study.machine, study.protocol, 'for scale only'])
    assert.ok(text.includes(part), text);
  const head = await page.locator('#table thead th').allTextContents();
  const column = head.indexOf('published');
  assert.equal(column, head.indexOf('predicted') + 1, head.join());
  const cells = await page.locator(`#table tbody tr td:nth-child(${column + 1})`).allTextContents();
  const like = new Set(study.figures.flatMap((figure) => figure.like[0]));
  assert.ok(like.size >= 9, String(like.size));
  assert.equal(cells.filter((cell) => cell !== '–').length, like.size);
  assert.deepEqual(log, []);
  const without = await open(chrome, one.path);
  assert.ok(!(await without.page.locator('#table thead').textContent()).includes('published'));
  assert.equal(await without.page.locator('.study, g.published').count(), 0);
});
