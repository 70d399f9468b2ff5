// Parameters of a case as text.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { runnerImport } from 'vite';

const path = fileURLToPath(new URL('../src/parameters.ts', import.meta.url));
const { parametersText } = (await runnerImport(path)).module;

test('every number has its name or unit', () => {
  for (const [params, text] of [
    [
      { block: 1000, from_ms: 5000, state: 'warm', to_ms: 15000 },
      '1000 B blocks, from 5000 ms, warm, to 15000 ms',
    ],
    [{ buffer_bytes: 65536, connections: 4, depth: 8 }, '64 KiB buffer, 4 connections, depth 8'],
    [{ read: 2, threads: 1, bytes: 4096 }, 'second read, 1 thread, 4 KiB'],
    [{ read: 4 }, 'read 4'],
    [
      { arrivals: 'poisson', from: 'send', rate: 500 },
      'Poisson arrivals, from the send, 500 requests/s',
    ],
  ]) {
    assert.equal(parametersText(params), text);
  }
});
