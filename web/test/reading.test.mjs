// Tests of what a reader finds on the page: intervals, comparisons, search, causes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chrome, named, open, prepare, workspace } from './report.mjs';

prepare(() => {
  workspace.store('battery-1', ['cpu.call', 'os.syscall']);
  workspace.fathom('report', '-o', 'report.html');
  workspace.store('battery-2', ['cpu.call']);
  workspace.fathom('report', 'latest~1', 'latest', '-o', 'two.html');
});
const valid = { state: 'valid', reasons: [] };

/** A page of one run, or of two, with modified contents. */
async function changed(from, change) {
  const { path, contents } = workspace.page(
    'changed.html',
    (all) => {
      change(all);
      return all;
    },
    from,
  );
  return { ...(await open(chrome, path)), contents };
}

named('noise between runs comes from stored runs', async () => {
  for (const [runs, known, expected] of [
    [0, 0, /Noise between runs: unknown, no stored runs\.$/],
    [2, 0, /Noise between runs: unknown, too few stored runs \(2\)\.$/],
    [9, 3, /Noise between runs: from 9 stored runs of this host \(3 of \d+ cases\)\.$/],
    [9, Infinity, /Noise between runs: from 9 stored runs of this host\.$/],
  ]) {
    const { page } = await changed('two.html', ({ comparison }) => {
      comparison.noise_runs = runs;
      comparison.core = null;
      comparison.rows.forEach((row, at) => {
        row.noise = at < known ? 0.02 : null;
        row.core = null;
      });
      assert.ok(comparison.rows.length > 3);
    });
    assert.match(await page.locator('.lead').textContent(), expected);
  }
});

named('what cases are counted as and hours between the runs are named', async () => {
  const { page } = await changed('two.html', ({ comparison }) => {
    Object.assign(comparison, { factors: [], hours_apart: 9.2, core: null });
    comparison.rows.forEach((row, at) => {
      [row.share, row.core] = [at < 2 ? 'differs' : 'unchanged', null];
    });
  });
  const lead = await page.locator('.lead').textContent();
  assert.match(lead, /^From A to B: 2 differ, \d+ unchanged/);
  assert.match(lead, /9 h between A and B: better measure both in turn \(A B B A\)\./);
});

named('what moved together comes first, with what coincides', async () => {
  const { page } = await changed('two.html', ({ comparison }) => {
    const suspects = [{ what: 'governor', a: 'performance', b: 'powersave' }];
    const core = { class: 'core speed', slower: 1.03, interval: [1.02, 1.04], agree: 5 };
    const still = { ...core, class: 'device', members: [], moved: false, with_core: false };
    const moved = { ...core, members: new Array(6).fill({}), moved: true, with_core: true };
    const apart = { ...moved, class: 'two CPUs', slower: 0.8, with_core: false };
    comparison.factors = [
      { ...moved, core: 1.02, suspects },
      { ...moved, class: 'kernel entry', core: 1.02 },
      { ...apart, distances: [124, 23] },
      still,
    ];
    const terms = [{ name: 'os.x', difference: 33e3, ratio: 1.21 }];
    const split = { difference: 41e3, terms, unexplained: 8e3, error: 9e3 };
    Object.assign(comparison.rows[0], { share: 'differs', unit: 'ns', split });
    comparison.rows[1].share = 'cpus_nearer';
  });
  const lead = await page.locator('.lead').textContent();
  const words = 'B is 20 % faster in two CPUs (CPUs nearer), 2.0 % slower in core speed (2 classes): ';
  assert.ok(lead.startsWith(words), lead);
  assert.match(lead, /\d+ with CPUs nearer/);
  const [split] = await page.locator('.split').allTextContents();
  assert.match(split, / \+41 µs: os\.x \+33 µs \(\+21 %\), unexplained \+8\.0 µs ± 9\.0 µs$/);
  const rows = page.locator('table.factors tbody tr');
  assert.equal(await rows.count(), 3);
  const cells = await rows.first().locator('th, td').allTextContents();
  const coincides = 'reference loop 2.0 % slower; governor: performance → powersave';
  const expected = ['core speed', '3.0 % slower', '+2.0 % … +4.0 %', '5 of 6', coincides];
  assert.deepEqual(cells, expected);
});

