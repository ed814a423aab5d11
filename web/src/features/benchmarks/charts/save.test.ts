import { expect, it } from "vitest";
import type { Run } from "../runs";
import type { Plot } from "./plot";
import { csvOf } from "./save";

it("writes unit, machine, source and date into each row, and escapes formulas", () => {
  const run = {
    key: "k",
    title: '=HYPERLINK("x")',
    kind: "ours",
    from: "a, b",
    record: { environment: "simulated", machine: { cpu: "EPYC" }, timestamp: "2026-11-22T00:00:00Z" },
    figures: [],
    peer: false,
    words: "",
  } satisfies Run;
  const plot: Plot = {
    title: "T",
    dimension: "time",
    axis: "Statistic",
    points: [{ run, category: "Mean", value: 12.5, published: "12.5 ms", note: "derived" }],
  };
  const [head, row, end] = csvOf(plot, [{ run, look: { colour: "", hollow: false, cuts: 0 } }]).split("\r\n");
  expect(head).toBe("Statistic,run,environment,machine,source,date,value,unit,as stated,note");
  expect(row).toBe(
    `Mean,"'=HYPERLINK(""x"")",simulated enclave,EPYC,"a, b",2026-11-22,12.5,ms,12.5 ms,derived`,
  );
  expect(end).toBe("");
});
