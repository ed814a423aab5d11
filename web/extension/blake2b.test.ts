import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { hashBlake2b } from "./blake2b";

test("the hash is that of another implementation, at every border of a block", () => {
  for (const length of [0, 1, 3, 127, 128, 129, 255, 256, 257, 4096, 10_001]) {
    const message = Uint8Array.from({ length }, (_, index) => (index * 7) & 0xff);
    const expected = createHash("blake2b512").update(message).digest("hex");
    expect(Buffer.from(hashBlake2b(message)).toString("hex"), `${length}`).toBe(expected);
  }
});