named('core speed is named if it explains a change', async () => {
  for (const [core, of, expected] of [
    [1.5, [], /Core 1\.50 × slower throughout B than in A/],
    [0.5, [], /Core 2\.00 × slower throughout A than in B/],
    [null, [1.9], /Core speed: in 1 case the core was faster/],
  ]) {
    const { page } = await changed('two.html', ({ comparison }) => {
      comparison.core = core;
      comparison.rows.forEach((row, at) => {
        row.core = of[at] ?? null;
        if (row.core !== null) [row.word, row.interval] = ['inconclusive', [1.1, 1.2]];
      });
    });
    assert.match(await page.locator('.lead').textContent(), expected);
  }
});

named('rows and comparisons name their stratum', async () => {
  const { page } = await changed('two.html', ({ documents, comparison }) => {
    for (const [at, { records, run }] of documents.entries()) {
      const basis = at === 0 ? 'earlier_runs' : 'this_run';
      const { summary } = records[0];
      const { median, process_medians } = summary;
      const estimate = { median, interval: summary.interval, visits: 5, of: 97, process_medians };
      summary.stratum = 'full_speed';
      summary.full_speed = estimate;
      summary.as_found = { ...estimate, median: 2 * median, of: 5 };
      const found = { stratum: 'as_found', full_speed: null, as_found: { ...estimate, of: 5 } };
      for (const other of records.slice(1)) if (other.summary) Object.assign(other.summary, found);
      run.reference = { loop_ns: 1, frequency_ns: 1, basis, visits: 22, clean: 10 };
    }
    for (const row of comparison.rows) row.stratum = 'as_found';
    // However noisy this machine is, all records show their number.
    for (const record of documents.flatMap(({ records }) => records)) record.verdict = valid;
  });
  // The details of the two rows that have what is looked for, and of one other.
  for (const at of [0, 1]) await page.locator('.opener').nth(at).click();
  const details = await page.locator('#table .details').allTextContents();
  const texts = await page.locator('#table .details dd').allTextContents();
  // Of both runs.
  const reported = texts.filter((one) => one.startsWith('core to itself, 5 of 97 processes; all '));
  assert.equal(reported.length, 2);
  assert.match(details[0], /B ÷ A .*, compared all processes/);
  assert.doesNotMatch(details[1], /compared all processes/);
  assert.ok(texts.includes('all processes'));
  assert.match(await page.locator('.facts').first().textContent(), /core to itself10 of 22/);
});

named('intervals have the level of the records', async () => {
  for (const [levels, expected] of [
    [[0.9375], '│ 93.8 % confidence interval'],
    [[0.95], '│ 95 % confidence interval'],
    [[0.9375, 0.9921875], '│ 93.8–99.2 % confidence interval'],
  ]) {
    const { page } = await changed('report.html', ({ documents: [{ records }] }) => {
      const shown = records.filter(({ summary }) => summary?.interval);
      assert.ok(shown.length > 2);
      shown.forEach(({ summary }, at) => (summary.interval.level = levels[at % levels.length]));
    });
    const key = await page.locator('.key').textContent();
    assert.ok(key.includes(expected), key);
  }
});

