import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findCommand, Surroundings } from '../src/serverCommand';

const around = (files: string[], more: Partial<Surroundings> = {}): Surroundings =>
  ({ setting: [], folders: ['/w'], trusted: true, env: { PATH: '/usr/bin:/opt/bin', HOME: '/home/u' }, platform: 'linux', own: '/store/server', exists: (f) => files.includes(f), ...more });

test('the setting comes first and must exist', () => {
  const all = ['/w/.venv/bin/tile-lsp', '/home/u/bin/tile-lsp', '/opt/bin/tile-lsp'];
  assert.deepEqual(findCommand(around(all, { setting: ['~/bin/tile-lsp', 'serve', '--log-level', 'info'] })),
    { command: '/home/u/bin/tile-lsp', args: ['serve', '--log-level', 'info'], how: 'the setting tile-lsp.serverCommand' });
  assert.equal(findCommand(around(all, { setting: ['/nowhere/tile-lsp'] })), undefined);
  assert.equal(findCommand(around(all, { setting: ['tile-lsp', 'serve'] }))?.command, '/opt/bin/tile-lsp');
  assert.equal(findCommand(around(all, { setting: ['${workspaceFolder}/.venv/bin/tile-lsp'] }))?.command, '/w/.venv/bin/tile-lsp');
});

test('the selected Python, the workspace, PATH, our own', () => {
  const all = ['/py/bin/tile-lsp', '/w/.venv/bin/tile-lsp', '/opt/bin/tile-lsp', '/store/server/bin/tile-lsp'];
  assert.equal(findCommand(around(all, { interpreter: '/py/bin/python' }))?.command, all[0]);
  assert.equal(findCommand(around(all.slice(1), { interpreter: '/py/bin/python' }))?.command, all[1]);
  assert.equal(findCommand(around(all.slice(2)))?.command, all[2]);
  assert.equal(findCommand(around(all.slice(3)))?.command, all[3]);
  assert.equal(findCommand(around([])), undefined);
});

test('nothing of an untrusted workspace is started', () => {
  const own = ['/w/.venv/bin/tile-lsp', '/w/venv/bin/tile-lsp'];
  assert.equal(findCommand(around(own, { trusted: false, interpreter: '/w/.venv/bin/python' })), undefined);
  assert.equal(findCommand(around(own, { interpreter: '/w/.venv/bin/python' }))?.command, own[0]);
});

test('Windows names', () => {
  const found = findCommand(around(['C:\\b/tile-lsp.exe'], { platform: 'win32', env: { Path: 'C:\\a;C:\\b' } }));
  assert.equal(found?.command, 'C:\\b/tile-lsp.exe');
});
