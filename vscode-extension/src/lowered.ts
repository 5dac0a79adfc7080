// Lowered code as read-only documents with `tile-lsp:` addresses, shown beside the source.
import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';

export const SCHEME = 'tile-lsp';

interface LoweredReply {
  text: string;
  error?: string | null;
}

export class LoweredDocuments implements vscode.TextDocumentContentProvider {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;

  constructor(private readonly client: () => LanguageClient | undefined) {}

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const client = this.client();
    if (!client) return 'The tile-lsp server is not running.';
    const reply = await client.sendRequest<LoweredReply>('tile-lsp/lowered', { uri: address(uri) });
    return reply.error ? `This kernel could not be lowered.\n\n${reply.error}\n` : reply.text;
  }

  /** After the source was saved: lower again what is shown of it. */
  refresh(source: vscode.Uri): void {
    for (const document of vscode.workspace.textDocuments) {
      if (document.uri.scheme === SCHEME && document.uri.query.includes(JSON.stringify(source.toString()))) this.changed.fire(document.uri);
    }
  }

  async show(target: string, line: number): Promise<void> {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(target, true));
    const wanted = await language(document.fileName);
    if (wanted && document.languageId !== wanted) await vscode.languages.setTextDocumentLanguage(document, wanted);
    const place = new vscode.Range(line - 1, 0, line - 1, 0);
    const editor = await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true, preview: true, selection: place });
    editor.revealRange(place, vscode.TextEditorRevealType.AtTop);
  }
}

/** The address as the server wrote it: VS Code keeps the decoded parts. */
function address(uri: vscode.Uri): string {
  return `${SCHEME}:${uri.path.split('/').map(encodeURIComponent).join('/')}?${encodeURIComponent(uri.query)}`;
}

async function language(file: string): Promise<string | undefined> {
  const known = await vscode.languages.getLanguages();
  const wanted = file.endsWith('.cu') ? ['cuda-cpp', 'cpp'] : file.endsWith('.py') ? ['python'] : [];
  return wanted.find((name) => known.includes(name));
}
