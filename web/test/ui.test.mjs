// Tests of `fathom ui`: every view by its address, back, two tabs, a run that is measured, a store
// that is lost, hostile texts of records, keyboard, narrow screens, access.

import assert from 'node:assert/strict';
import { createServer, get } from 'node:http';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { chrome, closePages, named, open, prepare, violations, workspace } from './report.mjs';

const METRICS = ['cpu.call', 'os.syscall', 'memory.latency'];
const EVIL = '<img src=x onerror=alert(1)>';
const LIST = { ready: '#stored tbody tr' };
const CHART = { ready: '.drawing svg' };
const HOUR = 3_600_000;

let ui;
/** The ids of runs: of two hosts, of a long history, of a label, and hostile. */
let ids;

/** A run of some time on a host, whose facts are changed. */
function stored(at, change = () => {}, metrics = METRICS) {
  return workspace.store('battery-1', metrics, (run) => {
    run.run.id = String(1_000_000_000 + at).padStart(16, '0');
    run.run.started = new Date(Date.UTC(2026, 0, 1) + at * HOUR).toISOString();
    run.host.name = 'steady';
    run.host.id = null;
    change(run);
  });
}

// Before the folder of its store is removed.
after(() => ui?.stop());

prepare(async () => {
  const first = workspace.store('battery-1', METRICS);
  const second = workspace.store('battery-2', METRICS);
  // Twenty runs, the last ten of another run of the machine: a change of kernel and of numbers.
  const steady = Array.from({ length: 12 }, (_, at) => stored(at, () => {}, ['cpu.call']));
  const rack = Array.from({ length: 6 }, (_, at) =>
    stored(100 + at, ({ host, run }) => {
      host.name = `node${at + 1}`;
      run.label = 'rack1';
    }),
  );
  const evil = stored(200, ({ host, run }) => {
    host.name = EVIL;
    host.cpu.model = EVIL;
    host.kernel = EVIL;
    host.distribution = EVIL;
    run.label = EVIL;
    run.notes = [EVIL];
  });
  // In the parameters of cases and the names of files.
  const lists = ['-L', 'x', `a,${EVIL}`];
  workspace.fathom('bench', '--runs', '5', '--label', `bench ${EVIL}`, ...lists, 'echo {x}');
  writeFileSync(join(workspace.folder, EVIL), 'some bytes');
  workspace.fathom('file', 'read', EVIL, '--label', `file ${EVIL}`);
  ids = { first, second, steady, rack, evil };
  ui = await workspace.ui();
});

/** Opens a view; messages and requests to other hosts are errors. */
async function show(path, options = {}) {
  const opened = await open(chrome, ui.address + path, options);
  const { log, requests } = opened;
  const isClean = () => {
    assert.deepEqual(log, []);
    const own = (url) => url.startsWith(`${ui.address}/`) || url.startsWith('data:');
    const foreign = requests.filter((url) => !own(url));
    assert.deepEqual(foreign, []);
  };
  return { ...opened, isClean };
}

/** All views, with what they show first. */
const views = () => [
  ['/', LIST],
  [`/run/${ids.first}`, {}],
  [`/compare?a=${ids.first}&b=${ids.second}`, {}],
  ['/history?metric=cpu.call&host=steady', CHART],
  ['/hosts?label=rack1', { ready: '#hosts tbody tr' }],
  ['/history', { ready: 'main li a' }],
];

named('list has every run, filtered by its fields', async () => {
  const { page, isClean } = await show('/', LIST);
  const rows = page.locator('#stored tbody tr');
  assert.equal(await rows.count(), ids.steady.length + ids.rack.length + 5);
  await page.getByLabel('Host', { exact: true }).fill('steady');
  await page.getByLabel('Metric', { exact: true }).fill('cpu');
  await page.getByRole('button', { name: 'Filter' }).press('Enter');
  await page.waitForURL('**/?host=steady&metric=cpu');
  await rows.first().waitFor();
  assert.equal(await rows.count(), ids.steady.length);
  const host = await page.getByLabel('Host', { exact: true }).inputValue();
  assert.equal(host, 'steady', 'the form keeps its fields');
  assert.equal(await page.locator('#stored .trend').count(), 0, 'a group has no number');
  await page.goto(`${ui.address}/?host=steady&metric=cpu.call`);
  await rows.first().waitFor();
  const widths = await page
    .locator('#stored .trend rect')
    .evaluateAll((all) => all.map((it) => Number(it.getAttribute('width'))));
  assert.equal(widths.length, ids.steady.length);
  assert.equal(Math.round(Math.max(...widths)), 100);
  await page.getByRole('link', { name: 'Clear' }).click();
  await page.waitForURL(`${ui.address}/`);
  await page.locator('#of-kind').selectOption('bench');
  await page.getByLabel('From', { exact: true }).fill('2020-01-01');
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.waitForURL('**/?kind=bench&since=2020-01-01');
  await rows.first().waitFor();
  assert.equal(await rows.count(), 1);
  await page.goto(`${ui.address}/?label=none`);
  await page.getByText('No run matches.').waitFor();
  isClean();
});

