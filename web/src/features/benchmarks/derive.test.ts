import { describe, expect, it } from "vitest";
import { costAt, derivedOf, priceOf } from "./derive";
import type { Measurement } from "./record.gen";

const rate = (
  value: number,
  parameters: Measurement["parameters"] = {},
  subject = "concurrency.throughput",
) => ({ subject, parameters, unit: "inferences/s", statistics: { mean: value } }) as const;
const values = (figures: readonly Measurement[]) => figures.map(({ statistics }) => statistics?.value);

describe("scaling efficiency", () => {
  const sealed = (clients: number, value: number) => rate(value, { clients, path: "sealed" });

  it("is computed per path, relative to its single client", () => {
    const found = derivedOf([sealed(1, 80), sealed(4, 160), rate(1, { clients: 1, path: "in process" })]);
    expect(values(found)).toEqual([100, 50, 100]);
    expect(found.every(({ qualifier, note }) => qualifier === "derived" && note !== undefined)).toBe(true);
  });

  it("is not derived if stated, nor without a single client under the same conditions", () => {
    const stated = {
      subject: "concurrency.efficiency",
      parameters: { path: "sealed", clients: 4 },
      unit: "percent",
      statistics: { value: 51 },
    } as const;
    expect(derivedOf([sealed(1, 80), sealed(4, 160), stated]).map(({ parameters }) => parameters)).toEqual([
      { clients: 1, path: "sealed" },
    ]);
    expect(derivedOf([sealed(4, 160), rate(80, { clients: 1, path: "sealed", tokens: 9 })])).toHaveLength(1);
  });
});

describe("cost", () => {
  const throughput = rate(100, { tokens: 128 }, "inference.throughput");

  it("follows from the throughput at the reports' length, and a price", () => {
    const hours = derivedOf([rate(900, { tokens: 9 }, "inference.throughput"), throughput]);
    expect(values(hours)).toEqual([360_000]);
    expect(values(costAt(0.36, hours))).toEqual([1]);
  });

  it("never replaces a stated cost", () => {
    const hour = { subject: "cost.inferences_per_hour", unit: "count", statistics: { value: 1 } } as const;
    const million = { subject: "cost.per_million", unit: "USD", statistics: { value: 4.72 } } as const;
    expect(derivedOf([throughput, hour])).toEqual([]);
    expect(costAt(0.192, [hour, million])).toEqual([]);
  });
});

describe("a typed price", () => {
  it.each([
    ["0.192", 0.192],
    [" $3 ", 3],
    ["0", null],
    ["-1", null],
    ["1e9", null],
    ["", null],
    ["free", null],
  ])("%j is %j", (typed, price) => {
    expect(priceOf(typed)).toBe(price);
  });
});
