import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, test, VIEWS } from "../fixtures/bench.ts";
import { root } from "../fixtures/processes.ts";

/** The fields of a record that this test reads. */
interface BenchmarkRecord {
  readonly id: string;
  readonly environment: string;
  readonly hardware?: string;
  readonly machine?: { readonly cpu?: string };
  readonly peers?: readonly { readonly name: string }[];
}

interface Shown {
  readonly from: string;
  readonly to: string;
  readonly statistic: string;
  readonly percent: number;
  readonly text: string;
}

/** A figure that a ratio names, with its conditions. */
interface Named {
  readonly subject: string;
  readonly statistics: Readonly<Record<string, number>>;
  readonly parameters?: Readonly<Record<string, string | number>>;
  readonly turns?: { readonly id: string };
  readonly unit: string;
}

/** Factors to one unit per dimension. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  ms: 1,
  s: 1e3,
  B: 1,
  MB: 1e6,
  MiB: 2 ** 20,
};

/** Parameters that are labels; all others are conditions. */
const LABELS = new Set(["engine", "padded", "source", "study"]);

/** All records of the page's files, by the first two parts of a run's key. */
function records(): ReadonlyMap<
  string,
  { readonly record: BenchmarkRecord; readonly figures: readonly Named[] }
> {
  const found = new Map();
  for (const folder of ["reference", "results"]) {
    const path = join(root, "benchmarks", folder);
    for (const name of readdirSync(path).filter((name) => name.endsWith(".json"))) {
      const file = JSON.parse(readFileSync(join(path, name), "utf8"));
      const source = file.report?.id ?? name.replace(".json", "");
      for (const record of file.records) {
        found.set(`${source}/${record.id}`, { record, figures: record.measurements ?? [] });
      }
    }
  }
  return found;
}

/** Collects ratios in the document, and unattributed numbers with a per cent or times sign. */
async function collectRatios(page: Page): Promise<{ ratios: Shown[]; loose: string[] }> {
  return page.locator(".bench").evaluate((bench) => {
    const ratios = [...bench.querySelectorAll<HTMLElement>("[data-ratio]")].map((one) => ({
      from: one.dataset.from ?? "",
      to: one.dataset.to ?? "",
      statistic: one.dataset.ratio ?? "",
      percent: Number(one.dataset.percent),
      text: one.textContent ?? "",
    }));
    const loose: string[] = [];
    const walker = document.createTreeWalker(bench, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      const text = node.textContent ?? "";
      if (
        !/\d\s*(%|×(?! \d)|times|-fold|percent)/.test(text) ||
        parent?.closest("[data-ratio], [data-quote]")
      )
        continue;
      loose.push(`${parent?.tagName}: ${text}`);
    }
    return { ratios, loose };
  });
}

test("every ratio on the page compares like measurements, and nothing else looks like one", async ({
  bench,
  page,
}) => {
  const known = records();
  const seen = new Map<string, Shown>();
  for (const [view] of VIEWS) {
    await bench.open(`?view=${view}`);
    await page.locator(".bench-view details").evaluateAll((all) => {
      for (const one of all) (one as HTMLDetailsElement).open = true;
    });
    const { ratios, loose } = await collectRatios(page);
    expect(loose, `unattributed numbers in ${view}`).toEqual([]);
    for (const ratio of ratios) seen.set(`${view} ${ratio.from} ${ratio.to} ${ratio.statistic}`, ratio);
  }
  expect(seen.size).toBeGreaterThan(20);
  for (const [where, ratio] of seen) {
    const [from, to] = [ratio.from, ratio.to].map((place) => {
      const [key = "", subject = "", parameters = "{}"] = place.split("#");
      const [source, id] = key.split("/");
      const holder = known.get(`${source}/${id}`);
      const figure = holder?.figures.find(
        (one) => one.subject === subject && JSON.stringify(one.parameters ?? {}) === parameters,
      );
      if (!holder || !figure) throw new Error(`${where}: ${place} is in no file`);
      return { ...holder, figure };
    });
    if (!from || !to) throw new Error(where);
    expect(machine(from.record), `${where}: one machine`).toBe(machine(to.record));
    expect(from.figure.subject, `${where}: one subject`).toBe(to.figure.subject);
    const conditions = [from, to].map(({ figure }) =>
      Object.entries(figure.parameters ?? {})
        .filter(([name]) => !LABELS.has(name))
        .sort(([a], [b]) => a.localeCompare(b)),
    );
    expect(conditions[0], `${where}: the same conditions`).toEqual(conditions[1]);
    const [a, b] = [from, to].map(
      ({ figure }) => (figure.statistics[ratio.statistic] ?? Number.NaN) * (UNITS[figure.unit] ?? 1),
    );
    if (a === undefined || b === undefined) throw new Error(where);
    expect((b / a - 1) * 100, `${where}: as in the files`).toBeCloseTo(ratio.percent, 6);
  }
});

function machine({ hardware, machine }: BenchmarkRecord): string {
  const named = [hardware, machine?.cpu].filter(Boolean).join(", ");
  expect(named, "a machine is named").not.toBe("");
  return named;
}
