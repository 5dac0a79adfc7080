// A machine without the server: it is offered to install it, the offer is accepted, the faults of the open file appear.
// Environment: as for drive.mjs; ENVIRONMENT_PYTHON: the Python of the environment it goes into (without the server);
// INSTALL: what to install; PIP_FIND_LINKS and PIP_NO_INDEX reach pip. Nothing is fetched from anywhere else.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { log, need, openBrowser, prepareProfile, sleep, startCodeServer } from './code-server.mjs';
import { workbench } from './workbench.mjs';

const entry = need('CODE_SERVER_ENTRY'), runDir = need('RUN_DIR'), workspace = need('WORKSPACE'), shots = need('SHOTS'), python = need('ENVIRONMENT_PYTHON');
fs.mkdirSync(shots, { recursive: true });
const program = path.join(path.dirname(python), 'tile-lsp');
assert.ok(!fs.existsSync(program), 'the environment has the server already');
prepareProfile({ entry, runDir, vsix: need('VSIX'), machineSettings: { 'tile-lsp.serverCommand': [], 'tile-lsp.installPackage': process.env.INSTALL,
  'python.defaultInterpreterPath': python }, userSettings: { 'tile-lsp.prepareRuns': false } });
const without = (process.env.PATH ?? '').split(':').filter((f) => !fs.existsSync(path.join(f, 'tile-lsp'))).join(':');
const server = await startCodeServer({ entry, runDir, env: { PATH: without } });
let b, failed;
try {
  b = await openBrowser();
  const { page } = b, { editor, open, toast } = workbench(page);
  await page.goto(`${server.url}?folder=${encodeURIComponent(workspace)}`);
  await open('faulty.py');
  const offer = toast('is not installed');
  await offer.getByRole('button', { name: 'Install' }).waitFor({ timeout: 60000 });
  assert.equal(await editor.locator('.squiggly-error').count(), 0);
  await sleep(700);
  await page.screenshot({ path: path.join(shots, '8-install.png') });
  await offer.getByRole('button', { name: 'Install' }).click();
  const rows = page.locator('.quick-input-list .monaco-list-row');
  await rows.filter({ hasText: 'In an environment of its own' }).waitFor();
  const beside = rows.filter({ hasText: 'Into the selected Python environment' });
  await beside.waitFor();
  await sleep(300);
  await page.screenshot({ path: path.join(shots, '11-install-where.png') });
  log('a missing server: offered to install, and where');
  await beside.click();
  await toast('Installing tile-lsp').waitFor({ timeout: 30000 });
  await editor.locator('.squiggly-error').first().waitFor({ timeout: 240000 });
  assert.ok(fs.existsSync(program), 'it went somewhere else');
  await sleep(700);
  await page.screenshot({ path: path.join(shots, '12-installed.png') });
  log('PASS: installed, and the fault is underlined');
} catch (e) {
  failed = true;
  console.error(e);
  await b?.page.screenshot({ path: path.join(shots, 'failure-install.png') }).catch(() => {});
} finally {
  if (b) fs.writeFileSync(path.join(runDir, 'console.log'), b.consoleLines.join('\n'));
  await b?.browser.close();
  await server.stop();
}
process.exit(failed ? 1 : 0);
