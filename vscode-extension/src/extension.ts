// Starts the server and adds what the protocol cannot: lowered code beside the source, a status item, the log.
import * as vscode from 'vscode';
import { LanguageClient, State } from 'vscode-languageclient/node';
import { LoweredDocuments, SCHEME } from './lowered';
import { findServer } from './server';

const SHOW_LOWERED = 'tile-lsp.showLowered';
const SETTINGS = ['target', 'runTarget', 'tilelangVersion', 'select', 'ignore', 'severities', 'loweredInHover', 'runTimeout'];

let client: LanguageClient | undefined;
let log: vscode.LogOutputChannel;
let status: vscode.LanguageStatusItem;
const lowered = new LoweredDocuments(() => client);

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel('Tile LSP', { log: true });
  status = vscode.languages.createLanguageStatusItem('tile-lsp', { language: 'python' });
  status.name = 'Tile LSP';
  status.command = { title: 'Show Log', command: 'tile-lsp.showLog' };
  context.subscriptions.push(
    log, status,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, lowered),
    vscode.workspace.onDidSaveTextDocument((document) => lowered.refresh(document.uri)),
    vscode.workspace.onDidChangeConfiguration(onConfiguration),
    vscode.commands.registerCommand('tile-lsp.restart', restart),
    vscode.commands.registerCommand('tile-lsp.showLog', () => log.show()),
    vscode.commands.registerCommand('tile-lsp.showLoweredHere', () => here(SHOW_LOWERED)),
    vscode.commands.registerCommand('tile-lsp.runHere', () => here('tile-lsp.run')),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function start(): Promise<void> {
  const server = await findServer();
  log.info(`starting ${[server.command, ...server.args].join(' ')}`);
  client = new LanguageClient('tile-lsp', 'Tile LSP', { command: server.command, args: server.args }, {
    documentSelector: [{ scheme: 'file', language: 'python' }],
    outputChannel: log,
    initializationOptions: { ...settings(), interpreter: server.interpreter, virtualDocuments: true },
    markdown: { isTrusted: { enabledCommands: [SHOW_LOWERED] } },
    middleware: {
      executeCommand: async (command, args, next) => {
        const result = await next(command, args);
        if (command === SHOW_LOWERED && result?.uri) await lowered.show(result.uri, result.line ?? 1);
        return result;
      },
    },
  });
  client.onDidChangeState(({ newState }) => showState(newState));
  try {
    await client.start();
  } catch (error) {
    showState(State.Stopped);
    log.error(String(error));
    const choice = await vscode.window.showErrorMessage(
      `The tile-lsp server did not start: ${server.command}. Install it with pip install "tilec[compile,run]" or set tile-lsp.serverCommand.`, 'Show Log', 'Open Settings');
    if (choice === 'Show Log') log.show();
    if (choice === 'Open Settings') await vscode.commands.executeCommand('workbench.action.openSettings', 'tile-lsp.serverCommand');
  }
}

async function restart(): Promise<void> {
  await client?.stop().catch(() => undefined);
  await start();
}

function showState(state: State): void {
  status.text = state === State.Running ? 'Tile LSP' : state === State.Starting ? 'Tile LSP: starting' : 'Tile LSP: stopped';
  status.severity = state === State.Stopped ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
}

function settings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration('tile-lsp');
  return Object.fromEntries(SETTINGS.map((name) => [name, configuration.get(name)]));
}

async function onConfiguration(event: vscode.ConfigurationChangeEvent): Promise<void> {
  if (event.affectsConfiguration('tile-lsp.serverCommand')) await restart();
  else if (event.affectsConfiguration('tile-lsp')) await client?.sendNotification('workspace/didChangeConfiguration', { settings: { 'tile-lsp': settings() } });
}

/** A command about the kernel under the cursor. */
async function here(command: string): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return;
  await vscode.commands.executeCommand(command, { uri: editor.document.uri.toString(), line: editor.selection.active.line + 1 });
}
