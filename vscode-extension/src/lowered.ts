// Lowered code as read-only documents with `tile-lsp:` addresses beside the source; the lines of each follow the cursor in the other.
import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';
import { loweredOf, Run, sourcesOf } from './links';

export const SCHEME = 'tile-lsp';
const REFRESH_MS = 400;

interface LoweredReply {
  text: string;
  error?: string | null;
  lines?: Run[];
}

export class LoweredDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly runs = new Map<string, Run[]>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly linked = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('editor.rangeHighlightBackground'),
    overviewRulerColor: new vscode.ThemeColor('editorOverviewRuler.rangeHighlightForeground'),
    overviewRulerLane: vscode.OverviewRulerLane.Full,
    borderColor: new vscode.ThemeColor('focusBorder'), borderStyle: 'solid', borderWidth: '0 0 0 3px',
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly client: () => LanguageClient | undefined) {
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.edited(document)),
      vscode.workspace.onDidCloseTextDocument((document) => this.runs.delete(document.uri.toString())),
      // Only where somebody moves the cursor: another text in the lowered document moves the one there as well.
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => textEditor === vscode.window.activeTextEditor && this.follow(textEditor)),
      vscode.window.onDidChangeActiveTextEditor((editor) => editor && this.follow(editor)),
      this.linked, this.changed,
    ];
  }

  dispose(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    for (const s of this.subscriptions) s.dispose();
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const client = this.client();
    if (!client) return 'The tile-lsp server is not running.';
    const reply = await client.sendRequest<LoweredReply>('tile-lsp/lowered', { uri: address(uri) });
    this.runs.set(uri.toString(), reply.error ? [] : reply.lines ?? []);
    return reply.error ? `This kernel could not be lowered.\n\n${reply.error}\n` : reply.text;
  }

  async show(target: string, line: number, column = vscode.ViewColumn.Beside): Promise<void> {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(target, true));
    const wanted = await language(document.fileName);
    if (wanted && document.languageId !== wanted) await vscode.languages.setTextDocumentLanguage(document, wanted);
    const place = new vscode.Range(line - 1, 0, line - 1, 0);
    const editor = await vscode.window.showTextDocument(document, { viewColumn: column, preserveFocus: true, preview: true, selection: place });
    editor.revealRange(place, vscode.TextEditorRevealType.AtTop);
    const source = vscode.window.visibleTextEditors.find((e) => e.document.uri.toString() === sourceOf(document.uri));
    if (source) this.follow(source);
  }

  /** The ranges highlighted in an editor now, for tests. */
  readonly highlighted = new Map<string, vscode.Range[]>();

  /** After an edit of the source: lower again what is shown of it, when the typing pauses. */
  private edited(source: vscode.TextDocument): void {
    const key = source.uri.toString();
    const active = vscode.window.activeTextEditor;
    if (source.uri.scheme === SCHEME && active?.document.uri.toString() === sourceOf(source.uri)) this.follow(active);
    if (source.uri.scheme === SCHEME || !this.made(key).length) return;
    clearTimeout(this.timers.get(key));
    this.timers.set(key, setTimeout(() => this.refresh(key), REFRESH_MS));
  }

  /** Lower again what is open of a source, in a hidden tab too. */
  refresh(source: string): void {
    this.made(vscode.Uri.parse(source, true).toString()).forEach((d) => this.changed.fire(d.uri));
  }

  private made(source: string): readonly vscode.TextDocument[] {
    return vscode.workspace.textDocuments.filter((d) => d.uri.scheme === SCHEME && sourceOf(d.uri) === source);
  }

  private shown(source: vscode.Uri): vscode.TextEditor[] {
    return vscode.window.visibleTextEditors.filter((e) => e.document.uri.scheme === SCHEME && sourceOf(e.document.uri) === source.toString());
  }

  /** Highlight in the other documents what belongs to the lines of the cursor in this one. */
  private follow(editor: vscode.TextEditor): void {
    const first = editor.selection.start.line + 1, last = editor.selection.end.line + 1;
    if (editor.document.uri.scheme === SCHEME) {
      const source = vscode.window.visibleTextEditors.find((e) => e.document.uri.toString() === sourceOf(editor.document.uri));
      const lines = sourcesOf(this.runs.get(editor.document.uri.toString()) ?? [], first, last);
      if (source) this.mark(source, lines.map((n) => [n, n]), true);
      this.mark(editor, lines.flatMap((n) => loweredOf(this.runs.get(editor.document.uri.toString()) ?? [], n, n)), false);
      return;
    }
    for (const lowered of this.shown(editor.document.uri)) {
      const ranges = loweredOf(this.runs.get(lowered.document.uri.toString()) ?? [], first, last);
      this.mark(lowered, ranges, true);
      this.mark(editor, ranges.length ? [[first, last]] : [], false);
    }
  }

  private mark(editor: vscode.TextEditor, lines: [number, number][], reveal: boolean): void {
    const ranges = lines.map(([a, b]) => new vscode.Range(a - 1, 0, b - 1, Number.MAX_SAFE_INTEGER));
    this.highlighted.set(editor.document.uri.toString(), ranges);
    editor.setDecorations(this.linked, ranges);
    if (reveal && ranges.length) editor.revealRange(ranges[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

/** The address of the source that a lowered document was made from. */
function sourceOf(uri: vscode.Uri): string {
  try {
    return vscode.Uri.parse(JSON.parse(uri.query).uri, true).toString();
  } catch {
    return '';
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
