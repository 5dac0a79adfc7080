// A workspace that is not trusted: kernels are checked, running them says why not and offers the way; once trusted, it runs.
// Environment: as for drive.mjs. The workspace's kernel writes EXECUTED when anybody executes its file.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { log, need, openBrowser, prepareProfile, sleep, startCodeServer } from './code-server.mjs';
import { workbench } from './workbench.mjs';

const entry = need('CODE_SERVER_ENTRY'), runDir = need('RUN_DIR'), workspace = need('WORKSPACE'), shots = need('SHOTS');
fs.mkdirSync(shots, { recursive: true });
const executed = path.join(workspace, 'EXECUTED');
fs.writeFileSync(path.join(workspace, 'marked.py'), fs.readFileSync(path.join(workspace, 'matmul.py'), 'utf8')
  .replace('import tilelang\n', 'import pathlib\n\nimport tilelang\n').replace('import tilelang.language as T\n', `import tilelang.language as T\n\npathlib.Path(__file__).with_name("EXECUTED").touch()\nbuffer = T.alloc_sharde\n`));
prepareProfile({ entry, runDir, vsix: need('VSIX'), machineSettings: { 'tile-lsp.serverCommand': JSON.parse(process.env.SERVER_CMD) },
  userSettings: { 'tile-lsp.runTarget': 'cpu', 'security.workspace.trust.enabled': true, 'security.workspace.trust.startupPrompt': 'always' } });
const server = await startCodeServer({ entry, runDir, trust: true });
let b, failed;
try {
  b = await openBrowser();
  const { page } = b, { editor, open, click, lens, toast } = workbench(page);
  await page.goto(`${server.url}?folder=${encodeURIComponent(workspace)}`);

  // 1. the question when the folder is opened, answered with no
  const dialog = page.locator('.monaco-dialog-box', { hasText: 'trust the authors' });
  await dialog.waitFor({ timeout: 90000 });
  await sleep(500);
  await page.screenshot({ path: path.join(shots, '9-trust-question.png') });
  await dialog.getByRole('button', { name: /No, I don.t trust/ }).click();
  await dialog.waitFor({ state: 'hidden' });
  log('not trusted');

  // 2. checking works
  await open('marked.py');
  await lens('▶ Run').waitFor({ timeout: 60000 });
  await editor.locator('.squiggly-error').first().waitFor();
  log('checked: the fault is underlined');

  // 3. running does not, and says so
  await click(lens('▶ Run'));
  const refusal = toast('not trusted');
  await refusal.waitFor();
  assert.match(await refusal.innerText(), /Running a kernel executes code of this workspace/);
  await sleep(700);
  await page.screenshot({ path: path.join(shots, '10-untrusted.png') });
  assert.ok(!fs.existsSync(executed), 'code of a workspace that is not trusted was executed');
  assert.equal(await lens(/✓|✗/).count(), 0);
  log('refused: ' + JSON.stringify((await refusal.innerText()).split('\n')[0]));

  // 4. the way out: trust the folder, then it runs
  await refusal.getByRole('button', { name: 'Manage Workspace Trust' }).click();
  const page2 = page.locator('.workspace-trust-editor');
  await page2.waitFor();
  await page2.getByRole('button', { name: 'Trust', exact: true }).click();
  await page2.getByText('You trust this folder').first().waitFor();
  log('trusted');
  await page.keyboard.press('Control+w');
  await open('matmul.py');
  await lens('▶ Run').waitFor({ timeout: 60000 });
  await click(lens('▶ Run'));
  await lens(/✓ max err .* ms · .*cpu/).waitFor({ timeout: 180000 });
  log('PASS: runs once it is trusted');
} catch (e) {
  failed = true;
  console.error(e);
  await b?.page.screenshot({ path: path.join(shots, 'failure-trust.png') }).catch(() => {});
} finally {
  if (b) fs.writeFileSync(path.join(runDir, 'console.log'), b.consoleLines.join('\n'));
  await b?.browser.close();
  await server.stop();
}
process.exit(failed ? 1 : 0);
