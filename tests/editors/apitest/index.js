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
  await vscode.window.showTextDocument(doc, vscode.ViewColumn.One);
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
    const actions = await vscode.commands.executeCommand('vscode.executeCodeActionProvider', doc.uri, d.range, vscode.CodeActionKind.QuickFix.value, 5);
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
  async 'the cursor is followed in the lowered code, and back'() {
    const { lowered } = vscode.extensions.getExtension('tilec.tile-lsp').exports;
    const doc = await open('matmul.py');
    const source = await vscode.window.showTextDocument(doc, vscode.ViewColumn.One);
    const shown = vscode.window.visibleTextEditors.find((e) => e.document.uri.scheme === 'tile-lsp');
    assert.ok(shown);
    const line = doc.positionAt(doc.getText().indexOf('T.gemm')).line;
    source.selection = new vscode.Selection(line, 20, line, 20);
    const ranges = await until('lines of the CUDA', () => { const r = lowered.highlighted.get(shown.document.uri.toString()); return r?.length && r; });
    const text = ranges.map((r) => shown.document.getText(shown.document.validateRange(r))).join('\n');
    assert.match(text, /mma/);
    const beside = await vscode.window.showTextDocument(shown.document, vscode.ViewColumn.Two);
    const at = ranges[0].start.line;
    lowered.highlighted.delete(doc.uri.toString());
    beside.selection = new vscode.Selection(at, 0, at, 0);
    const back = await until('the line of the source', () => { const r = lowered.highlighted.get(doc.uri.toString()); return r?.length && r; });
    assert.deepEqual(back.map((r) => r.start.line), [line]);
  },
  async 'an edit changes the lowered code that is shown'() {
    const doc = await open('matmul.py');
    const shown = vscode.workspace.textDocuments.find((d) => d.uri.scheme === 'tile-lsp');
    const before = shown.getText();
    const edit = new vscode.WorkspaceEdit();
    const at = doc.positionAt(doc.getText().indexOf('block_K=32'));
    edit.replace(doc.uri, new vscode.Range(at, at.translate(0, 10)), 'block_K=64');
    await vscode.workspace.applyEdit(edit);
    await until('another text', () => shown.getText() !== before, 20000);
    await vscode.window.showTextDocument(doc, vscode.ViewColumn.One);
    await vscode.commands.executeCommand('undo');
    await until('the text before the edit', () => shown.getText() === before, 20000);
  },
  async 'results of runs are kept and shown'() {
    const { results } = vscode.extensions.getExtension('tilec.tile-lsp').exports;
    await open('matmul.py');
    await results.update();
    assert.match(results.html, /✓ matmul\(128, 128, 128\)/);
    assert.match(results.html, /max error/);
  },
  async 'the instance and the target can be chosen'() {
    const doc = await open('gemm.py');
    const reply = await vscode.commands.executeCommand('tile-lsp.chooseInstance', { uri: doc.uri.toString(), kernel: 'gemm' });
    assert.equal(reply.instances.length, 2);
    assert.equal(reply.instance, reply.instances[1]);
    await until('the lens', async () => (await lenses(doc)).some((l) => l.command?.title.includes('2 of 2')));
    await vscode.workspace.getConfiguration('tile-lsp').update('target', 'sm_80', vscode.ConfigurationTarget.Workspace);
    const shown = await until('CUDA for sm_80', async () => {
      const found = await vscode.commands.executeCommand('tile-lsp.showLowered', { uri: doc.uri.toString(), kernel: 'gemm' });
      return found?.target === 'sm_80' && found;
    });
    assert.match(shown.text, /__global__/);
    await vscode.workspace.getConfiguration('tile-lsp').update('target', undefined, vscode.ConfigurationTarget.Workspace);
  },
  async 'completion, definition, rename, hints and tokens reach the editor'() {
    const doc = await open('matmul.py');
    const place = (text, offset) => doc.positionAt(doc.getText().indexOf(text) + offset);
    const items = await vscode.commands.executeCommand('vscode.executeCompletionItemProvider', doc.uri, place('T.clear', 2), '.');
    assert.ok(items.items.some((i) => (i.label.label ?? i.label) === 'gemm'));
    const defined = await vscode.commands.executeCommand('vscode.executeDefinitionProvider', doc.uri, place('A_shared, B_shared', 2));
    assert.equal((defined[0].range ?? defined[0].targetRange).start.line, place('A_shared = ', 0).line);
    const edit = await vscode.commands.executeCommand('vscode.executeDocumentRenameProvider', doc.uri, place('C_local', 1), 'acc');
    assert.equal(edit.get(doc.uri).length, 4);
    const hints = await vscode.commands.executeCommand('vscode.executeInlayHintProvider', doc.uri, new vscode.Range(0, 0, doc.lineCount, 0));
    assert.ok(hints.length >= 6);
    const tokens = await vscode.commands.executeCommand('vscode.provideDocumentSemanticTokens', doc.uri);
    assert.ok(tokens.data.length > 50);
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
