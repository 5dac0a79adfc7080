// The results view as HTML: no scripts, everything the server says is escaped.

export interface Result {
  kernel: string;
  instance?: string;
  target?: string;
  device?: string;
  ok?: boolean;
  summary?: string;
  change?: number | null;
  time?: number;
  latency_ms?: { median?: number; min?: number; max?: number } | null;
  max_abs_err?: number | null;
  against?: string | null;
  tflops?: number | null;
  gbps?: number | null;
  registers?: number | null;
  smem_bytes?: number | null;
  roofline?: number | null;
  occupancy?: number | null;
  error?: string | null;
}

export function escape(text: unknown): string {
  return String(text ?? '').replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Results of one kernel at one instance on one target, the newest first. */
export function grouped(results: readonly Result[]): Result[][] {
  const groups = new Map<string, Result[]>();
  for (const r of results) {
    const key = JSON.stringify([r.kernel, r.instance ?? '', r.target ?? '']);
    groups.set(key, [...(groups.get(key) ?? []), r]);
  }
  return [...groups.values()];
}

/** A line of latencies, oldest on the left; empty for fewer than two. */
export function sparkline(values: readonly number[], width = 220, height = 36): string {
  if (values.length < 2) return '';
  const top = Math.max(...values), bottom = Math.min(...values), span = top - bottom || 1;
  const points = values.map((v, i) => `${(2 + (i * (width - 4)) / (values.length - 1)).toFixed(1)},${(height - 3 - ((v - bottom) / span) * (height - 6)).toFixed(1)}`);
  const [x, y] = points[points.length - 1].split(',');
  return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="latency of the last ${values.length} runs">`
    + `<polyline points="${points.join(' ')}"/><circle cx="${x}" cy="${y}" r="2.5"/></svg>`;
}

export function changeText(change: number | null | undefined): string {
  if (change === null || change === undefined || Math.abs(change) < 0.03) return '';
  return `${change < 0 ? '▼' : '▲'} ${Math.abs(change * 100).toFixed(0)} % ${change < 0 ? 'faster' : 'slower'}`;
}

const number = (value: number, digits = 3) => (value >= 100 ? value.toFixed(0) : value.toPrecision(digits));

function facts(r: Result): string {
  const rows: [string, string][] = [];
  if (r.latency_ms?.median !== undefined) rows.push(['latency', `${number(r.latency_ms.median)} ms`]);
  if (r.tflops) rows.push(['rate', r.tflops < 1 ? `${number(r.tflops * 1000)} GFLOP/s` : `${number(r.tflops)} TFLOP/s`]);
  if (r.gbps) rows.push(['memory', `${number(r.gbps)} GB/s`]);
  if (r.roofline) rows.push(['of the roofline', `${(r.roofline * 100).toFixed(0)} %`]);
  if (r.max_abs_err !== null && r.max_abs_err !== undefined) rows.push(['max error', `${r.max_abs_err === 0 ? '0' : r.max_abs_err.toExponential(1)} against ${r.against ?? '?'}`]);
  if (r.registers) rows.push(['registers', String(r.registers)]);
  if (r.smem_bytes) rows.push(['shared memory', `${r.smem_bytes} bytes`]);
  if (r.occupancy) rows.push(['threads kept', `${(r.occupancy * 100).toFixed(0)} %`]);
  rows.push(['on', r.target === 'cpu' ? `cpu (${r.device ?? ''})` : r.device ?? r.target ?? '?']);
  return `<dl>${rows.map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(value)}</dd>`).join('')}</dl>`;
}

function history(group: readonly Result[]): string {
  if (group.length < 2) return '';
  const rows = group.slice(0, 10).map((r) => `<tr class="${r.ok ? 'ok' : 'bad'}"><td>${r.time ? escape(new Date(r.time * 1000).toLocaleTimeString()) : ''}</td>`
    + `<td>${r.latency_ms?.median !== undefined ? escape(number(r.latency_ms.median)) + ' ms' : '✗'}</td><td>${escape(changeText(r.change))}</td></tr>`);
  return `<details><summary>${group.length} runs</summary><table>${rows.join('')}</table></details>`;
}

function card(group: readonly Result[]): string {
  const last = group[0];
  const latencies = group.map((r) => r.latency_ms?.median).filter((v): v is number => v !== undefined).reverse();
  return `<section class="${last.ok ? 'ok' : 'bad'}"><h2>${last.ok ? '✓' : '✗'} ${escape(last.instance || last.kernel)}</h2>`
    + (last.error && !last.ok ? `<p class="error">${escape(last.error)}</p>` : '') + facts(last)
    + (changeText(last.change) ? `<p class="${(last.change ?? 0) < 0 ? 'faster' : 'slower'}">${escape(changeText(last.change))} than the run before</p>` : '')
    + sparkline(latencies) + history(group) + '</section>';
}

export function resultsHtml(results: readonly Result[], file: string): string {
  const body = results.length
    ? grouped(results).map(card).join('')
    : '<p>No kernel of this file has been run yet. Click <b>▶ Run</b> above a kernel.</p>';
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';">
<style>
body { padding: 0 12px 12px; color: var(--vscode-foreground); font: var(--vscode-font-size) var(--vscode-font-family); }
h1 { font-size: 1em; font-weight: 600; opacity: .8; } h2 { font-size: 1em; margin: 0 0 6px; font-family: var(--vscode-editor-font-family); overflow-wrap: anywhere; }
section { border-left: 3px solid var(--vscode-testing-iconPassed); padding: 6px 10px; margin: 10px 0; background: var(--vscode-editorWidget-background); }
section.bad { border-color: var(--vscode-testing-iconFailed); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 12px; margin: 0 0 6px; } dt { opacity: .7; } dd { margin: 0; }
.error { color: var(--vscode-errorForeground); overflow-wrap: anywhere; } p { margin: 4px 0; }
.faster { color: var(--vscode-testing-iconPassed); } .slower { color: var(--vscode-editorWarning-foreground); }
polyline { fill: none; stroke: var(--vscode-charts-blue); stroke-width: 1.5; } circle { fill: var(--vscode-charts-blue); }
td { padding-right: 12px; } tr.bad td { color: var(--vscode-errorForeground); }
</style></head><body><h1>${escape(file)}</h1>${body}</body></html>`;
}
