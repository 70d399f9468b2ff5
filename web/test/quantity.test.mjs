// Values are formatted as by crates/record: the same cases as in its tests.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { runnerImport } from 'vite';

const path = fileURLToPath(new URL('../src/quantity.ts', import.meta.url));
const { module } = await runnerImport(path);
const { atMost, binarySize, factor, factorLimits, percent, quantity, range } = module;

test('printed ratio is between its printed limits', () => {
  for (const [ratio, limits, text] of [
    [0.9992, [0.9988, 1.0122], '0.999–1.012'],
    [1.05, [1.0491, 1.0512], '1.05–1.05'],
    [12.3, [9.87, 15.02], '9.9–15.0'],
  ]) {
    assert.equal(factorLimits(limits, ratio), text);
    assert.ok(factor(ratio).startsWith(String(ratio).slice(0, 4)));
  }
});

test('measured values have four significant figures', () => {
  for (const [value, unit, text] of [
    [165.23, 'ns', '165.2 ns'],
    [0.2224, 'ns', '0.2224 ns'],
    [999.96, 'ns', '1.000 µs'],
    [999.94, 'ns', '999.9 ns'],
    [1325000, 'ns', '1.325 ms'],
    [8.05e9, 'ns', '8.050 s'],
    [4.498e9, 'Hz', '4.498 GHz'],
    [32768, 'bytes', '32 KiB'],
    [5.9e9, 'bytes', '5.495 GiB'],
    [1073741823.9, 'bytes/s', '1.000 GiB/s'],
    [1048576 * 1010, 'bytes/s', '1010 MiB/s'],
    [12345678, '1/s', '12.35 Mops/s'],
    [5.6, '1/s', '5.600 ops/s'],
    [0.9785, 'ratio', '0.9785'],
    [0.00002224, 'ns', '2.224e-5 ns'],
    [NaN, 'ns', '–'],
    [null, 'ns', '–'],
    [0, 'ns', '0 ns'],
  ]) {
    assert.equal(quantity(value, unit), text);
  }
});

test('bounds are rounded up', () => {
  const bounds = [
    [0.2, '≤ 0.2 ns'],
    [0.1831, '≤ 0.19 ns'],
    [1210, '≤ 1.3 µs'],
    [995, '≤ 1 µs'],
    [30, '≤ 30 ns'],
  ];
  assert.equal(atMost(7.7e-5, 'ns'), '≤ 0.001 ns');
  for (const [bound, text] of bounds) assert.equal(atMost(bound, 'ns'), text);
});

test('predicted range has one unit', () => {
  for (const [low, high, unit, text] of [
    [84, 126, 'ns', '84–126 ns'],
    [900, 1200, 'ns', '0.90–1.20 µs'],
    [0.04, 126, 'ns', '0.04–126 ns'],
    [16, null, 'ns', '> 16 ns'],
    [null, 1624, 'ns', '< 1.62 µs'],
    [32768, 32768, 'bytes', '32 KiB'],
  ]) {
    assert.equal(range(low, high, unit), text);
  }
});

test('shares have two figures and sizes are exact', () => {
  const shares = [0.0004, 0.0123, 0.123, 0.999, 12, 0.00001, 0];
  assert.deepEqual(shares.map(percent), [
    '0.04 %',
    '1.2 %',
    '12 %',
    '99.9 %',
    '>999 %',
    '0.00 %',
    '0 %',
  ]);
  const sizes = [1, 1024, 65536, 1536, 1500, 268435456, 0, 3 * 2 ** 30];
  const texts = ['1 B', '1 KiB', '64 KiB', '1.5 KiB', '1500 B', '256 MiB', '0 B', '3 GiB'];
  assert.deepEqual(sizes.map(binarySize), texts);
});
