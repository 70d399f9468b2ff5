// Tests of the page of many hosts: strips, the matrix between hosts, tables, access and print.

import assert from 'node:assert/strict';
import { chrome, named, open, prepare, violations, workspace } from './report.mjs';

const HOSTS = 6;
prepare(() => {
  workspace.fathom('report', '--fleet', ...workspace.fleet('battery-1', HOSTS), '-o', 'fleet.html');
});
const READY = { ready: '#hosts tbody tr' };

/** A page whose data are changed. */
async function changed(change, options = {}) {
  const { path, contents } = workspace.page(
    'changed.html',
    (all) => {
      change(all.fleet);
      return all;
    },
    'fleet.html',
  );
  return { ...(await open(chrome, path, { ...READY, ...options })), fleet: contents.fleet };
}

/** A strip of so many hosts around 100, of which one is odd, one noisy, and one has no number. */
function strip(hosts) {
  const numbers = hosts.map((_, at) => 100 + ((7 * at) % 11) / 5);
  const last = hosts.length - 1;
  [numbers[0], numbers[last]] = [130, null];
  return {
    title: 'Memory latency',
    case: 'memory.latency.dram',
    unit: 'ns',
    median: 101,
    numbers,
    noisy: [1],
    without: [[last, 'failed']],
    odd: [[0, 1.29]],
    typical: [90, 120, '49 machine types with AMD EPYC Genoa'],
  };
}

/** Numbers between all pairs, of which one link is bad. */
function matrix(hosts) {
  const numbers = hosts.flatMap((_, from) =>
    hosts.flatMap((_, to) => {
      const bad = Math.min(from, to) === 1 && Math.max(from, to) === 2;
      return from === to ? [] : [[from, to, bad ? 180 : 100 + ((from + 3 * to) % 7)]];
    }),
  );
  return {
    case: 'network.tcp.rtt{mode=block}',
    unit: 'ns',
    is_lower_better: true,
    hosts,
    usual: 103,
    numbers,
    bad_hosts: [[4, 'sends 1.2']],
    bad_links: [[[1, 2], 'node2 to node3 1.75']],
    not_judged: [],
  };
}

const names = (count) => Array.from({ length: count }, (_, at) => `node${at + 1}`);

/** Many hosts in place of those of the program. */
function many(fleet, count) {
  const [group] = fleet.groups;
  group.hosts = names(count);
  group.strips = [strip(group.hosts)];
  group.odd = [['node1', 'memory.latency.dram', '130 ns', '101 ns', '1.29', 'slower']];
  group.facts = [['governor', 'node1', 'powersave', 'performance', `${count - 1} of ${count}`]];
  group.not_judged = ['cpu.call: bimodal across the hosts'];
  group.runs = group.hosts.map((host) => [host, '0123456789abcdef', '2026-01-01', '9 valid']);
  [fleet.verdict, fleet.tone] = [`1 of ${count} hosts is odd: node1`, 'bad'];
  fleet.matrices = [matrix(names(Math.min(count, 64)))];
}

named('page of many hosts loads without errors', async () => {
  const { page, log, requests } = await open(chrome, `${workspace.folder}/fleet.html`, READY);
  await page.locator('#numbers .noisy-hosts').first().waitFor({ state: 'attached' });
  assert.deepEqual(log, []);
  assert.equal(requests.length, 1, requests.join(' '));
  assert.equal(await page.title(), `Fathom report: ${HOSTS} hosts`);
  // However noisy the recorded run is.
  assert.match(await page.locator('.verdict').textContent(), new RegExp(`${HOSTS} hosts`));
  assert.equal(await page.locator('#hosts tbody tr').count(), HOSTS);
  assert.equal(await page.locator('#pairs').count(), 0, 'no numbers between hosts');
  const strips = await page.locator('#numbers figure').count();
  assert.ok(strips >= 3, String(strips));
});

