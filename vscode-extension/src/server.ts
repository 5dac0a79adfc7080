// Finding the command that starts the server.
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as vscode from 'vscode';

const PROGRAM = process.platform === 'win32' ? 'tile-lsp.exe' : 'tile-lsp';

export interface ServerCommand {
  command: string;
  args: string[];
  interpreter?: string;
}

/** The setting, else `tile-lsp` beside the selected Python, else of the workspace's `.venv`, else of PATH. */
export async function findServer(): Promise<ServerCommand> {
  const interpreter = await selectedInterpreter();
  const [command, ...args] = vscode.workspace.getConfiguration('tile-lsp').get<string[]>('serverCommand') ?? [];
  if (command) return { command: expand(command), args, interpreter };
  const folders = (vscode.workspace.workspaceFolders ?? []).flatMap((f) =>
    ['.venv', 'venv'].map((name) => path.join(f.uri.fsPath, name, process.platform === 'win32' ? 'Scripts' : 'bin')));
  const candidates = [...(interpreter ? [path.dirname(interpreter)] : []), ...folders].map((f) => path.join(f, PROGRAM));
  return { command: candidates.find((p) => fs.existsSync(p)) ?? PROGRAM, args: ['serve'], interpreter };
}

function expand(command: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? '';
  return command.replace('${workspaceFolder}', folder).replace(/^~(?=\/|\\)/, process.env.HOME ?? '~');
}

/** What the Python extension has selected; nothing where it is not installed. */
async function selectedInterpreter(): Promise<string | undefined> {
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