named('run is the page of report, with links to its histories', async () => {
  const { page, isClean } = await show(`/run/${ids.first}`);
  await page.locator('#call svg').waitFor();
  workspace.fathom('report', '--run', ids.first, '-o', 'same.html', '--force');
  const report = await open(chrome, join(workspace.folder, 'same.html'));
  await report.page.locator('#call svg').waitFor();
  const text = (of) => of.locator('#table tbody').textContent();
  assert.equal(await text(page), await text(report.page));
  assert.equal(await page.title(), await report.page.title());
  assert.equal(await report.page.locator('a[href^="/"]').count(), 0, 'a report has no server');
  await page.locator('.tile a').first().click();
  await page.waitForURL('**/history?metric=*');
  await page.locator('.drawing svg').first().waitFor();
  isClean();
});

named('two runs are chosen in the list and compared', async () => {
  const { page, isClean } = await show('/', LIST);
  await page.getByLabel(`A: run ${ids.first}`, { exact: true }).check();
  await page.getByLabel(`B: run ${ids.second}`, { exact: true }).check();
  await page.getByRole('button', { name: 'Compare B with A' }).click();
  const compares =
    (a, b) =>
    ({ pathname, searchParams: of }) =>
      pathname === '/compare' && of.get('a') === a && of.get('b') === b;
  await page.waitForURL(compares(ids.first, ids.second));
  await page.locator('#changes svg').waitFor();
  const compared = JSON.parse(workspace.fathom('compare', ids.first, ids.second, '--json'));
  const ratios = compared.rows.filter((row) => row.ratio !== null).length;
  assert.equal(await page.locator('#changes g.measured circle').count(), Math.min(ratios, 30));
  await page.getByRole('link', { name: 'Swap A and B' }).click();
  await page.waitForURL(compares(ids.second, ids.first));
  await page.goto(`${ui.address}/run/${ids.second}`);
  await page.getByLabel('Compare with').fill(ids.first);
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await page.waitForURL(compares(ids.first, ids.second));
  isClean();
});

named('history has a point a run, and each is a link to it', async () => {
  const { page, isClean } = await show('/history?metric=cpu.call%7Bargs%3D0%7D&host=steady', CHART);
  const points = page.locator('#case-0-0 g.measured a');
  assert.equal(await points.count(), ids.steady.length);
  assert.equal(await page.locator('#case-0-0 g.intervals line').count(), ids.steady.length);
  await page.locator('#case-0-0 summary').press('Enter');
  const rows = page.locator('#case-0-0 tbody tr');
  await rows.first().waitFor();
  assert.equal(await rows.count(), ids.steady.length);
  const newest = await rows.first().locator('a').getAttribute('href');
  assert.equal(newest, `/run/${ids.steady.at(-1)}`);
  await points.last().locator('circle').click();
  await page.waitForURL(`**/run/${ids.steady.at(-1)}`);
  isClean();
});

named('change point has its size and what else changed then', async () => {
  const path = '/history?metric=cpu.call%7Bargs%3D0%7D&host=steady';
  const { page } = await show(path, CHART);
  const answer = await page.request.get(`${ui.address}/api${path}`);
  const data = await answer.json();
  const [series] = data.history.all[0].series;
  series.points.forEach((point, at) => {
    point.value = at < 6 ? 100 : 120;
    point.interval = [point.value - 1, point.value + 1];
  });
  const [before, after] = [series.points[5].run, series.points[6].run];
  const kernel = { what: 'kernel', a: `6.1 ${EVIL}`, b: '6.12' };
  const change = { run: after, started: series.points[6].started, after_run: before };
  const sizes = { before: 100, after: 120, ratio: 1.2, p: 1e-9, worse: true, as_found: false };
  series.changes = [{ ...change, ...sizes, differences: [kernel] }];
  await page.route('**/api/history*', (route) => route.fulfill({ json: data }));
  await page.reload();
  const item = page.locator('.changes li');
  await item.waitFor();
  const text = await item.textContent();
  assert.match(text, /\+20 %, worse, 100\.0 ns → 120\.0 ns, p < 0\.0001/);
  assert.ok(text.includes(`changed with it: kernel 6.1 ${EVIL} → 6.12`), text);
  // The chart is drawn after the list.
  await page.locator('#case-0-0 g.changes line').first().waitFor({ state: 'attached' });
  assert.equal(await page.locator('#case-0-0 g.changes line').count(), 1);
  assert.equal(await page.locator('#case-0-0 g.means line').count(), 2);
  assert.equal(await page.locator('img').count(), 0);
  await item.getByRole('link', { name: 'compare' }).click();
  await page.waitForURL(`**/compare?a=${before}&b=${after}`);
});

