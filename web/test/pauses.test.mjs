// Pauses of a server.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { runnerImport } from 'vite';

const path = fileURLToPath(new URL('../src/charts/pauses.ts', import.meta.url));
const { silentOf } = (await runnerImport(path)).module;

/** Slices with these responses; a sweep begins at each of the others. */
const slices = (counts, begins = []) =>
  counts.map((responses, at) => ({ responses, first: begins.includes(at), at }));
const silent = (...of) => silentOf(slices(...of)).map(({ at }) => at);

test('a pause is marked where responses were to be expected', () => {
  const busy = Array(20).fill(50);
  assert.deepEqual(silent([...busy, 0, 0, ...busy]), [20, 21]);
  assert.deepEqual(silent([...busy, 0]), [20]);
  // Half a response in each slice: three without one are chance.
  assert.deepEqual(silent([1, 0, 1, 0, 0, 0, 1, 1, 0, 1]), []);
  assert.deepEqual(silent([]), []);
});

test('the end of a sweep and the begin of another are two pauses', () => {
  const few = Array(20).fill(2);
  assert.deepEqual(silent([...few, ...Array(8).fill(0), ...few]).length, 8);
  assert.deepEqual(silent([...few, ...Array(8).fill(0), ...few], [24]), []);
});
