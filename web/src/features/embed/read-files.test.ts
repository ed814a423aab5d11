import { afterEach, describe, expect, it, vi } from "vitest";
import { readFiles } from "./read-files";

/** Enough lines for several slices. */
const LONG = "a line of text\n".repeat(10_000);

function harness() {
  const taken: string[] = [];
  const refused: string[] = [];
  const controller = new AbortController();
  const intake = {
    take: ({ name }: { name: string }) => void taken.push(name),
    refuse: ({ name }: { name: string }) => void refused.push(name),
  };
  const read = (...files: File[]) => readFiles(files, intake, controller.signal);
  return { taken, refused, controller, read };
}

afterEach(() => void vi.restoreAllMocks());

describe("readFiles", () => {
  it("delivers every file in order, and names those that it could not read", async () => {
    const { taken, refused, read } = harness();
    await read(new File(["x"], "a.txt"), new File(["x"], "b.bin"), new File([LONG], "c.txt"));
    expect(taken).toEqual(["a.txt", "c.txt"]);
    expect(refused).toEqual(["b.bin"]);
  });

  it("delivers nothing that is still being read when the input is cleared", async () => {
    const { taken, refused, controller, read } = harness();
    const reading = read(new File([LONG], "a.txt"), new File(["x"], "b.bin"));
    controller.abort();
    await reading;
    expect([...taken, ...refused]).toEqual([]);
  });

  it("stops between two slices of a long file", async () => {
    const { taken, controller, read } = harness();
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => {
      now += 10;
      if (now === 20) controller.abort();
      return now;
    });
    await read(new File([LONG], "a.txt"));
    expect(taken).toEqual([]);
    expect(now).toBe(20);
  });
});
