import { describe, expect, it } from "vitest";
import { figuresOf } from "./figures";
import { read } from "./read";

const bytes = (text: string) => new TextEncoder().encode(text);

interface Case {
  readonly name: string;
  readonly text: string;
  readonly code: string;
  readonly path: string;
}

const [malformed] = Object.values(
  import.meta.glob<string>("../../../../benchmarks/tests/malformed.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);
const cases = JSON.parse(malformed ?? "[]") as readonly Case[];
const reports = Object.entries(
  import.meta.glob<string>("../../../../benchmarks/reference/*.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);

describe("a malformed file", () => {
  it.each(cases)("is rejected with the same code and path as in Rust: $name", ({ text, code, path }) => {
    const reading = read(bytes(text));
    if (reading.status !== "refused") throw new Error("it was read");
    expect(reading.problems[0]).toMatchObject({ code, path });
  });

  it("is rejected for its depth before the stack overflows", () => {
    const reading = read(bytes("[".repeat(1_000_000)));
    expect(reading).toMatchObject({ status: "refused", problems: [{ code: "RECORD_TOO_DEEP" }] });
  });

  it("is rejected for its size before it is decoded", () => {
    const reading = read(new Uint8Array(32 * 1024 * 1024 + 1));
    expect(reading).toMatchObject({ status: "refused", problems: [{ code: "RECORD_TOO_LARGE" }] });
  });

  it("reports at most twenty problems", () => {
    const reading = read(bytes(`[${Array.from({ length: 5_000 }, () => "{}").join(",")}]`));
    expect(reading.status === "refused" && reading.problems.length).toBe(20);
  });

  it("stops at the first problem of a record", () => {
    const faults = Array.from({ length: 1_000_000 }, () => 0).join(",");
    const reading = read(bytes(`{"environment":"enclave","measurements":[${faults}]}`));
    expect(reading.status === "refused" && reading.problems.length).toBe(1);
  });

  it.each([
    ["a package", '{"name":"clearseal","version":"0.1.0","title":"x"}'],
    ["other records", '{"records":[{"id":1}]}'],
    ["a list of other things", '[{"id":1},{"name":"b"}]'],
    ["a number", "42"],
  ])("is foreign if nothing in it is of a benchmark: %s", (_, text) => {
    expect(read(bytes(text))).toMatchObject({ status: "refused", foreign: true });
  });

  it.each([
    ["an environment", '{"environment":"mars"}'],
    ["figures without an environment", '{"inference":{"latency_ms":{"mean":1}}}'],
    ["the format", '{"format":"clearseal.benchmarks/1"}'],
  ])("is not foreign with %s", (_, text) => {
    const reading = read(bytes(text));
    expect(reading.status).toBe("refused");
    expect(reading).not.toHaveProperty("foreign");
  });

  it("that is not UTF-8 is reported as such", () => {
    expect(read(new Uint8Array([0x22, 0xff, 0x22]))).toMatchObject({
      problems: [{ reason: "this is not JSON: it is not UTF-8 text" }],
    });
  });
});

const results = Object.entries(
  import.meta.glob<string>("../../../../benchmarks/results/*.json", {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);

describe("a well-formed file", () => {
  it("is each of the five published reports", () => {
    expect(reports).toHaveLength(5);
  });

  it.each([...reports, ...results])("is %s, which the page reads completely", (_, text) => {
    const reading = read(bytes(text));
    if (reading.status !== "read") throw new Error("it was refused");
    expect(reading.notices).toEqual([]);
    const { records, ...file } = JSON.parse(text);
    expect({ ...reading.file }).toEqual(file);
    expect(reading.records).toEqual(records);
  });

  it.each(["upload_throughput_mbps", "upload_throughput_mb_per_sec"])(
    "may call the throughput %s",
    (name) => {
      const reading = read(bytes(`{"environment":"enclave","vsock":{"${name}":219.4},"unheard_of":1}`));
      if (reading.status !== "read" || !reading.records[0]) throw new Error("it was refused");
      expect(reading.notices[0]?.path).toBe("$.unheard_of");
      expect(figuresOf(reading.records[0])).toMatchObject([
        { subject: "transport.throughput", unit: "MB/s", statistics: { value: 219.4 } },
      ]);
    },
  );

  it("reads strings with escapes and strange numbers", () => {
    const reading = read(
      bytes('{"environment":"enclave","title":"a\\u0062\\n","stages":{"attestation_ms":1.5e-3}}'),
    );
    expect(reading).toMatchObject({ records: [{ title: "ab\n", stages: { attestation_ms: 0.0015 } }] });
  });
});
