// Helpers: pages of recorded runs, made by the program, and a browser.

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';

const BROWSERS = ['chromium', 'google-chrome', 'google-chrome-stable', 'chromium-browser'];
const SWITCHES = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The path of an installed browser. */
function browserPath() {
  const folders = (process.env.PATH ?? '').split(':');
  const all = BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name)));
  return all.find((path) => existsSync(path));
}

/** Why the tests are skipped; false if they are not. */
const skip =
  (!process.env.FATHOM && 'FATHOM names no program') ||
  (!browserPath() && 'needs chromium or google-chrome') ||
  false;

/** A folder that is removed after the tests. */
class Workspace {
  folder = mkdtempSync(join(tmpdir(), 'fathom-web-'));

  fathom(...words) {
    const environment = { ...process.env, FATHOM_STORE: join(this.folder, 'fathom.db') };
    const options = { env: environment, cwd: this.folder, maxBuffer: 1 << 28 };
    return execFileSync(process.env.FATHOM, words, {
      ...options,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** Starts a command that runs until it is stopped. */
  start(...words) {
    const environment = { ...process.env, FATHOM_STORE: join(this.folder, 'fathom.db') };
    const stdio = ['ignore', 'pipe', 'inherit'];
    return spawn(process.env.FATHOM, words, { env: environment, cwd: this.folder, stdio });
  }

  /** Starts `fathom ui`; its address, and what ends it. */
  async ui(...options) {
    const child = this.start('ui', '--listen', '0', ...options);
    let text = '';
    for await (const part of child.stdout) {
      text += part;
      if (text.includes('Stop ')) break;
    }
    const stop = () => new Promise((done) => child.once('exit', done).kill('SIGINT'));
    return { address: /http:\/\/[\d.:]+/.exec(text)[0], stop };
  }

  /** Stores a run of `record.sh`, or only its records of some metrics, changed; returns its id. */
  store(name, metrics = [], change = () => {}) {
    const file = readFileSync(new URL(`runs/${name}.json.gz`, import.meta.url));
    const run = JSON.parse(gunzipSync(file));
    change(run);
    const chosen = run.records.filter((record) => metrics.includes(record.metric));
    if (metrics.length) run.records = chosen;
    writeFileSync(join(this.folder, 'run.json'), JSON.stringify(run));
    this.fathom('import', 'run.json');
    return run.run.id;
  }

  /** Writes a run of `record.sh` as that of so many hosts; returns the names of the files. */
  fleet(name, hosts) {
    const file = readFileSync(new URL(`runs/${name}.json.gz`, import.meta.url));
    const run = JSON.parse(gunzipSync(file));
    return Array.from({ length: hosts }, (_, at) => {
      run.host = { ...run.host, name: `node${at + 1}`, id: null };
      run.run.id = `${'0'.repeat(12)}${String(1000 + at)}`;
      const path = `node${at + 1}.json`;
      writeFileSync(join(this.folder, path), JSON.stringify(run));
      return path;
    });
  }

  /** A page with modified contents, whose checksums need not match. */
  page(name, change = (contents) => contents, from = 'report.html') {
    const path = join(this.folder, from);
    const page = readFileSync(path, 'utf8');
    const [before, rest] = page.split('id="runs">');
    const end = rest.indexOf('</script>');
    const contents = change(JSON.parse(rest.slice(0, end)));
    const json = JSON.stringify(contents).replaceAll('<', '\\u003c');
    const other = join(this.folder, name);
    writeFileSync(other, `${before}id="runs">${json}${rest.slice(end)}`);
    return { path: other, contents };
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const browser = () => chromium.launch({ executablePath: browserPath(), args: SWITCHES });

/** Far above what a page needs beside other work. */
const LIMIT_MS = 300_000;
const contexts = [];

/** Closes all pages of a test. */
export const closePages = () => Promise.all(contexts.splice(0).map((one) => one.close()));

/** The folder and the browser of a file of tests, which runs in a process of its own. */
export let workspace;
export let chrome;

/** Makes both before the tests, and what the tests need in the folder. */
export function prepare(make) {
  before(async () => {
    if (skip) return;
    workspace = new Workspace();
    await make();
    chrome = await browser();
  });
  afterEach(closePages);
  after(async () => {
    await chrome?.close();
    workspace?.remove();
  });
}

/** A test that needs the program and a browser. */
export const named = (name, body) => test(name, { skip }, body);

/** What axe finds on a page, each with its rule. */
export async function violations(page) {
  const axe = new URL('../node_modules/axe-core/axe.min.js', import.meta.url);
  await page.evaluate(readFileSync(axe, 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run());
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}

/** Opens a page; `log` collects its messages and errors, `requests` its requests. */
export async function open(of, path, { ready = '#table tbody tr', ...options } = {}) {
  const context = await of.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  contexts.push(context);
  const page = await context.newPage();
  const log = [];
  const requests = [];
  page.on('console', (message) => log.push(message.text()));
  page.on('pageerror', (error) => log.push(String(error)));
  page.on('dialog', (dialog) => {
    log.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(path.startsWith('http') ? path : `file://${path}`);
  await page.locator(ready).first().waitFor();
  return { page, log, requests, context };
}
