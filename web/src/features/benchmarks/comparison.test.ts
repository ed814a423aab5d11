import { describe, expect, it } from "vitest";
import cases from "../../../../benchmarks/tests/comparison.json";
import { comparabilityOf } from "./comparability";
import { absence, type ComparedRow, compareTable, nearest } from "./comparison";
import { read } from "./read";
import type { Environment, Measurement } from "./record.gen";
import { type Run, type Source, sourceOf } from "./runs";

const files = (found: Record<string, string>) => Object.entries(found);
const reports = files(
  import.meta.glob<string>("../../../../benchmarks/reference/*.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);
const results = files(
  import.meta.glob<string>("../../../../benchmarks/results/*.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);

function sourceFrom(name: string, text: string, kind: Run["kind"]): Source {
  const reading = read(new TextEncoder().encode(text));
  if (reading.status !== "read") throw new Error(`${name} was refused`);
  return sourceOf(name, kind, reading);
}

const published = reports.map(([name, text]) => sourceFrom(name, text, "published"));
const ours = results.flatMap(([name, text]) => sourceFrom(name, text, "ours").runs.slice(0, 1));
const tables = published.flatMap((source) =>
  source.tables.filter(({ kind }) => kind === "figures").map((table) => ({ source, table })),
);

function row(heading: string, key: string, of = ours[0]): ComparedRow {
  const found = tables.find(({ table }) => table.heading.startsWith(heading) && rowAt(table.rows, key) >= 0);
  if (!found || !of) throw new Error(`no table ${heading} with a row ${key}`);
  const entry = compareTable(found.source, found.table, of)[rowAt(found.table.rows, key)];
  if (!entry) throw new Error("no such row");
  return entry;
}

function rowAt(rows: readonly (readonly string[])[], key: string): number {
  return rows.findIndex((cells) => cells.slice(0, 3).join(" ").startsWith(key));
}

describe("the column of ours", () => {
  it("has an entry in each row with a figure", () => {
    expect(tables.length).toBeGreaterThan(30);
    for (const run of ours) {
      for (const { source, table } of tables) {
        for (const [index, entry] of compareTable(source, table, run).entries()) {
          const numbers = source.runs.some(({ figures }) =>
            figures.some(
              ({ cite, statistics }) =>
                statistics !== undefined &&
                cite?.table === table.id &&
                Object.values(cite.cells ?? {}).some(([at]) => at === index),
            ),
          );
          expect(entry.at === "nothing", `${table.heading}, row ${index}`).toBe(!numbers);
          if (entry.at === "absent") expect(entry.why).not.toBe("");
        }
      }
    }
  });

  it("has the figure with the same conditions", () => {
    const entry = row("9. Input Size Scaling", "63");
    if (entry.at !== "measured") throw new Error("not measured");
    expect(entry.answers.map(({ figure }) => figure.parameters?.tokens)).toEqual([63, 63, 63, 63]);
    expect(entry.answers.every(({ like }) => like.reason === null && !like.ratio)).toBe(true);
  });

  it("names our conditions that the report does not state", () => {
    const entry = row("6. Security Primitives", "HPKE encrypt 1KB");
    if (entry.at !== "measured") throw new Error("not measured");
    expect(entry.answers.map(({ column, conditions }) => [column, conditions])).toEqual([
      ["Mean", ["kind X25519"]],
      ["P99", ["kind X25519"]],
    ]);
  });

  it("gives a reason if the two measure different things", () => {
    for (const [heading, key, reason] of [
      ["1. Communication Latency", "64 bytes", "theirs crosses vsock"],
      ["3. Stage Timing", "Cold Start Total", "ours starts processes"],
      ["6b. COSE", "Full verification", "theirs checks a chain of three certificates"],
      ["AES Benchmark", "sgx", "simulated"],
    ] as const) {
      const entry = row(heading, key);
      if (entry.at !== "measured") throw new Error(`${heading}: not measured`);
      expect(entry.answers.some(({ like }) => new RegExp(reason).test(like.reason ?? ""))).toBe(true);
    }
  });

  it("does not use one run of ours for three of theirs", () => {
    expect(row("2. Inference Latency", "run_20260204_215346").at).toBe("measured");
    expect(row("2. Inference Latency", "run_20260204_222448")).toEqual({
      at: "absent",
      why: "ours ran once on this machine, not three times",
    });
  });

  it("has the derived efficiency of the sealed path", () => {
    const entry = row("8b. Enclave Concurrency", "4");
    if (entry.at !== "measured") throw new Error("not measured");
    expect(entry.answers.map(({ figure }) => figure.subject)).toContain("concurrency.efficiency");
  });
});

describe("nearest and reason", () => {
  const record = (environment: Environment, measurements: readonly Measurement[]): Run => ({
    key: environment,
    title: environment,
    kind: "dropped",
    from: environment,
    record: { environment },
    figures: measurements,
    peer: false,
    words: "",
  });
  const ours = record("simulated", cases.ours as readonly Measurement[]);
  const figures = ours.figures.map((figure) => ({ run: ours, figure }));

  it.each(cases.theirs)("match the reports: $environment $subject $parameters", (theirs) => {
    const { environment, answer, reason, ...stated } = theirs;
    const figure = { statistics: { value: 1 }, ...stated } as unknown as Measurement;
    const run = record(environment as Environment, [figure]);
    const cited = { run, figure };
    const found = nearest(cited, figures);
    expect(found === undefined ? null : figures.indexOf(found)).toBe(answer);
    const foundReason = found ? comparabilityOf(found, cited).reason : absence(cited, ours);
    if (reason === null) expect(foundReason).toBeNull();
    else expect(foundReason?.slice(0, reason.length)).toBe(reason);
  });

  it.each(cases.absences)("explain an absent figure: $environment $subject $parameters", (missing) => {
    const { environment, stated, why, ...figure } = missing;
    const theirs = { run: record(environment as Environment, []), figure: figure as unknown as Measurement };
    const own = { ...ours, record: { ...ours.record, absent: stated } };
    expect(absence(theirs, own).slice(0, why.length)).toBe(why);
  });
});
