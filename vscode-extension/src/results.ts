// The results view: every run of the active file's kernels with its history.
import * as path from 'node:path';
import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';
import { Result, resultsHtml } from './resultsHtml';

export class ResultsView implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | undefined;
  private source: vscode.Uri | undefined;
  private readonly subscriptions: vscode.Disposable[];
  /** What is shown, for tests. */
  html = '';

  constructor(private readonly client: () => LanguageClient | undefined) {
    this.subscriptions = [
      vscode.window.registerWebviewViewProvider('tile-lsp.results', this),
      vscode.window.onDidChangeActiveTextEditor(() => void this.update()),
      vscode.commands.registerCommand('tile-lsp.showResults', () => vscode.commands.executeCommand('tile-lsp.results.focus')),
      vscode.commands.registerCommand('tile-lsp.clearResultsHere', () => this.clear()),
    ];
  }

  dispose(): void {
    for (const s of this.subscriptions) s.dispose();
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    view.webview.options = { enableScripts: false };
    view.onDidDispose(() => (this.view = undefined));
    view.onDidChangeVisibility(() => void this.update());
    void this.update();
  }

  async update(): Promise<void> {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId === 'python' && document.uri.scheme !== 'tile-lsp') this.source = document.uri;
    const client = this.client();
    if (!this.source || !client?.isRunning()) return;
    const results = (await client.sendRequest<Result[]>('tile-lsp/results', { uri: client.code2ProtocolConverter.asUri(this.source) }).catch(() => [])) ?? [];
    this.html = resultsHtml(results, path.basename(this.source.fsPath));
    if (this.view?.visible) this.view.webview.html = this.html;
  }

  private async clear(): Promise<void> {
    if (!this.source) return;
    await vscode.commands.executeCommand('tile-lsp.clearResults', { uri: this.source.toString() });
    await this.update();
  }
}
