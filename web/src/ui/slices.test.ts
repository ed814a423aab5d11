import { describe, expect, it } from "vitest";
import { atOnce, inSlices, type Sliced } from "./slices";

function* counted(to: number, seen: number[]): Sliced<number> {
  for (let at = 0; at < to; at += 1) {
    seen.push(at);
    yield;
  }
  return to;
}

/** Takes longer than one slice. */
function* busy(): Sliced<number> {
  let rounds = 0;
  for (const end = performance.now() + 60; performance.now() < end; rounds += 1) yield;
  return rounds;
}

describe("sliced work", () => {
  it("has the same result at once and in slices", async () => {
    expect(atOnce(counted(5, []))).toBe(5);
    expect(await inSlices(counted(5, []))).toBe(5);
  });

  it("lets other tasks run in between", async () => {
    let others = 0;
    const timer = setInterval(() => {
      others += 1;
    }, 0);
    await inSlices(busy());
    clearInterval(timer);
    expect(others).toBeGreaterThan(1);
  });

  it("stops when aborted", async () => {
    const controller = new AbortController();
    const working = inSlices(busy(), controller.signal);
    controller.abort();
    await expect(working).rejects.toThrow();
  });
});
