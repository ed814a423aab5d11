import { expect, it } from "vitest";
import { scheduleDraw } from "./draw-queue";

const tasks = () => new Promise((resolve) => setTimeout(resolve, 20));

it("draws one after the other, except cancelled ones", async () => {
  const drawn: string[] = [];
  const done: (() => void)[] = [];
  const ask = (name: string) =>
    scheduleDraw((finished) => {
      drawn.push(name);
      done.push(finished);
    });
  ask("first");
  const leaveSecond = ask("second");
  const leaveThird = ask("third");
  ask("fourth");
  expect(drawn, "nothing within the scheduling task").toEqual([]);
  await tasks();
  expect(drawn).toEqual(["first"]);
  leaveSecond();
  done.pop()?.();
  await tasks();
  expect(drawn).toEqual(["first", "third"]);
  // MissingRuns in the middle of drawing.
  leaveThird();
  await tasks();
  expect(drawn).toEqual(["first", "third", "fourth"]);
  done.pop()?.();
});
