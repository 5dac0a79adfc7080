// Finding the server in this window, and offering to install it where there is none.
import { spawn } from 'node:child_process';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { findCommand, ServerCommand } from './serverCommand';

const configuration = () => vscode.workspace.getConfiguration('tile-lsp');

/** What the Python extension has selected; nothing where it is not installed. */
export async function selectedInterpreter(): Promise<string | undefined> {
  const python = vscode.extensions.getExtension('ms-python.python');
  if (python) {
    try {
      const api = python.isActive ? python.exports : await python.activate();
      const active = api?.environments?.getActiveEnvironmentPath?.();
      const found = active && (await api.environments.resolveEnvironment(active));
      if (found?.executable?.uri) return found.executable.uri.fsPath;
    } catch {
      // a Python extension without that interface
    }
  }
  return vscode.workspace.getConfiguration('python').get<string>('defaultInterpreterPath')?.replace(/^python3?$/, '') || undefined;
}

export async function findServer(storage: string): Promise<ServerCommand | undefined> {
  return findCommand({
    setting: configuration().get<string[]>('serverCommand') ?? [],
    interpreter: await selectedInterpreter(),
    folders: (vscode.workspace.workspaceFolders ?? []).map((f) => f.uri.fsPath),
    trusted: vscode.workspace.isTrusted,
    env: process.env,
    platform: process.platform,
    own: environment(storage),
  });
}

const environment = (storage: string) => path.join(storage, 'server');

/** Ask what to do about a missing server. True when there is one now. */
export async function offerToInstall(storage: string, log: vscode.LogOutputChannel): Promise<boolean> {
  const setting = configuration().get<string[]>('serverCommand') ?? [];
  const why = setting.length
    ? `The language server was not found: tile-lsp.serverCommand is ${JSON.stringify(setting[0])}.`
    : 'The TileLang language server (tile-lsp) is not installed in the selected Python environment, the workspace or on PATH.';
  const choice = await vscode.window.showWarningMessage(why, 'Install', 'Settings', 'Log');
  if (choice === 'Install') return install(storage, log);
  if (choice === 'Settings') await vscode.commands.executeCommand('workbench.action.openSettings', 'tile-lsp.serverCommand');
  if (choice === 'Log') log.show();
  return false;
}

/** Install the server, into an environment of its own or beside the selected Python. */
export async function install(storage: string, log: vscode.LogOutputChannel): Promise<boolean> {
  const interpreter = await selectedInterpreter();
  const own = { label: 'In an environment of its own', detail: 'Recommended: nothing of yours is touched.', python: interpreter ?? (process.platform === 'win32' ? 'python' : 'python3'), own: true };
  const beside = interpreter ? [{ label: 'Into the selected Python environment', detail: interpreter, python: interpreter, own: false }] : [];
  const chosen = await vscode.window.showQuickPick([own, ...beside], { title: 'Install the TileLang language server', placeHolder: 'Where?' });
  if (!chosen) return false;
  const packages = configuration().get<string>('installPackage') || 'tilec[compile,run]';
  const target = environment(storage);
  const python = chosen.own ? path.join(target, process.platform === 'win32' ? 'Scripts' : 'bin', process.platform === 'win32' ? 'python.exe' : 'python') : chosen.python;
  try {
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title: 'Installing tile-lsp', cancellable: true }, async (progress, token) => {
      if (chosen.own) {
        progress.report({ message: 'making an environment' });
        await run(chosen.python, ['-m', 'venv', target], log, token);
      }
      progress.report({ message: `pip install ${packages}` });
      await run(python, ['-m', 'pip', 'install', '--disable-pip-version-check', '--upgrade', packages], log, token);
    });
    return true;
  } catch (error) {
    log.error(String(error));
    const choice = await vscode.window.showErrorMessage(`tile-lsp could not be installed: ${error instanceof Error ? error.message : error}`, 'Show Log');
    if (choice === 'Show Log') log.show();
    return false;
  }
}

function run(command: string, args: string[], log: vscode.LogOutputChannel, token: vscode.CancellationToken): Promise<void> {
  return new Promise((resolve, reject) => {
    log.info(`${command} ${args.join(' ')}`);
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let last = '';
    const note = (chunk: Buffer) => {
      for (const line of chunk.toString().split(/\r?\n/).filter((t) => t.trim())) log.info((last = line));
    };
    child.stdout.on('data', note);
    child.stderr.on('data', note);
    token.onCancellationRequested(() => child.kill());
    child.once('error', (error) => reject(new Error(`${command} could not be started (${error.message})`)));
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(token.isCancellationRequested ? 'cancelled' : `${path.basename(command)} ended with ${code}: ${last}`))));
  });
}
