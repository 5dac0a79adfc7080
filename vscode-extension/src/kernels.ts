// The kernels of a document, and the one under the cursor.
import * as vscode from 'vscode';
import { LanguageClient } from 'vscode-languageclient/node';

export interface Kernel {
  name: string;
  kernel: string;
  first: number;
  last: number;
  instance: string;
  instances: string[];
  target: string;
  tilelang: string;
  tilelangFrom: string;
}

export async function kernelsOf(client: LanguageClient | undefined, document: vscode.TextDocument): Promise<Kernel[]> {
  if (!client?.isRunning() || document.languageId !== 'python') return [];
  try {
    return (await client.sendRequest<Kernel[]>('tile-lsp/kernels', { uri: client.code2ProtocolConverter.asUri(document.uri) })) ?? [];
  } catch {
    return [];
  }
}

/** The innermost kernel that holds a line (from 0), else the only one. */
export function kernelAt(kernels: readonly Kernel[], line: number): Kernel | undefined {
  const holding = kernels.filter((k) => k.first <= line + 1 && line + 1 <= k.last);
  return holding.sort((a, b) => b.first - a.first)[0] ?? (kernels.length === 1 ? kernels[0] : undefined);
}
