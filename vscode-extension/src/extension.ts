// Starts the server and adds what the protocol cannot: lowered code beside the source, results, pickers, trust, installing.
import * as vscode from 'vscode';
import { LanguageClient, State } from 'vscode-languageclient/node';
import { kernelAt, kernelsOf } from './kernels';
import { LoweredDocuments } from './lowered';
import { ResultsView } from './results';
import { findServer, install, offerToInstall, selectedInterpreter } from './server';
import { StatusBar } from './status';

const SHOW_LOWERED = 'tile-lsp.showLowered', RUN = 'tile-lsp.run', COMPARE = 'tile-lsp.compare';
const STAGES: [string, string][] = [
  ['tile', 'the tile program: what the front end understood'], ['legalized', 'after LowerAndLegalize'], ['thread', 'what one thread does'],
  ['host', 'the host module'], ['device', 'the device module'], ['cuda', 'CUDA source'], ['ptx', 'PTX, by nvcc'], ['sass', 'machine code, by nvcc and cuobjdump'],
];
const ORACLES: [string, string][] = [['interpreter', 'the tile interpreter: slow, independent of the compiler'], ['reference', 'the reference function of this file'], ['tilelang', "the project's own TileLang, in its interpreter"]];

let client: LanguageClient | undefined;
let log: vscode.LogOutputChannel;
let language: vscode.LanguageStatusItem;
let storage: string;
let results: ResultsView;
let statusBar: StatusBar;
let starting: Promise<void> | undefined;

/** What other extensions and the tests may look at. */
export interface Api {
  lowered: LoweredDocuments;
  results: ResultsView;
  running: () => boolean;
}

export async function activate(context: vscode.ExtensionContext): Promise<Api> {
  storage = context.globalStorageUri.fsPath;
  log = vscode.window.createOutputChannel('Tile LSP', { log: true });
  language = vscode.languages.createLanguageStatusItem('tile-lsp', { language: 'python' });
  language.name = 'Tile LSP';
  language.command = { title: 'Show Log', command: 'tile-lsp.showLog' };
  const lowered = new LoweredDocuments(() => client);
  results = new ResultsView(() => client);
  statusBar = new StatusBar(() => client, language);
  const on = (name: string, does: () => unknown) => vscode.commands.registerCommand(name, does);
  context.subscriptions.push(
    log, language, lowered, results, statusBar,
    vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration('tile-lsp.serverCommand') && restart()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => (client ? undefined : restart())),
    on('tile-lsp.restart', restart),
    on('tile-lsp.install', async () => { if (await install(storage, log)) await restart(); }),
    on('tile-lsp.showLog', () => log.show()),
    on('tile-lsp.showLoweredHere', () => here(SHOW_LOWERED)),
    on('tile-lsp.showStageHere', async () => {
      const chosen = await vscode.window.showQuickPick(STAGES.map(([label, description]) => ({ label, description })), { title: 'Stage of the lowered code' });
      if (chosen) await here(SHOW_LOWERED, { stage: chosen.label });
    }),
    on('tile-lsp.runHere', () => here(RUN)),
    on('tile-lsp.compareHere', async () => {
      const chosen = await vscode.window.showQuickPick(ORACLES.map(([label, description]) => ({ label, description })), { title: 'Compare the kernel with' });
      if (chosen) await here(COMPARE, { against: chosen.label });
    }),
  );
  starting = start(lowered);
  await starting;
  return { lowered, results, running: () => client?.isRunning() ?? false };

  async function restart(): Promise<void> {
    await starting;
    await client?.stop().catch(() => undefined);
    client = undefined;
    starting = start(lowered);
    await starting;
  }
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function start(lowered: LoweredDocuments): Promise<void> {
  const server = await findServer(storage);
  if (!server) {
    showState(State.Stopped);
    log.warn('no server was found');
    // Not awaited: the answer may come much later, or never.
    void offerToInstall(storage, log).then((installed) => installed && vscode.commands.executeCommand('tile-lsp.restart'));
    return;
  }
  log.info(`starting ${[server.command, ...server.args].join(' ')} (from ${server.how})`);
  const interpreter = await selectedInterpreter();
  client = new LanguageClient('tile-lsp', 'Tile LSP', { command: server.command, args: server.args }, {
    documentSelector: [{ scheme: 'file', language: 'python' }, { scheme: 'vscode-notebook-cell', language: 'python' }, { scheme: 'untitled', language: 'python' }],
    outputChannel: log,
    synchronize: { configurationSection: 'tile-lsp' },
    initializationOptions: { interpreter, virtualDocuments: true, diagnosticMode: 'push' },
    markdown: { isTrusted: { enabledCommands: [SHOW_LOWERED] } },
    middleware: {
      executeCommand: async (command, args, next) => {
        if ((command === RUN || command === COMPARE) && !(await trusted())) return undefined;
        const result = await next(command, args);
        if (command === SHOW_LOWERED && result?.uri) await lowered.show(result.uri, result.line ?? 1);
        statusBar.soon();
        return result;
      },
      workspace: {
        configuration: async (params, token, next) => {
          const values = await next(params, token);
          return Array.isArray(values) ? values.map((v) => (v && typeof v === 'object' ? { ...v, interpreter: interpreter ?? '' } : v)) : values;
        },
      },
    },
  });
  client.onDidChangeState(({ newState }) => showState(newState));
  client.onNotification('tile-lsp/ran', () => void results.update());
  client.onNotification('tile-lsp/chosen', ({ uri }: { uri: string }) => lowered.refresh(uri));
  try {
    await client.start();
    statusBar.soon();
  } catch (error) {
    client = undefined;
    showState(State.Stopped);
    log.error(String(error));
    void vscode.window.showErrorMessage(`The tile-lsp server did not start: ${server.command} (from ${server.how}).`, 'Show Log', 'Install').then(async (choice) => {
      if (choice === 'Show Log') log.show();
      if (choice === 'Install') await vscode.commands.executeCommand('tile-lsp.install');
    });
  }
}

/** Running a kernel executes code of the workspace; checking and lowering do not. */
async function trusted(): Promise<boolean> {
  if (vscode.workspace.isTrusted) return true;
  const choice = await vscode.window.showWarningMessage('Running a kernel executes code of this workspace, which is not trusted. Checking and lowered code work without.', 'Manage Workspace Trust');
  if (choice) await vscode.commands.executeCommand('workbench.trust.manage');
  return false;
}

function showState(state: State): void {
  language.text = state === State.Running ? 'Tile LSP' : state === State.Starting ? 'Tile LSP: starting' : 'Tile LSP: stopped';
  language.severity = state === State.Stopped ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
}

/** A command about the kernel under the cursor. */
async function here(command: string, more: Record<string, unknown> = {}): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return;
  const line = editor.selection.active.line;
  const kernel = kernelAt(await kernelsOf(client, editor.document), line);
  if (!kernel) {
    void vscode.window.showInformationMessage('There is no TileLang kernel at the cursor.');
    return;
  }
  await vscode.commands.executeCommand(command, { uri: editor.document.uri.toString(), kernel: kernel.kernel, line: line + 1, ...more });
}
