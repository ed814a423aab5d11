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
    expect(lookOf(later, steps)).toMatchObject({ hollow: false, cuts: 1 });
  });

  it("gives each of ours another shade of the accent, because lines have no marks inside", () => {
    const many = [own, later, run("third", "ours")];
    const steps = stepsOf([many]);
    const colours = many.map((one) => lookOf(one, steps).colour);
    expect(new Set(colours).size).toBe(3);
    for (const colour of colours) expect(colour).toContain("var(--chart-1)");
  });

  it("gives a peer one colour on every machine, and no other run this colour", () => {
    const [first, second, other] = ["a/onnx", "b/onnx", "b/candle"].map((key) => run(key, "ours", true)) as [
      Run,
      Run,
      Run,
    ];
    const sets = [
      [p, q, first],
      [r, other, second],
      [p, second, first],
    ];
    const steps = stepsOf(sets);
    const look = (one: Run) => lookOf(one, steps);
    expect(look(second).colour).toBe(look(first).colour);
    expect(look(second).cuts).not.toBe(look(first).cuts);
    for (const one of [p, q, r, other]) expect(look(one).colour).not.toBe(look(first).colour);
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
