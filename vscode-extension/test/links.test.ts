import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loweredOf, Run, sourcesOf } from '../src/links';

const runs: Run[] = [[1, 1, 10], [2, 4, 12], [5, 5, 13], [6, 7, 12], [9, 9, 12]];

test('touching runs of one statement are one range', () => {
  assert.deepEqual(loweredOf(runs, 12, 12), [[2, 4], [6, 7], [9, 9]]);
  assert.deepEqual(loweredOf(runs, 12, 13), [[2, 7], [9, 9]]);
  assert.deepEqual(loweredOf(runs, 99, 99), []);
});

test('lowered lines lead back to their statements', () => {
  assert.deepEqual(sourcesOf(runs, 3, 3), [12]);
  assert.deepEqual(sourcesOf(runs, 1, 5), [10, 12, 13]);
  assert.deepEqual(sourcesOf(runs, 8, 8), []);
});
