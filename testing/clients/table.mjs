/** Compares vectors, and writes the table of examples/README.md. */

const MARKERS = /(<!-- clients -->\n)([\s\S]*?)(<!-- \/clients -->)/;
const HEADER = ["| client | version | tried | result | largest difference |", "|---|---|---|---|---|"];

/** Compares vectors, rounded to float32, with the expected ones. */
export function compare(vectors, expected) {
  const isList = Array.isArray(vectors) && vectors.length === expected.length;
  if (!isList || !vectors.every((vector, at) => vector?.length === expected[at].length))
    return { works: false, stage: "compare", why: "another number of vectors, or of numbers in one" };
  const pairs = vectors.map((vector, at) => [Float32Array.from(vector), Float32Array.from(expected[at])]);
  const cosine = Math.min(...pairs.map(([left, right]) => cosineOf(left, right)));
  const difference = Math.max(
    ...pairs.map(([left, right]) => Math.max(...left.map((value, at) => Math.abs(value - right[at])))),
  );
  // Below float32's own precision only if a client computes with the vector, as one that normalises it does.
  const works = cosine > 0.999_999;
  return {
    works,
    stage: "compare",
    cosine,
    difference,
    ...(!works && { why: `cosine ${cosine.toFixed(6)}` }),
  };
}

function cosineOf(left, right) {
  const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}

/** The result of one client in a few words. */
export function describe(client, result) {
  if (result.works && result.without === undefined) return "works as printed";
  if (result.works) return `one line: \`${client.setting}\``;
  // A reason that is known explains a failed run, and not a failed installation.
  const why = result.stage === "run" ? (client.why ?? result.why) : result.why;
  return `does not (${result.stage}): ${why}`;
}

/** Replaces the rows of the clients that ran, and keeps the others. */
export function replaceRows(text, rows, now) {
  const found = MARKERS.exec(text);
  if (!found) throw new Error("README.md has no markers of the table");
  const lines = new Map();
  for (const line of found[2].split("\n")) {
    if (line.startsWith("| ") && !HEADER.includes(line)) lines.set(nameIn(line), line);
  }
  for (const row of rows) {
    const line = format(row, now);
    lines.set(nameIn(line), line);
  }
  const sorted = [...lines.entries()].sort(([left], [right]) => left.localeCompare(right, "en"));
  const table = [...HEADER, ...sorted.map(([, line]) => line)].map((line) => `${line}\n`).join("");
  return text.replace(MARKERS, (_, start, __, end) => start + table + end);
}

const nameIn = (line) => line.split(" | ")[0];

function format({ name, language, version, ...client }, now) {
  const { result } = client;
  const difference =
    result.difference === undefined ? "" : result.difference === 0 ? "0" : result.difference.toExponential(0);
  const cells = [
    `${name} (${language})`,
    version,
    now.toISOString().slice(0, 10),
    describe(client, result),
    difference,
  ];
  return `| ${cells.join(" | ")} |`;
}
