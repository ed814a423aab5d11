import { describe, expect, it } from "vitest";
import { type Figure, likeness } from "./likeness";
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

describe("likeness", () => {
  it("allows a ratio where both took turns on one machine", () => {
    const ours = figure("simulated", "EPYC", { turns, parameters: { engine: "ours", tokens: 128 } });
    const peer = figure("simulated", "EPYC", { turns, parameters: { engine: "onnxruntime", tokens: 128 } });
    expect(likeness(ours, peer)).toEqual({ differ: [], reason: null, ratio: true });
  });

  it("never allows one across machines, however alike the rest", () => {
    const ours = figure("bare_metal", "EPYC", { parameters: { tokens: 128 } });
    const theirs = figure("bare_metal", "Xeon", { parameters: { tokens: 128 } }, "report");
    expect(likeness(ours, theirs)).toMatchObject({ reason: null, ratio: false });
    expect(likeness(ours, theirs).differ.map(({ name }) => name)).toEqual(["machine"]);
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
      expect(likeness(ours, theirs)).toMatchObject({
        reason: `${name}: ours ${a}, theirs ${b}`,
        ratio: false,
      });
    }
  });

  it("keeps what is simulated apart from an enclave", () => {
    const ours = figure("simulated", "EPYC", {});
    const theirs = figure("enclave", "EPYC", {}, "report");
    expect(likeness(ours, theirs).reason).toContain("simulated");
    const cosine = { subject: "quality.cosine" };
    const [own, other] = [figure("simulated", "EPYC", cosine), figure("enclave", "EPYC", cosine, "report")];
    expect(likeness(own, other).reason, "a result is one wherever it is computed").toBeNull();
  });

  it("lets a chain stand beside one of as many certificates", () => {
    const chain = (certificates: number | undefined, from: string) =>
      figure(
        "bare_metal",
        "EPYC",
        { subject: "cose.full", ...(certificates && { parameters: { certificates } }) },
        from,
      );
    expect(likeness(chain(3, "ours"), chain(undefined, "report")).reason).toBeNull();
    expect(likeness(chain(5, "ours"), chain(undefined, "report")).reason).toBe(
      "theirs checks a chain of three certificates, ours a longer one",
    );
  });

  it("does not know two files that name no machine to be of one", () => {
    const [a, b] = [figure("bare_metal", "", {}, "a"), figure("bare_metal", "", {}, "b")];
    expect(likeness(a, b)).toMatchObject({ reason: null, ratio: false });
    expect(likeness(a, figure("bare_metal", "", {}, "a")).ratio).toBe(true);
  });

  it("tells a message over the channel from one over a bare socket", () => {
    const over = (transport: string, from: string) =>
      figure("bare_metal", "EPYC", { subject: "transport.rtt", parameters: { transport } }, from);
    const theirs = over("secure channel in process", "report");
    expect(likeness(over("secure channel in process", "ours"), theirs).reason).toBeNull();
    expect(likeness(over("unix", "ours"), theirs).reason).toBe(
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
  ])("says why %s of two reports is not one thing", (subject, parameters) => {
    const ours = figure("bare_metal", "EPYC", { subject, parameters });
    const theirs = figure("bare_metal", "EPYC", { subject }, "report");
    expect(likeness(ours, theirs).reason).toMatch(/^(ours|theirs) /);
    expect(likeness(ours, theirs).ratio).toBe(false);
  });
});
