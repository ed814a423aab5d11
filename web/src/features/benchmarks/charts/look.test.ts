import { describe, expect, it } from "vitest";
import type { Run } from "../runs";
import { lookOf, stepsOf } from "./look";

function run(key: string, kind: Run["kind"] = "published", peer = false): Run {
  return {
    key,
    title: key,
    kind,
    from: "",
    record: { environment: "simulated" },
    figures: [],
    peer,
    words: "",
  };
}

const [p, q, r] = ["p", "q", "r"].map((key) => run(key)) as [Run, Run, Run];
const [own, later] = [run("own", "ours"), run("later", "ours")];
const peer = run("own/peer", "ours", true);
const file = run("file", "dropped");

describe("the look of runs", () => {
  it("gives the accent only to ours", () => {
    const steps = stepsOf([[p, own, peer, file]]);
    const colours = [p, own, peer, file].map((one) => lookOf(one, steps).colour);
    expect(colours).toEqual(["var(--chart-2)", "var(--chart-1)", "var(--chart-3)", "var(--chart-4)"]);
  });

  it("distinguishes runs of ours by lines along their marks", () => {
    const steps = stepsOf([[own, later]]);
    expect(lookOf(own, steps)).toEqual({ colour: "var(--chart-1)", hollow: false, cuts: 0 });
    expect(lookOf(later, steps)).toEqual({ colour: "var(--chart-1)", hollow: false, cuts: 1 });
  });

  it("is the same in every set, and differs within each set", () => {
    const sets = [
      [p, own],
      [own, later, q, p],
      [q, r],
      [r, peer, p],
    ];
    const steps = stepsOf(sets);
    for (const set of sets) {
      expect(new Set(set.map((one) => JSON.stringify(lookOf(one, steps)))).size).toBe(set.length);
    }
    expect(steps.get("r")).toBe(2);
  });

  it("keeps the preferred step of a run, unless another run has it", () => {
    const homes = stepsOf([[p, q], [r]]);
    expect([...stepsOf([[q, file]], homes)]).toEqual([
      ["q", 1],
      ["file", 0],
    ]);
    expect([...stepsOf([[p, r]], homes)]).toEqual([
      ["p", 0],
      ["r", 1],
    ]);
  });

  it("adds lines if there are more runs than colours", () => {
    const many = Array.from({ length: 8 }, (_, index) => run(`m${index}`));
    const steps = stepsOf([many]);
    const looks = many.map((one) => lookOf(one, steps));
    expect(new Set(looks.map(({ colour, cuts }) => colour + cuts)).size).toBe(8);
    expect(looks[7]).toEqual({ colour: "var(--chart-2)", hollow: true, cuts: 1 });
  });
});