named('hosts of a label are those of report --fleet', async () => {
  const { page, isClean } = await show('/?label=rack1', LIST);
  await page.getByRole('link', { name: 'Hosts with label rack1' }).click();
  await page.waitForURL('**/hosts?label=rack1');
  await page.locator('#hosts tbody tr').first().waitFor();
  assert.equal(await page.locator('#hosts tbody tr').count(), 6);
  assert.equal(await page.locator('h1').textContent(), 'rack1');
  const href = await page.locator('#hosts tbody td a').first().getAttribute('href');
  assert.equal(href, `/run/${ids.rack[0]}`);
  await page.locator('#hosts tbody a', { hasText: 'node3' }).click();
  await page.waitForURL('**/?host=node3');
  await page.locator('#stored tbody tr').first().waitFor();
  assert.equal(await page.locator('#stored tbody tr').count(), 1);
  isClean();
});

named('hosts and histories are reached without a name', async () => {
  const { page, isClean } = await show('/', LIST);
  await page.getByRole('link', { name: 'Hosts', exact: true }).click();
  await page.waitForURL('**/hosts');
  // Of each host the newest run, whatever its label.
  await page.locator('#hosts tbody tr').first().waitFor();
  const hosts = await page.locator('#hosts tbody tr').count();
  assert.ok(hosts >= ids.rack.length + 2, `${hosts} hosts`);
  await page.getByRole('link', { name: 'Histories' }).click();
  await page.waitForURL('**/history');
  await page.getByRole('link', { name: 'os.syscall', exact: true }).click();
  await page.waitForURL('**/history?metric=os.syscall&host=*');
  await page.locator('.drawing svg').first().waitFor();
  isClean();
});

