// How long a person waits for the first tile and the first chart: `node bench/first-tile.mjs
// PAGE…`, each page opened in a fresh context of the browser, in turn.

import { resolve } from 'node:path';
import { browser } from '../test/report.mjs';

const TURNS = 15;
/** What is awaited, and the time in which it is to be there, in milliseconds. */
const AWAITED = [
  ['first tile', '.tile .value', 500],
  ['first chart', 'figure .drawing svg', 1000],
];

/** Milliseconds from the navigation until each awaited element was painted. */
async function paints(of, path) {
  const context = await of.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript((selectors) => {
    window.paints = selectors.map(() => null);
    const look = () => {
      selectors.forEach((selector, at) => {
        if (window.paints[at] !== null || document.querySelector(selector) === null) return;
        // The frame that holds it has been painted when the next one begins.
        window.paints[at] = 0;
        requestAnimationFrame(() => (window.paints[at] = performance.now()));
      });
      if (window.paints.includes(null)) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, AWAITED.map(([, selector]) => selector));
  await page.goto(`file://${path}`, { waitUntil: 'commit' });
  const shown = await page.waitForFunction(
    () => window.paints.every((time) => time > 0) && window.paints,
    null,
    { timeout: 30_000 },
  );
  const times = await shown.jsonValue();
  await context.close();
  return times;
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
    for (const page of pages) times.get(page).push(await paints(chrome, page));
  }
} finally {
  await chrome.close();
}
for (const [page, turns] of times) {
  AWAITED.forEach(([name, , promised], at) => {
    const all = turns.map((turn) => turn[at]).sort((a, b) => a - b);
    const seconds = (index) => (all[index] / 1000).toFixed(3);
    const [least, middle, most] = [0, (TURNS - 1) / 2, TURNS - 1].map(seconds);
    console.log(`${page}: ${name} after ${middle} s (${least} … ${most}), of ${TURNS} openings`);
    if (all[(TURNS - 1) / 2] > promised) process.exitCode = 1;
  });
}