for (const count of [6, 1000]) {
  named(`strip of ${count} hosts has a point each and names the odd one`, async () => {
    const { page } = await changed((fleet) => many(fleet, count));
    await page.locator('#strip-0-0 .hosts').waitFor();
    const dots = (name) =>
      page.locator(name).evaluate((path) => path.getAttribute('d').split('M').length - 1);
    // One is odd, one noisy, and one has no number.
    assert.equal(await dots('#strip-0-0 .hosts'), count - 3);
    assert.equal(await dots('#strip-0-0 .noisy-hosts'), 1);
    assert.equal(await page.locator('#strip-0-0 .odd-host').count(), 1);
    assert.deepEqual(await page.locator('#strip-0-0 .odd-name').allTextContents(), ['node1']);
    const inside = await page.locator('#strip-0-0 svg').evaluate((svg) => {
      const box = svg.getBoundingClientRect();
      const path = svg.querySelector('.hosts').getBoundingClientRect();
      return path.left >= box.left && path.right <= box.right && path.bottom <= box.bottom;
    });
    assert.ok(inside, 'all points are in the drawing');
    assert.match(
      await page.locator('#strip-0-0 figcaption').textContent(),
      new RegExp(`Without a number: node${count} \\(failed\\)`),
    );
    await page.locator('#strip-0-0 summary').press('Enter');
    const rows = page.locator('#strip-0-0 tbody tr');
    await rows.first().waitFor();
    assert.equal(await rows.count(), count);
    const first = await rows.first().locator('th, td').allTextContents();
    assert.deepEqual(first, ['node1', '130.0 ns', '1.29 ×', 'valid, odd']);
  });
}

named('matrix has a cell per direction and names what is bad', async () => {
  for (const count of [6, 64]) {
    const { page } = await changed((fleet) => many(fleet, count));
    await page.locator('#pairs-0 .links').first().waitFor();
    const cells = await page
      .locator('#pairs-0 .links')
      .evaluateAll((all) => all.map((path) => path.getAttribute('d').split('M').length - 1));
    assert.equal(cells.reduce((sum, one) => sum + one), count * (count - 1));
    assert.equal(cells.at(-1), 2, 'the bad link both ways');
    const text = await page.locator('#pairs-0 figcaption').textContent();
    assert.match(text, /node5 is bad: sends 1\.2\.Bad link: node2 to node3 1\.75\./);
    await page.locator('#pairs-0 summary').press('Enter');
    await page.locator('#pairs-0 tbody tr').first().waitFor();
    const worst = await page.locator('#pairs-0 tbody tr').first().allTextContents();
    assert.match(worst[0], /^node[23]node[23]180\.0 ns1\.75 ×$/);
  }
});

named('page of many hosts has no accessibility violations', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page } = await changed((fleet) => many(fleet, 40), { colorScheme });
    await page.locator('#strip-0-0 .hosts').waitFor();
    await page.locator('#strip-0-0 summary').click();
    assert.deepEqual(await violations(page), [], colorScheme);
  }
});

named('page of many hosts fits a narrow screen and paper', async () => {
  const viewport = { width: 390, height: 800 };
  const { page } = await changed((fleet) => many(fleet, 1000), { viewport });
  await page.locator('#strip-0-0 .hosts').waitFor();
  await page.locator('#pairs-0 .links').first().waitFor();
  const widths = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  assert.ok(widths[0] <= widths[1], widths.join(' > '));
  const cut = await page
    .locator('.drawing')
    .evaluateAll((all) => all.filter((box) => box.scrollWidth > box.clientWidth + 1).length);
  assert.equal(cut, 0);
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.locator('nav').isVisible(), false);
  assert.equal(await page.locator('#strip-0-0 .tools').isVisible(), false);
  const box = page.locator('#hosts .box');
  assert.ok(await box.evaluate((one) => one.scrollHeight <= one.clientHeight + 1), 'all rows');
});

named('names of hosts are text', async () => {
  const name = '<img src=x onerror=alert(1)>';
  const { page, log } = await changed((fleet) => {
    many(fleet, 6);
    fleet.groups[0].hosts[0] = name;
    fleet.groups[0].runs[0][0] = name;
    fleet.verdict = name;
  });
  await page.locator('#strip-0-0 .odd-name').waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(log, []);
});
