import { describe, expect, it } from "vitest";
import { differences } from "./compare";
import { asPublished, base, scaleFor, short, withUnit } from "./figures";
import { leastSquares } from "./fit";
import { withNewRuns } from "./new-runs";
import type { Measurement, Statistics } from "./record.gen";
import { dateOf, type Run, sourceOf } from "./runs";
import { parseLink, toSearch } from "./url";
import { gradeOf } from "./verdict";

function run(key: string, figures: readonly Measurement[], kind: Run["kind"] = "published"): Run {
  const record = { environment: "enclave" } as const;
  return { key, title: key, kind, from: "one file", record, figures, peer: false, words: key };
}

/** The runs of our records. */
const recorded = Object.entries(
  import.meta.glob<string>("../../../../benchmarks/results/*.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
).flatMap(([path, text]) => {
  const { records, ...file } = JSON.parse(text);
  const name = path.slice(path.lastIndexOf("/") + 1);
  return sourceOf(name, "ours", { status: "read", file, records, notices: [] }).runs;
});

function latency(statistics: Statistics, unit: Measurement["unit"] = "ms"): Measurement {
  return { subject: "inference.latency", parameters: { tokens: 128 }, statistics, ...(unit && { unit }) };
}

describe("two runs compared", () => {
  const spread = { stddev: 1, samples: 100 };
  it.each([
    ["better", { mean: 80, ...spread }, { mean: 70, ...spread }],
    ["worse", { mean: 80, ...spread }, { mean: 90, ...spread }],
    ["within noise", { mean: 80, ...spread }, { mean: 80.1, ...spread }],
    ["no spread stated", { mean: 80 }, { mean: 70 }],
  ] as const)("are %s", (verdict, a, b) => {
    expect(differences(run("a", [latency(a)]), run("b", [latency(b)]))).toMatchObject([{ verdict }]);
  });

  it("may use other units", () => {
    const [difference] = differences(
      run("a", [latency({ mean: 80 })]),
      run("b", [latency({ mean: 40_000 }, "us")]),
    );
    expect(difference?.ratio?.percent).toBeCloseTo(-50);
  });

  it("of two machines have no ratio", () => {
    const on = (key: string, cpu: string) => {
      const one = run(key, [latency({ mean: 80, ...spread })]);
      return { ...one, record: { ...one.record, machine: { cpu } } };
    };
    expect(differences(on("a", "EPYC"), on("b", "Xeon"))).toMatchObject([
      { from: 80, to: 80, ratio: null, verdict: "another machine" },
    ]);
    expect(differences(on("a", "EPYC"), on("b", "EPYC"))).toMatchObject([{ verdict: "the same" }]);
  });

  it("of two files that name no machine have no ratio", () => {
    const [a, b] = [run("a", [latency({ mean: 80 })]), run("b", [latency({ mean: 70 })])];
    expect(differences(a, { ...b, from: "another file" })).toMatchObject([{ ratio: null }]);
  });

  it("never compare a mean with a median", () => {
    expect(differences(run("a", [latency({ mean: 80 })]), run("b", [latency({ p50: 70 })]))).toEqual([]);
  });

  it("that took turns are compared turn by turn", () => {
    const turn = (sample: readonly number[], factor: number) => ({
      ...latency({ mean: factor * 20, stddev: 10, samples: 4 }),
      turns: { id: "t", sample: sample.map((one) => one * factor) },
    });
    const disturbed = [10, 10, 30, 30];
    const [difference] = differences(run("a", [turn(disturbed, 1)]), run("b", [turn(disturbed, 1.1)]));
    expect(difference?.verdict).toBe("worse");
    expect(difference?.ratio?.noise).toBeCloseTo(0);
  });

  it("share only figures with the same conditions", () => {
    const other = { ...latency({ mean: 1 }), parameters: { tokens: 9 } };
    expect(differences(run("a", [latency({ mean: 80 })]), run("b", [other]))).toEqual([]);
  });

  it.each(["transport", "cipher", "attack", "phase", "document", "loader", "codec", "against", "curve"])(
    "share no figure if its %s differs",
    (name) => {
      const of = (value: string) => ({ ...latency({ mean: 80 }), parameters: { [name]: value } });
      expect(differences(run("a", [of("x")]), run("b", [of("y")]))).toEqual([]);
      const both = run("a", [of("x"), of("y")]);
      expect(differences(both, both)).toHaveLength(2);
    },
  );

  it("pair engines of one precision: the same, then the same for other instructions, then any", () => {
    const by = (engine: string, mean: number) => ({
      ...latency({ mean }),
      parameters: { tokens: 128, engine },
    });
    const a = run("a", [by("fused-int8-avx2", 1), by("candle-f32", 2), by("fused-f32-avx2", 3)]);
    const b = run("b", [by("fused-f32-avx512", 4), by("candle-f32", 5)]);
    expect(differences(a, b).map(({ from, to }) => [from, to])).toEqual([
      [2, 5],
      [3, 4],
    ]);
    const peer = run("peer", [by("onnxruntime", 6), by("onnxruntime-int8", 7)]);
    expect(differences(b, peer).map(({ from, to }) => [from, to])).toEqual([[4, 6]]);
    expect(differences(a, peer).map(({ from, to }) => [from, to])).toContainEqual([1, 7]);
  });

  it("use every figure of a run once", () => {
    for (const one of recorded) {
      const shown = differences(one, one);
      const keys = new Set(shown.map(({ key }) => key));
      expect(keys.size, one.key).toBe(shown.length);
      const scaling = ({ subject }: Measurement) => subject === "scaling.latency";
      const measured = one.figures.filter(
        (figure) =>
          !scaling(figure) &&
          base(figure, "mean") !== undefined &&
          base(figure, "mean") !== 0 &&
          Object.keys(figure.parameters ?? {}).every(
            (name) => !["stated", "rounded", "assumed", "study"].includes(name),
          ),
      );
      const distinct = new Set(
        measured.map(({ subject, parameters }) => JSON.stringify([subject, parameters])),
      );
      const used = shown.filter(({ a }) => base(a, "mean") !== undefined && !scaling(a));
      expect(used.length, one.key).toBe(distinct.size);
    }
  });
});

describe("a fit", () => {
  it("recovers the original line", () => {
    const points = [32, 63, 128, 256].map((x) => [x, 3 + 0.5 * x] as const);
    const line = leastSquares(points);
    expect(line?.intercept).toBeCloseTo(3);
    expect(line?.slope).toBeCloseTo(0.5);
    expect(line?.r2).toBeCloseTo(1);
  });

  it("reproduces the published line from the published points", () => {
    const line = leastSquares([
      [32, 21.59],
      [63, 38.03],
      [128, 84.8],
      [256, 230.38],
    ]);
    expect(line?.slope).toBeCloseTo(0.949, 3);
    expect(line?.intercept).toBeCloseTo(-19.91, 1);
  });

  it("does not exist for a single x", () => {
    expect(leastSquares([[1, 2]])).toBeNull();
    expect(leastSquares([])).toBeNull();
  });
});

describe("the interpretation guide", () => {
  it.each([
    ["inference.latency", 12.6, "Acceptable"],
    ["inference.latency", -4, "Excellent"],
    ["stage.cold_start_total", 7.05, "Acceptable"],
    ["stage.cold_start_total", 20, "No verdict"],
    ["memory.peak_rss", 282.8, "Investigate"],
  ])("grades %s of %d", (subject, value, verdict) => {
    expect(gradeOf(subject, value)?.verdict).toBe(verdict);
  });
});

describe("numbers", () => {
  it.each([
    [0.2983, "0.298"],
    [78.55, "78.6"],
    [7051.8, "7,052"],
    [5.811e-7, "5.81e-7"],
    [0, "0"],
  ])("%d is %s", (value, text) => {
    expect(short(value)).toBe(text);
  });

  it("have a suitable unit", () => {
    expect(withUnit("time", 7051.8)).toBe("7.05 s");
    expect(withUnit("time", 0.003)).toBe("3 µs");
    expect(withUnit("money", 4.72)).toBe("$4.72");
    expect(scaleFor("bandwidth", [2.35e8]).name).toBe("MB/s");
  });

  it("match their source", () => {
    const of = (figure: Partial<Measurement>) => asPublished({ subject: "platform.overhead", ...figure });
    expect(of({ statistics: { min: 4.8, max: 6.15 }, unit: "percent" })).toBe("4.8 to 6.15 %");
    expect(of({ statistics: { value: 22 }, unit: "percent", qualifier: "up_to" })).toBe("up to 22 %");
    expect(of({ said: "Near-native" })).toBe("Near-native");
  });
});

describe("a link", () => {
  it("restores the same state", () => {
    const place = { view: "latency", runs: ["a/b", "c d"], compare: ["a/b", "c d"] } as const;
    expect(parseLink(toSearch(place))).toEqual(place);
    expect(toSearch({ view: null, runs: null, compare: null })).toBe("");
  });
});

describe("a file's runs", () => {
  it("can be linked to, for any file name", () => {
    const records = [{ environment: "enclave", id: "a" } as const];
    const { runs } = sourceOf("one, two.json", "dropped", {
      status: "read",
      file: null,
      records,
      notices: [],
    });
    const keys = runs.map(({ key }) => key);
    expect(keys).toEqual(["one- two/a"]);
    expect(parseLink(toSearch({ view: null, runs: keys, compare: null })).runs).toEqual(keys);
  });

  it("have unique keys, for any names of the file and its records", () => {
    const records = [{ environment: "enclave", id: "a" } as const, { environment: "sgx", id: "a" } as const];
    const reading = { status: "read", file: null, records, notices: [] } as const;
    const { id, runs, byKey } = sourceOf("epyc-avx2.json", "dropped", reading, ["epyc-avx2"]);
    expect(id).toBe("epyc-avx2-opened");
    expect(runs.map(({ key }) => key)).toEqual(["epyc-avx2-opened/a", "epyc-avx2-opened/a~2"]);
    expect(byKey.size).toBe(2);
  });

  it("are found by title, machine and commit, in lower case", () => {
    const records = [{ environment: "simulated", title: "Ours", hardware: "EPYC", commit: "Abc" } as const];
    const { runs } = sourceOf("f.json", "dropped", { status: "read", file: null, records, notices: [] });
    expect(runs[0]?.words).toMatch(/^ours f\.json .* epyc abc/);
  });
});

describe("a new file", () => {
  const source = (name: string, count: number) => {
    const records = Array.from(
      { length: count },
      (_, id) => ({ environment: "enclave", id: `${id}` }) as const,
    );
    return sourceOf(name, "dropped", { status: "read", file: null, records, notices: [] });
  };
  const own = [1, 2].map((id) => run(`o${id}`, [], "ours"));
  const published = [1, 2, 3, 4].map((id) => run(`p${id}`, []));
  const peer = { ...run("peer", [], "ours"), peer: true };

  it("never displaces published runs and ours", () => {
    let shown: readonly Run[] = [...own, peer, ...published];
    for (const name of ["a", "b", "c"]) shown = withNewRuns(source(name, 100), shown);
    expect(shown.map(({ key }) => key)).toEqual(["c/0", "c/1", "o1", "o2", "p1", "p2", "p3", "p4"]);
  });

  it("uses free positions, and leaves the rest to peers and earlier files", () => {
    const shown = withNewRuns(source("a", 3), [own, peer].flat());
    expect(shown.map(({ key }) => key)).toEqual(["a/0", "a/1", "a/2", "o1", "o2", "peer"]);
    const next = withNewRuns(source("b", 9), shown).map(({ key }) => key);
    expect(next).toEqual(["b/0", "b/1", "b/2", "b/3", "o1", "o2", "peer", "a/0"]);
  });
});

describe("a record's day", () => {
  it.each([
    ["2026-02-11T23:59:59Z", "2026-02-11"],
    ["2026-02", "2026-02"],
    ["1795374300Z", "2026-11-22"],
  ])("is read from %s", (timestamp, day) => {
    expect(dateOf({ environment: "simulated", timestamp })).toBe(day);
  });

  it("is not invented", () => {
    expect(dateOf({ environment: "simulated" })).toBeUndefined();
  });
});
