import { expect, test } from "../fixtures/stack.ts";
import { DEVICES, load, measureSpeed } from "./load.ts";
import { CURVES, onCurve, scoreOf } from "./score.ts";

/** Minimum Lighthouse score, of 100. */
const BUDGET = 95;
/** Maximum number of loads. Other load only slows loads down, so the best one counts. */
const LOADS = 5;

for (const device of ["phone", "desktop"] as const) {
  for (const path of ["/", "/benchmarks", "/audit"]) {
    test(`${path} on a ${device} keeps its budget without layout shift`, async ({ browser, stack }) => {
      const loads = [];
      const speed = await measureSpeed(browser);
      do {
        const one = await load(browser, `${stack.url}${path}`, DEVICES[device], speed);
        const score = scoreOf(one, CURVES[device]);
        loads.push({ ...one, score });
        const { fcp, lcp, tbt, cls } = one;
        const times = [fcp, lcp, tbt].map(Math.round);
        process.stdout.write(
          `  ${path} on a ${device}, by a machine ${speed.toFixed(2)} times as fast as the budget's: ${score.toFixed(1)} of 100; first paint ${times[0]} ms, largest ${times[1]} ms, blocked ${times[2]} ms, moved ${cls.toFixed(3)}\n`,
        );
      } while (loads.every(({ score }) => score < BUDGET) && loads.length < LOADS);
      expect(Math.max(...loads.map(({ score }) => score)), "score").toBeGreaterThanOrEqual(BUDGET);
      for (const { cls, shifts } of loads) expect(cls, shifts.join("\n")).toBeLessThan(0.1);
    });
  }
}

test("a curve has the same points as in Lighthouse", () => {
  for (const curves of Object.values(CURVES)) {
    for (const curve of Object.values(curves)) {
      expect(onCurve(curve[0], curve)).toBeCloseTo(0.9, 5);
      expect(onCurve(curve[1], curve)).toBeCloseTo(0.5, 5);
    }
  }
  expect(scoreOf({ fcp: 0, lcp: 0, tbt: 0, cls: 0 }, CURVES.phone)).toBe(100);
});
