/** Evaluates the samples of a soak: which clients stopped working, and which became slow. */

/** The first and last third of the samples taken later than `warmMs`. */
export function thirds(samples, warmMs) {
  const warm = samples.filter(({ at }) => at > warmMs);
  const third = Math.max(1, Math.floor(warm.length / 3));
  return [warm.slice(0, third), warm.slice(-third)];
}

function quantile(values, part) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted.length
    ? Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))])
    : null;
}

/**
 * Latency of every client whose requests are `timed`, in both thirds, and the faults. A sample has, per client and since the
 * previous sample, the number of `right` embeddings and the `times` of its requests. A missing value is a fault, because an idle
 * client is neither wrong nor slow.
 */
export function judgeWork(clients, [first, last]) {
  const latency = {};
  const faults = [];
  for (const { name, timed } of clients) {
    if (!last.some(({ right }) => right[name] > 0)) faults.push(`${name}: no right answer in the last third`);
    if (!timed) continue;
    const [early, late] = [first, last].map((part) => part.flatMap(({ times }) => times[name]));
    const of = (part) => [quantile(early, part), quantile(late, part)];
    latency[name] = { p50: of(0.5), p99: of(0.99) };
    const [before, after] = latency[name].p50;
    if (before === null || after === null) {
      faults.push(`${name}: no latency in the first or the last third`);
    } else if (after > before * 2 + 20) faults.push(`${name}: latency grew`);
  }
  return { latency, faults };
}
