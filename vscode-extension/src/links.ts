// Which lines of lowered code belong to which source lines. Lines count from 1, as the server counts them.

/** First line, last line and source line of a run of lowered lines. */
export type Run = [first: number, last: number, source: number];

/** The ranges of lowered lines that came from source lines `first` to `last`, in order, touching ones joined. */
export function loweredOf(runs: readonly Run[], first: number, last: number): [number, number][] {
  const found: [number, number][] = [];
  for (const [begin, end] of runs.filter(([, , source]) => first <= source && source <= last).map(([a, b]) => [a, b] as const).sort((a, b) => a[0] - b[0])) {
    const before = found[found.length - 1];
    if (before && begin <= before[1] + 1) before[1] = Math.max(before[1], end);
    else found.push([begin, end]);
  }
  return found;
}

/** The source lines that lowered lines `first` to `last` came from, in order. */
export function sourcesOf(runs: readonly Run[], first: number, last: number): number[] {
  return [...new Set(runs.filter(([begin, end]) => begin <= last && first <= end).map(([, , source]) => source))].sort((a, b) => a - b);
}