named('cases of one run only are listed, others paired', async () => {
  const { page, contents } = await changed('two.html', ({ documents: [, b], comparison }) => {
    const worse = { ratio: 1.5, interval: [1.4, 1.6], word: 'worse', core: null };
    // However noisy this machine is, no other ratio is higher.
    for (const row of comparison.rows) Object.assign(row, { ratio: 1, interval: [0.9, 1.1] });
    Object.assign(comparison.rows[0], worse, { unchanged_within: null });
    const added = structuredClone(b.records[0]);
    added.params = { args: 99 };
    b.records.push(added);
    comparison.only_b.push({ metric: added.metric, params: added.params });
  });
  const { documents, comparison } = contents;
  const missing = comparison.only_a.length;
  assert.equal(missing, documents[0].records.length + 1 - documents[1].records.length);
  assert.ok(missing > 3, String(missing));
  const only = await page.locator('.only summary').allTextContents();
  assert.deepEqual(only, [`${missing} cases only in A`, '1 case only in B']);
  assert.match(await page.locator('.only').first().textContent(), /system call: getppid/);
  const rows = await page.locator('#table tbody tr').evaluateAll((all) =>
    all.map(({ cells }) => ({
      name: cells[0].querySelector('.name').title.split('\n')[1],
      values: [...cells].slice(1, 5).map(({ textContent }) => textContent),
    })),
  );
  // One row a case, with the values of both runs beside each other.
  const names = rows.map(({ name }) => name);
  assert.equal(new Set(names).size, rows.length);
  assert.equal(rows.length, missing + 1 + comparison.rows.length);
  const head = await page.locator('#table thead th').allTextContents();
  assert.deepEqual(head.slice(0, 6), ['operation', 'A', 'B', 'ratio B ÷ A', 'change', 'verdict']);
  const of = (name) => rows.find((row) => row.name === name)?.values;
  const { metric, params } = comparison.rows[0];
  const [[first, value]] = Object.entries(params);
  const [a, b, ratio, word] = of(`${metric}{${first}=${value}}`);
  assert.match(`${a}|${b}`, /^[~≤ ]*[\d.]+ ns.*\|[~≤ ]*[\d.]+ ns/);
  assert.deepEqual([ratio, word], ['1.50 × 1.40–1.60', 'worse']);
  const alone = rows.find(({ name }) => name.startsWith('os.syscall')).values;
  assert.deepEqual(alone.slice(1), ['–', '–', 'only in A']);
  assert.deepEqual(of('cpu.call{args=99}')[0], '–');
  await page.getByRole('button', { name: 'ratio B ÷ A' }).press('Enter');
  await page.getByRole('button', { name: 'ratio B ÷ A' }).press('Enter');
  const top = await page.locator('#table tbody tr').first().textContent();
  assert.ok(top.includes('1.50 ×'), top);
});

named('each run of a comparison shows its verdict', async () => {
  const { page } = await changed('two.html', ({ documents: [a, b], closing }) => {
    a.run.verdict = { state: 'noisy', reasons: [{ cause: 'load', text: 'others were busy' }] };
    closing[0].verdict = 'The run is noisy: others were busy.';
    b.run.verdict = valid;
    closing[1].verdict = null;
    // The runs are parts of larger ones.
    closing.forEach((one) => (one.progress = null));
  });
  assert.deepEqual(await page.locator('.short .warn').allTextContents(), [
    'The run is noisy: others were busy.',
  ]);
});

named('search finds words, shown labels and values', async () => {
  const { page } = await changed('report.html', ({ documents: [{ records }] }) => {
    const [a, b, c] = records.filter(({ metric }) => metric === 'cpu.call');
    Object.assign(a, { metric: 'os.process.fork', title: 'Fork', params: { rss_bytes: 2 ** 30 } });
    Object.assign(b, { metric: 'memory.latency', title: 'Load', params: { set_bytes: 2 ** 27 } });
    Object.assign(c, { metric: 'memory.latency', title: 'Load', params: { set_bytes: 2 ** 33 } });
  });
  const rows = page.locator('#table tbody tr');
  const all = await rows.count();
  for (const [typed, found] of [
    ['1 GiB resident', 'rss_bytes=1073741824'],
    ['resident fork', 'rss_bytes=1073741824'],
    ['set=128 MiB', 'set_bytes=134217728'],
    ['set_bytes=128MiB', 'set_bytes=134217728'],
    ['134217728', 'set_bytes=134217728'],
    ['128 MIB  load', 'set_bytes=134217728'],
    ['8GiB', 'set_bytes=8589934592'],
  ]) {
    await page.locator('#search').fill(typed);
    assert.equal(await rows.count(), 1, typed);
    assert.ok((await rows.locator('.name').getAttribute('title')).includes(found), typed);
    assert.equal(await page.locator('.nothing').isVisible(), false);
  }
  // A number matches from its first digit, and no character is a wildcard.
  for (const typed of ['28 MiB', 'fork latency', 'f.rk', '((']) {
    await page.locator('#search').fill(typed);
    assert.equal(await rows.count(), 0, typed);
  }
  await page.locator('#search').fill('zzz');
  assert.match(await page.locator('.nothing').textContent(), /^Nothing matches; clear the search$/);
  await page.locator('#group').selectOption('os');
  await page.locator('.nothing button').press('Enter');
  assert.equal(await rows.count(), all);
  assert.equal(await page.locator('#search').inputValue(), '');
  assert.equal(await page.locator('.nothing').isVisible(), false);
  assert.ok(await page.locator('#search').evaluate((box) => box === document.activeElement));
});