named('views work below a path of a proxy', async () => {
  const proxy = createServer(({ url, headers }, response) => {
    assert.match(url, /^\/fathom\//);
    const own = { ...headers, host: new URL(ui.address).host };
    get(ui.address + url.slice('/fathom'.length), { headers: own }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
  });
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  const address = `http://127.0.0.1:${proxy.address().port}/fathom`;
  try {
    const { page, log } = await open(chrome, `${address}/`, LIST);
    await page.getByRole('link', { name: ids.first, exact: true }).click();
    await page.waitForURL(`${address}/run/${ids.first}`);
    await page.locator('.tile a').first().click();
    await page.waitForURL(`${address}/history?metric=*`);
    await page.locator('.drawing svg').first().waitFor();
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.waitForURL(`${address}/history?metric=*`);
    await page.getByRole('link', { name: 'All runs' }).click();
    await page.locator(LIST.ready).first().waitFor();
    assert.deepEqual(log, []);
  } finally {
    await closePages();
    proxy.closeAllConnections();
    await new Promise((done) => proxy.close(done));
  }
});

named('addresses survive reload and the back button', async () => {
  const { page, isClean } = await show('/?host=steady', LIST);
  const count = () => page.locator('#stored tbody tr').count();
  await page.locator('#stored tbody th a').first().click();
  await page.locator('#table tbody tr').first().waitFor();
  await page.reload();
  await page.locator('#table tbody tr').first().waitFor();
  assert.match(page.url(), /\/run\//);
  await page.goBack();
  await page.locator('#stored tbody tr').first().waitFor();
  assert.equal(page.url(), `${ui.address}/?host=steady`);
  assert.equal(await count(), ids.steady.length);
  await page.goForward();
  await page.locator('#table tbody tr').first().waitFor();
  isClean();
});

named('two tabs show two views', async () => {
  const { page, context, isClean } = await show(`/run/${ids.first}`);
  const other = await context.newPage();
  await other.goto(`${ui.address}/run/${ids.second}`);
  await other.locator('#table tbody tr').first().waitFor();
  const run = (of) => of.locator('.facts').first().textContent();
  assert.ok((await run(page)).includes(ids.first) && (await run(other)).includes(ids.second));
  await page.reload();
  await page.locator('#table tbody tr').first().waitFor();
  assert.ok((await run(page)).includes(ids.first));
  isClean();
});

named('texts of records that look like HTML never run', async () => {
  const { runs } = JSON.parse(workspace.fathom('show', '--runs', '--json'));
  const [bench, file] = ['bench', 'file'].map((kind) =>
    runs.find((run) => run.label?.startsWith(kind)),
  );
  const label = encodeURIComponent(EVIL);
  for (const [path, options] of [
    ['/', LIST],
    [`/?label=${label}&host=${label}&metric=${label}`, { ready: 'h1' }],
    [`/run/${ids.evil}`, {}],
    [`/run/${label}`, {}],
    [`/run/${bench.id}`, {}],
    ['/history?metric=bench', CHART],
    [`/run/${file.id}`, {}],
    [`/compare?a=${ids.first}&b=${ids.evil}`, {}],
    [`/history?metric=cpu.call&host=${label}`, CHART],
    [`/history?metric=${label}`, { ready: '#state.warn' }],
    [`/hosts?label=${label}`, { ready: '#hosts tbody tr' }],
    [`/hosts?label=x${label}`, { ready: '#state.warn' }],
    [`/run/${label}%2F${label}`, { ready: '#state.warn' }],
  ]) {
    const { page, log, requests } = await show(path, options);
    await page.waitForLoadState('networkidle');
    assert.ok((await page.locator('body').textContent()).includes(EVIL), path);
    assert.equal(await page.locator('img').count(), 0, path);
    assert.equal(await page.locator('script').count(), 2, path);
    // A refusal is a message of the browser, and no dialogue is open.
    assert.deepEqual(log.filter((line) => !line.startsWith('Failed to load resource')), [], path);
    assert.ok(requests.every((url) => !url.endsWith('/x')), requests.join(' '));
    await page.close();
  }
});

named('handler of such a text would be seen', async () => {
  const { page, log } = await show('/', LIST);
  const dialog = page.waitForEvent('dialog');
  await page.evaluate((evil) => document.body.insertAdjacentHTML('beforeend', evil), EVIL);
  await dialog;
  assert.ok(log.includes('dialog: 1'), log.join());
});

named('run that is measured is shown until it ends', async () => {
  const metrics = ['os.syscall', 'cpu.call'];
  const child = workspace.start('run', '--quick', '--only', '-q', '--label', 'now', ...metrics);
  const list = () => JSON.parse(workspace.fathom('show', '--runs', '--json')).runs;
  while (list()[0].state !== 'running') await new Promise((done) => setTimeout(done, 50));
  const { page, isClean } = await show('/', LIST);
  const state = page.locator('#state');
  await state.filter({ hasText: 'A run is being measured' }).waitFor();
  await page.getByRole('link', { name: 'now', exact: true }).waitFor();
  const opened = await show('/run/now', { ready: 'h1' });
  await opened.page.locator('#state', { hasText: 'A run is being measured' }).waitFor();
  child.kill('SIGINT');
  // Without a request of the user.
  await opened.page.locator('.answer-words p', { hasText: 'The run ended early' }).waitFor();
  await opened.page.locator('#state:empty').waitFor({ state: 'attached' });
  await state.filter({ hasNotText: 'measured' }).waitFor({ state: 'attached' });
  const row = page.locator('#stored tbody tr', { hasText: 'now' });
  await row.filter({ hasText: 'interrupted' }).waitFor();
  isClean();
  opened.isClean();
});

named('new results wait while the page is in use', async () => {
  const { page } = await show(`/run/${ids.first}`);
  const answer = await page.request.get(`${ui.address}/api/run/${ids.first}`);
  const data = await answer.json();
  const [document] = data.documents;
  const all = document.records.length;
  document.run.state = 'running';
  document.records.pop();
  await page.route('**/api/run/*', (route) => route.fulfill({ json: data }));
  await page.reload();
  await page.locator('#table tbody tr').first().waitFor();
  await page.locator('#search').fill('getppid');
  document.run.label = 'renewed';
  await page.getByRole('button', { name: 'Show new results' }).waitFor();
  assert.ok(!(await page.locator('h1').textContent()).includes('renewed'));
  await page.getByRole('button', { name: 'Show new results' }).press('Enter');
  await page.locator('h1', { hasText: 'renewed' }).waitFor();
  assert.equal(await page.locator('#search').inputValue(), 'getppid', 'fields are kept');
  const rows = await page.locator('.filters [role=status]').textContent();
  assert.match(rows, new RegExp(` of ${all - 1} rows`));
});

named('lost store is named with its remedy, and found again', async () => {
  const path = join(workspace.folder, 'fathom.db');
  renameSync(path, `${path}.away`);
  const { page } = await show('/', { ready: '#state.warn' });
  const text = await page.locator('#state').textContent();
  assert.match(text, /there is no store; create one with `fathom run`/);
  renameSync(`${path}.away`, path);
  await page.locator('#stored tbody tr').first().waitFor();
  assert.equal(await page.locator('#state').textContent(), '');
});

named('server that has ended is named with its remedy', async () => {
  const own = await workspace.ui();
  const { page } = await open(chrome, `${own.address}/run/${ids.first}`);
  const data = await (await page.request.get(`${own.address}/api/run/${ids.first}`)).json();
  data.documents[0].run.state = 'running';
  await page.route('**/api/run/*', (route) => route.fulfill({ json: data }), { times: 1 });
  await page.reload();
  await page.locator('#state', { hasText: 'A run is being measured' }).waitFor();
  await own.stop();
  const says = { hasText: 'fathom ui does not answer; start it again' };
  await page.locator('#state.warn', says).waitFor();
  assert.ok((await page.locator('#table tbody tr').count()) > 0, 'what was shown stays');
});

named('unknown run is named in one line, without an attempt again', async () => {
  const { page, requests } = await show('/run/ffffffffffffffff', { ready: '#state.warn' });
  assert.match(await page.locator('#state').textContent(), /no such run among the \d+/);
  await page.getByRole('link', { name: 'All runs' }).click();
  await page.locator('#stored tbody tr').first().waitFor();
  assert.equal(requests.filter((url) => url.includes('/api/run/')).length, 1);
});

named('token of the address opens every tab, and leaves the address', async () => {
  const own = await workspace.ui('--token-file', 'token');
  const token = readFileSync(join(workspace.folder, 'token'), 'utf8').trim();
  const without = await open(chrome, `${own.address}/`, { ready: '#state.warn' });
  assert.match(await without.page.locator('#state').textContent(), /the token is missing/);
  const { page, context, requests } = await open(chrome, `${own.address}/#token=${token}`, LIST);
  assert.equal(page.url(), `${own.address}/`);
  await page.reload();
  await page.locator('#stored tbody tr').first().waitFor();
  const other = await context.newPage();
  other.on('request', (request) => requests.push(request.url()));
  await other.goto(`${own.address}/run/${ids.first}`);
  await other.locator('#table tbody tr').first().waitFor();
  assert.ok(requests.every((url) => !url.includes(token)), requests.join(' '));
  assert.equal((await context.cookies()).length, 0);
  await own.stop();
});

named('views have no accessibility violations', async () => {
  for (const colorScheme of ['light', 'dark']) {
    for (const [path, options] of [...views(), ['/run/none0', { ready: '#state.warn' }]]) {
      const { page } = await show(path, { ...options, colorScheme });
      await page.waitForLoadState('networkidle');
      assert.deepEqual(await violations(page), [], `${path} ${colorScheme}`);
    }
    await closePages();
  }
});

named('views fit a narrow screen', async () => {
  for (const [path, options] of views()) {
    const { page } = await show(path, { ...options, viewport: { width: 390, height: 800 } });
    await page.waitForLoadState('networkidle');
    const widths = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
    assert.ok(widths[0] <= widths[1], `${path}: ${widths.join(' > ')}`);
  }
});

named('views are reached with the keyboard, and keep the theme', async () => {
  const { page, isClean } = await show('/?host=steady', LIST);
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  for (let tabs = 0; (await focused()) !== ids.steady.at(-1) && tabs < 40; tabs += 1)
    await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/run/${ids.steady.at(-1)}`);
  await page.locator('#theme').press('Enter');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const chosen = await theme();
  assert.match(chosen, /^(dark|light)$/);
  await page.getByRole('link', { name: 'All runs' }).press('Enter');
  await page.locator('#stored tbody tr').first().waitFor();
  assert.equal(await theme(), chosen);
  isClean();
});
