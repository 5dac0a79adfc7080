// Runs inside the real extension host with the real `vscode` API. VS Code calls run(): resolve = pass, reject = fail.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const vscode = require('vscode');

const until = async (what, fn, ms = 30000) => {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((r) => setTimeout(r, 100))) {
    const v = await fn();
    if (v) return v;
  }
  throw new Error('timed out waiting for ' + what);
};
const open = async (name) => {
  const folder = vscode.workspace.workspaceFolders[0].uri;
  const doc = await vscode.workspace.openTextDocument(vscode.Uri.joinPath(folder, name));
  await vscode.window.showTextDocument(doc);
  return doc;
};
const lenses = async (doc) => (await vscode.commands.executeCommand('vscode.executeCodeLensProvider', doc.uri)) ?? [];

const tests = {
  async 'the extension is installed and activates'() {
    const ext = vscode.extensions.getExtension('tilec.tile-lsp');
    assert.ok(ext);
    await ext.activate();
    assert.ok(ext.isActive);
  },
  async 'diagnostics, and a quick fix that clears them'() {
    const doc = await open('faulty.py');
    const [d] = await until('diagnostics', () => { const l = vscode.languages.getDiagnostics(doc.uri); return l.length && l; });
    assert.equal(d.source, 'tile-lsp');
    assert.equal(d.code.value, 'TL101');
    assert.equal(doc.getText(d.range), 'T.Paralel');
    const actions = await vscode.commands.executeCommand('vscode.executeCodeActionProvider', doc.uri, d.range);
    const fix = actions.find((a) => a.edit);
    assert.ok(fix, JSON.stringify(actions.map((a) => a.title)));
    await vscode.workspace.applyEdit(fix.edit);
    await until('no diagnostics', () => vscode.languages.getDiagnostics(doc.uri).length === 0);
    await vscode.commands.executeCommand('undo');
  },
  async 'hover shows the CUDA of the line'() {
    const doc = await open('matmul.py');
    const at = doc.positionAt(doc.getText().indexOf('T.gemm') + 3);
    const text = await until('CUDA', async () => {
      const hovers = await vscode.commands.executeCommand('vscode.executeHoverProvider', doc.uri, at);
      const joined = hovers.flatMap((h) => h.contents.map((c) => c.value ?? c)).join('\n');
      return joined.includes('**CUDA**') && joined;
    }, 60000);
    assert.match(text, /lowers to/);
    assert.match(text, /mma/);
  },
  async 'the CUDA lens opens a read-only document'() {
    const doc = await open('matmul.py');
    const found = await until('lenses', async () => (await lenses(doc)).find((l) => l.command?.title === 'CUDA'));
    const reply = await vscode.commands.executeCommand(found.command.command, ...found.command.arguments);
    assert.match(reply.uri, /^tile-lsp:/);
    const shown = await until('the document', () => vscode.workspace.textDocuments.find((d) => d.uri.scheme === 'tile-lsp'));
    assert.match(shown.getText(), /__global__/);
    assert.ok(vscode.window.visibleTextEditors.some((e) => e.document === shown && e.viewColumn === vscode.ViewColumn.Two));
  },
  async 'the run lens runs, and shows the result'() {
    const doc = await open('matmul.py');
    const found = await until('lenses', async () => (await lenses(doc)).find((l) => l.command?.title === '▶ Run'));
    const reply = await vscode.commands.executeCommand(found.command.command, ...found.command.arguments);
    assert.equal(reply.ok, true, JSON.stringify(reply));
    const titles = (await lenses(doc)).map((l) => l.command?.title ?? '');
    assert.ok(titles.some((t) => /^✓ max err .* ms · .*cpu$/.test(t)), JSON.stringify(titles));
  },
};

exports.run = async function () {
  const result = { vscode: vscode.version, node: process.version, passed: [], failed: [] };
  for (const [name, fn] of Object.entries(tests)) {
    try { await fn(); result.passed.push(name); } catch (e) { result.failed.push(`${name}: ${e.stack}`); }
  }
  if (process.env.API_TEST_RESULT) fs.writeFileSync(process.env.API_TEST_RESULT, JSON.stringify(result, null, 1));
  if (result.failed.length) throw new Error(result.failed.join('\n'));
};
