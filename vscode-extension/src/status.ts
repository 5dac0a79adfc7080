// The status bar: the instance and the target of the kernel under the cursor, each with a picker.
import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';
import { Kernel, kernelAt, kernelsOf } from './kernels';

const DELAY_MS = 150;

export class StatusBar implements vscode.Disposable {
  private readonly instance = vscode.window.createStatusBarItem('tile-lsp.instance', vscode.StatusBarAlignment.Right, 91);
  private readonly target = vscode.window.createStatusBarItem('tile-lsp.target', vscode.StatusBarAlignment.Right, 90);
  private readonly subscriptions: vscode.Disposable[];
  private timer: NodeJS.Timeout | undefined;
  private shown: Kernel | undefined;

  constructor(private readonly client: () => LanguageClient | undefined, private readonly language: vscode.LanguageStatusItem) {
    this.instance.name = 'TileLang instance';
    this.instance.command = 'tile-lsp.pickInstance';
    this.target.name = 'TileLang target';
    this.target.command = 'tile-lsp.pickTarget';
    this.subscriptions = [
      this.instance, this.target,
      vscode.window.onDidChangeActiveTextEditor(() => this.soon()),
      vscode.window.onDidChangeTextEditorSelection(() => this.soon()),
      vscode.workspace.onDidChangeTextDocument(() => this.soon()),
      vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration('tile-lsp') && this.soon()),
      vscode.commands.registerCommand('tile-lsp.pickInstance', () => this.pickInstance()),
      vscode.commands.registerCommand('tile-lsp.pickTarget', () => this.pickTarget()),
    ];
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const s of this.subscriptions) s.dispose();
  }

  soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.update(), DELAY_MS);
  }

  private async update(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (!editor || editor.document.uri.scheme === 'output' || editor.document.uri.scheme === 'tile-lsp') return;
    const kernels = await kernelsOf(this.client(), editor.document);
    void vscode.commands.executeCommand('setContext', 'tile-lsp.hasKernels', kernels.length > 0);
    const kernel = (this.shown = kernelAt(kernels, editor.selection.active.line));
    if (kernels[0]) this.language.detail = `TileLang ${kernels[0].tilelang} (${kernels[0].tilelangFrom})`;
    if (!kernel) {
      this.instance.hide();
      this.target.hide();
      return;
    }
    this.instance.text = `$(symbol-parameter) ${shorten(kernel.instance)}`;
    this.instance.tooltip = `The instance of ${kernel.name} that hovers, lowered code and runs are about. ${kernel.instances.length} known.`;
    this.target.text = `$(chip) ${kernel.target}`;
    this.target.tooltip = `The chip that ${kernel.name} is lowered for`;
    this.instance.show();
    this.target.show();
  }

  private async pickInstance(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const kernel = this.shown;
    if (!editor || !kernel) return;
    const items = kernel.instances.map((text) => ({ label: text, description: text === kernel.instance ? 'shown now' : '' }));
    const chosen = await vscode.window.showQuickPick(items, { title: `Instance of ${kernel.name}`, placeHolder: 'The arguments that hovers, lowered code and runs are about' });
    if (!chosen) return;
    await vscode.commands.executeCommand('tile-lsp.chooseInstance', { uri: editor.document.uri.toString(), kernel: kernel.kernel, text: chosen.label });
    this.soon();
  }

  private async pickTarget(): Promise<void> {
    const known = (await this.client()?.sendRequest<{ name: string; description: string }[]>('tile-lsp/targets')) ?? [];
    const items = [{ label: 'automatic', description: "the kernel's own, else one that fits" }, ...known.map((t) => ({ label: t.name, description: t.description }))];
    const chosen = await vscode.window.showQuickPick(items, { title: 'Target of lowered code', matchOnDescription: true });
    if (!chosen) return;
    const scope = vscode.workspace.workspaceFolders ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
    await vscode.workspace.getConfiguration('tile-lsp').update('target', chosen.label === 'automatic' ? '' : chosen.label, scope);
  }
}

const shorten = (text: string) => (text.length <= 48 ? text : `${text.slice(0, 45)}…`);
