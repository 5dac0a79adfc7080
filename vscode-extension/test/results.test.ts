import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeText, grouped, Result, resultsHtml, sparkline } from '../src/resultsHtml';

const runs: Result[] = [
  { kernel: 'matmul', instance: 'matmul(1)', target: 'cpu', ok: true, latency_ms: { median: 0.5 }, change: -0.5, max_abs_err: 4.9e-4, against: 'interpreter', time: 2 },
  { kernel: 'matmul', instance: 'matmul(1)', target: 'cpu', ok: true, latency_ms: { median: 1.0 }, time: 1 },
  { kernel: 'copy', instance: 'copy()', target: 'cpu', ok: false, error: 'C[0] is <wrong> & "bad"' },
];

test('runs of one kernel, instance and target belong together', () => {
  assert.deepEqual(grouped(runs).map((g) => g.length), [2, 1]);
});

test('what the server says is escaped', () => {
  const html = resultsHtml(runs, '<file>.py');
  assert.ok(!html.includes('<wrong>') && !html.includes('<file>'));
  assert.ok(html.includes('&#60;wrong&#62;'));
  assert.ok(html.includes("default-src 'none'") && !html.includes('<script'));
});

test('changes are told when they are more than the spread of measurements', () => {
  assert.equal(changeText(-0.5), '▼ 50 % faster');
  assert.equal(changeText(0.01), '');
  assert.equal(changeText(null), '');
});

test('a line of latencies needs two', () => {
  assert.equal(sparkline([1]), '');
  assert.match(sparkline([1, 2, 2]), /polyline points="2\.0,33\.0 /);
  assert.ok(!sparkline([1, 1]).includes('NaN'));
});

test('an empty history says how to begin', () => assert.ok(resultsHtml([], 'a.py').includes('▶ Run')));
