// Where the command that starts the server is looked for. No `vscode` here: unit tests run this alone.
import * as fs from 'node:fs';
import * as path from 'node:path';

export interface Surroundings {
  /** The setting tile-lsp.serverCommand. */
  setting: readonly string[];
  interpreter?: string;
  folders: readonly string[];
  /** Whether programs inside the workspace may be started. */
  trusted: boolean;
  env: NodeJS.ProcessEnv;
  platform: NodeJS.Platform;
  /** Where this extension installs a server of its own. */
  own?: string;
  exists?: (file: string) => boolean;
}

export interface ServerCommand {
  command: string;
  args: string[];
  /** Where it was found, in words. */
  how: string;
}

/** The setting, else beside the selected Python, else in a virtual environment of the workspace, else on PATH, else our own. */
export function findCommand(s: Surroundings): ServerCommand | undefined {
  const exists = s.exists ?? isFile;
  const program = s.platform === 'win32' ? 'tile-lsp.exe' : 'tile-lsp';
  const scripts = s.platform === 'win32' ? 'Scripts' : 'bin';
  const [command, ...args] = s.setting;
  if (command) {
    const full = expand(command, s);
    const found = /[\\/]/.test(full) ? (exists(full) ? full : undefined) : onPath(full, s, exists);
    return found ? { command: found, args, how: 'the setting tile-lsp.serverCommand' } : undefined;
  }
  const candidates: [string, string][] = [];
  if (s.interpreter && (s.trusted || !s.folders.some((f) => inside(s.interpreter!, f)))) candidates.push([path.join(path.dirname(s.interpreter), program), 'the selected Python']);
  if (s.trusted) for (const f of s.folders) for (const name of ['.venv', 'venv']) candidates.push([path.join(f, name, scripts, program), `the environment ${name} of the workspace`]);
  for (const [file, how] of candidates) if (exists(file)) return { command: file, args: ['serve'], how };
  const found = onPath(program, s, exists);
  if (found) return { command: found, args: ['serve'], how: 'PATH' };
  const own = s.own && path.join(s.own, scripts, program);
  return own && exists(own) ? { command: own, args: ['serve'], how: 'the environment this extension made' } : undefined;
}

function onPath(program: string, s: Surroundings, exists: (file: string) => boolean): string | undefined {
  const separator = s.platform === 'win32' ? ';' : ':';
  const names = s.platform === 'win32' && !/\.\w+$/.test(program) ? [program, `${program}.exe`, `${program}.cmd`] : [program];
  return (s.env.PATH ?? s.env.Path ?? '').split(separator).filter(Boolean).flatMap((f) => names.map((n) => path.join(f, n))).find(exists);
}

function expand(command: string, s: Surroundings): string {
  return command.replace('${workspaceFolder}', s.folders[0] ?? '').replace(/^~(?=\/|\\)/, s.env.HOME ?? s.env.USERPROFILE ?? '~');
}

function inside(file: string, folder: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '' && !relative.startsWith('..') && !path.isAbsolute(relative);
}

function isFile(file: string): boolean {
  try {
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}
