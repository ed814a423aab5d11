import { describe, expect, it } from "vitest";
import { comparabilityOf, type Figure } from "./comparability";
import type { BenchmarkRecord, Environment, Measurement } from "./record.gen";
import type { Run } from "./runs";

function figure(
  environment: Environment,
  cpu: string,
  measurement: Partial<Measurement>,
  from = environment === "enclave" ? "report" : "ours",
): Figure {
  const record = { environment, machine: { cpu } } as BenchmarkRecord;
  const full = { subject: "inference.latency", unit: "ms", ...measurement } as Measurement;
  const run = { key: from, title: from, kind: "ours", from, record, figures: [full], peer: false, words: "" };
  return { run: run as Run, figure: full };
}

const turns = { id: "one run's turns", sample: [1] };

describe("comparability", () => {
  it("allows a ratio if both took turns on one machine", () => {
    const ours = figure("simulated", "EPYC", { turns, parameters: { engine: "ours", tokens: 128 } });
    const peer = figure("simulated", "EPYC", { turns, parameters: { engine: "onnxruntime", tokens: 128 } });
    expect(comparabilityOf(ours, peer)).toEqual({ differ: [], reason: null, ratio: true });
  });

  it("never allows a ratio across machines", () => {
    const ours = figure("bare_metal", "EPYC", { parameters: { tokens: 128 } });
    const theirs = figure("bare_metal", "Xeon", { parameters: { tokens: 128 } }, "report");
    expect(comparabilityOf(ours, theirs)).toMatchObject({ reason: null, ratio: false });
    expect(comparabilityOf(ours, theirs).differ.map(({ name }) => name)).toEqual(["machine"]);
  });

  it("never allows a ratio across processors of one name with different features", () => {
    const on = (from: string, cpu_features: string[]): Figure => {
      const one = figure("bare_metal", "EPYC", { parameters: { tokens: 128 } }, from);
      return {
        ...one,
        run: { ...one.run, record: { ...one.run.record, machine: { cpu: "EPYC", cpu_features } } },
      };
    };
    const [ours, theirs] = [on("a", ["avx2"]), on("b", ["avx2", "avx512f"])];
    expect(comparabilityOf(ours, theirs).ratio).toBe(false);
    expect(comparabilityOf(ours, ours).ratio).toBe(true);
  });

  it("allows a ratio of two files only if both name the same features, processors and memory", () => {
    const named = { cpu: "EPYC", vcpus: 2, memory_mib: 24_105 };
    const whole = { ...named, cpu_features: ["avx2"] };
    const on = (from: string, machine: NonNullable<BenchmarkRecord["machine"]>): Figure => {
      const one = figure("bare_metal", "EPYC", {}, from);
      return { ...one, run: { ...one.run, record: { ...one.run.record, machine } } };
    };
    for (const [other, like] of [
      [whole, true],
      [{ ...whole, memory_mib: 24_100 }, true],
      [{ ...whole, vcpus: 4 }, false],
      [{ ...whole, memory_mib: 65_536 }, false],
      [{ ...whole, cpu_features: ["avx512f"] }, false],
      [named, false],
    ] as const) {
      const [a, b] = [on("a", whole), on("b", other)];
      expect(comparabilityOf(a, b).ratio, JSON.stringify(other)).toBe(like);
      expect(comparabilityOf(b, a).ratio, JSON.stringify(other)).toBe(like);
    }
    expect(comparabilityOf(on("a", named), on("b", named)).ratio).toBe(false);
    expect(comparabilityOf(on("a", named), on("a", whole)).ratio, "another record of one file").toBe(false);
  });

  it("takes an enclave and its host, in one report, for one machine with fewer processors inside", () => {
    const on = (environment: Environment, vcpus: number, from = "report"): Figure => {
      const one = figure(environment, "Xeon", {}, from);
      return { ...one, run: { ...one.run, record: { ...one.run.record, machine: { cpu: "Xeon", vcpus } } } };
    };
    const like = comparabilityOf(on("enclave", 2), on("bare_metal", 4));
    expect(like.ratio).toBe(true);
    expect(like.differ.map(({ name }) => name)).toEqual(["processors", "environment"]);
    expect(comparabilityOf(on("bare_metal", 2), on("bare_metal", 4)).ratio).toBe(false);
    expect(comparabilityOf(on("enclave", 2), on("bare_metal", 4, "another")).ratio).toBe(false);
  });

  it.each([
    ["against", { against: "candle" }, { against: "sentence-transformers" }],
    ["precision", { engine: "fused-f32-avx2" }, { engine: "onnxruntime-int8" }],
    ["precision", { engine: "onnxruntime" }, { engine: "fused-bf16-avx512bf16" }],
  ] as const)("never allows a ratio if the %s differs, not even in turns", (name, a, b) => {
    const of = (parameters: Measurement["parameters"]) =>
      figure("simulated", "EPYC", { turns, ...(parameters && { parameters }) });
    expect(comparabilityOf(of(a), of(b))).toMatchObject({ ratio: false });
    expect(comparabilityOf(of(a), of(b)).reason).toMatch(new RegExp(`^${name}: ours `));
  });

  it("names a condition that both state and that differs", () => {
    for (const [name, a, b] of [
      ["tokens", 128, 9],
      ["batch", 1, 32],
      ["certificates", 5, 3],
      ["threads", 2, 1],
    ] as const) {
      const ours = figure("bare_metal", "EPYC", { parameters: { [name]: a } });
      const theirs = figure("bare_metal", "EPYC", { parameters: { [name]: b } });
      expect(comparabilityOf(ours, theirs)).toMatchObject({
        reason: `${name}: ours ${a}, theirs ${b}`,
        ratio: false,
      });
    }
  });

  it("separates simulated figures from those of an enclave", () => {
    const ours = figure("simulated", "EPYC", {});
    const theirs = figure("enclave", "EPYC", {}, "report");
    expect(comparabilityOf(ours, theirs).reason).toContain("simulated");
    const cosine = { subject: "quality.cosine" };
    const [own, other] = [figure("simulated", "EPYC", cosine), figure("enclave", "EPYC", cosine, "report")];
    expect(comparabilityOf(own, other).reason, "a result is the same wherever it is computed").toBeNull();
  });

  it("compares chains with the same number of certificates", () => {
    const chain = (certificates: number | undefined, from: string) =>
      figure(
        "bare_metal",
        "EPYC",
        { subject: "cose.full", ...(certificates && { parameters: { certificates } }) },
        from,
      );
    expect(comparabilityOf(chain(3, "ours"), chain(undefined, "report")).reason).toBeNull();
    expect(comparabilityOf(chain(5, "ours"), chain(undefined, "report")).reason).toBe(
      "theirs checks a chain of three certificates, ours a longer one",
    );
  });

  it("does not assume one machine for two files that name none", () => {
    const [a, b] = [figure("bare_metal", "", {}, "a"), figure("bare_metal", "", {}, "b")];
    expect(comparabilityOf(a, b)).toMatchObject({ reason: null, ratio: false });
    expect(comparabilityOf(a, figure("bare_metal", "", {}, "a")).ratio).toBe(true);
  });

  it("distinguishes a message over the channel from one over a bare socket", () => {
    const over = (transport: string, from: string) =>
      figure("bare_metal", "EPYC", { subject: "transport.rtt", parameters: { transport } }, from);
    const theirs = over("secure channel in process", "report");
    expect(comparabilityOf(over("secure channel in process", "ours"), theirs).reason).toBeNull();
    expect(comparabilityOf(over("unix", "ours"), theirs).reason).toBe(
      "transport: ours unix, theirs secure channel in process",
    );
  });

  it.each([
    ["stage.cold_start_total", {}],
    ["request.session_setup", {}],
    ["request.crypto", {}],
    ["cose.full", {}],
    ["frame.latency", { codec: "Binary HTTP, padded" }],
    ["transport.handshake", { attestation: "endorsed key" }],
    ["transport.reconnect", { attestation: "endorsed key" }],
  ])("gives a reason why %s of two reports is not comparable", (subject, parameters) => {
    const ours = figure("bare_metal", "EPYC", { subject, parameters });
    const theirs = figure("bare_metal", "EPYC", { subject }, "report");
    expect(comparabilityOf(ours, theirs).reason).toMatch(/^(ours|theirs) /);
    expect(comparabilityOf(ours, theirs).ratio).toBe(false);
  });
});