named('bound is sorted among the numbers', async () => {
  const { page } = await changed('report.html', ({ documents: [{ records }] }) => {
    const calls = records.filter(({ metric }) => metric === 'cpu.call');
    calls.forEach((record, at) => {
      record.verdict = valid;
      record.summary.bound = at === 1 ? 2.5 : null;
      record.summary.median = at + 1;
    });
    for (const record of records.filter(({ metric }) => metric !== 'cpu.call'))
      record.verdict = { state: 'invalid', reasons: [] };
  });
  const cells = page.locator('#table tbody tr td:nth-child(2)');
  const workspace = async () =>
    (await cells.allTextContents()).slice(0, 3).map((text) => text.split(' ns')[0]);
  await page.locator('thead').getByRole('button', { name: 'measured' }).press('Enter');
  assert.deepEqual(await workspace(), ['1.000', '≤ 2.5', '3.000']);
  await page.locator('thead').getByRole('button', { name: 'measured' }).press('Enter');
  const down = (await cells.allTextContents()).map((text) => text.split(' ns')[0]);
  assert.deepEqual(down.slice(down.indexOf('3.000')).slice(0, 3), ['3.000', '≤ 2.5', '1.000']);
});

named('data below a chart has the causes', async () => {
  const cause = 'a known cause';
  const spoil = ({ documents, words, comparison }) => {
    for (const [run, { records }] of documents.entries()) {
      for (const [at, record] of records.entries()) {
        if (record.metric !== 'cpu.call') continue;
        const reasons = [{ cause: 'spread', text: cause }];
        record.verdict = { state: 'noisy', reasons };
        words[run][at].reasons = reasons;
        record.prediction = { ...record.prediction, value: 2 };
      }
    }
    comparison.rows.forEach((row) => Object.assign(row, { noisy_a: true, ratio: 1 }));
  };
  const { page, contents } = await changed('two.html', spoil);
  assert.match(await page.locator('.key').textContent(), /cause, or open Data below/);
  for (const id of ['call', 'changes', 'predicted']) {
    const figure = page.locator(`#${id}`);
    await figure.locator('summary').press('Enter');
    await figure.locator('tbody tr').first().waitFor();
    const head = await figure.locator('thead th').allTextContents();
    assert.deepEqual(head.slice(-2), ['verdict', 'cause'], id);
    const rows = figure.locator('tbody tr');
    const own = await rows
      .filter({ hasText: /(procedure|function) call/ })
      .evaluateAll((all) =>
        all.map(({ cells }) => [...cells].slice(-2).map((one) => one.textContent)),
      );
    assert.ok(own.length >= 8, id);
    for (const [verdict, text] of own) {
      assert.match(verdict, /noisy/, id);
      assert.ok(text.includes(cause), `${id}: ${text}`);
    }
    assert.equal(await figure.locator('[role=img] svg').count(), 1);
  }
  const { length } = contents.comparison.rows;
  assert.equal(await page.locator('#changes tbody tr').count(), length);
  await page.locator('#sampled').selectOption({ index: 1 });
  assert.match(await page.locator('#samples figcaption').textContent(), /noisy: a known cause/);
  const saving = page.waitForEvent('download');
  await page.locator('#call .save', { hasText: 'SVG' }).click();
  const saved = readFileSync(await (await saving).path(), 'utf8');
  assert.match(saved, /^<svg [^>]*role="img" aria-label="Function call by arguments"/);
});

named('far host and its records are on the page', async () => {
  const golden = new URL('../../crates/store/tests/golden/document.json', import.meta.url);
  workspace.fathom('import', fileURLToPath(golden));
  workspace.fathom('report', '0000019514ab3c5d', '-o', 'far.html');
  const { page } = await open(chrome, join(workspace.folder, 'far.html'));
  const facts = await page.locator('.facts').textContent();
  assert.match(facts, /far endbench-4, Example 9 7950X, kernel 6\.1\.0/);
  const rows = await page.locator('table').first().textContent();
  assert.match(rows, /TCP round trip/);
  assert.match(rows, /70\.51 µs/);
});
