import { expect, it } from "vitest";
import { scheduleDraw } from "./turns";

const tasks = () => new Promise((resolve) => setTimeout(resolve, 20));

it("draws one after the other, and none that has left", async () => {
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
  expect(drawn, "nothing within the task that asks").toEqual([]);
  await tasks();
  expect(drawn).toEqual(["first"]);
  leaveSecond();
  done.pop()?.();
  await tasks();
  expect(drawn).toEqual(["first", "third"]);
  // Gone in the middle of drawing.
  leaveThird();
  await tasks();
  expect(drawn).toEqual(["first", "third", "fourth"]);
  done.pop()?.();
});
