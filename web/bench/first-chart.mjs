// How long a person waits for the first chart: `node bench/first-chart.mjs PAGE…`, each page
// opened in a fresh context of the browser, in turn.

import { resolve } from 'node:path';
import { browser } from '../test/report.mjs';

const TURNS = 15;
/** The time in which the first chart is to be there, in milliseconds. */
const PROMISED = 1000;

/** Milliseconds from the navigation until the first chart was painted. */
async function firstChart(of, path) {
  const context = await of.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const look = () => {
      if (document.querySelector('figure svg') === null) return requestAnimationFrame(look);
      // The frame that holds it has been painted when the next one begins.
      return requestAnimationFrame(() => (window.firstChart = performance.now()));
    };
    requestAnimationFrame(look);
  });
  await page.goto(`file://${path}`, { waitUntil: 'commit' });
  const shown = await page.waitForFunction(() => window.firstChart, null, { timeout: 30_000 });
  const time = await shown.jsonValue();
  await context.close();
  return time;
}

const pages = process.argv.slice(2).map((page) => resolve(page));
if (pages.length === 0) {
  console.error('name a page that `fathom report` wrote');
  process.exit(2);
}
const chrome = await browser();
const times = new Map(pages.map((page) => [page, []]));
try {
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const page of pages) times.get(page).push(await firstChart(chrome, page));
  }
} finally {
  await chrome.close();
}
for (const [page, all] of times) {
  all.sort((a, b) => a - b);
  const seconds = (at) => (all[at] / 1000).toFixed(3);
  const [least, middle, most] = [0, (TURNS - 1) / 2, TURNS - 1].map(seconds);
  console.log(`${page}: first chart after ${middle} s (${least} … ${most}), of ${TURNS} openings`);
  if (all[(TURNS - 1) / 2] > PROMISED) process.exitCode = 1;
}
