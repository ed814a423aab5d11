import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkFreshness, MAX_AGE_SECONDS, parseKey, verifySignature } from "./minisign";

/** Made by minisign 0.11. */
const read = (name: string) =>
  readFileSync(join(import.meta.dirname, "../../crates/release/tests", name), "utf8");
const KEY = parseKey(read("minisign.pub"));
const SIGNATURE = read("hello.minisig");
const HELLO = new TextEncoder().encode("hello\n");

test("a signature by minisign is verified, and its time is read", async () => {
  expect(await verifySignature(KEY, HELLO, SIGNATURE)).toBe(1_795_568_784);
  const line = read("minisign.pub").trim().split("\n")[1] ?? "";
  expect(parseKey(line)).toEqual(KEY);
});

test("another file, key, comment or signature is refused", async () => {
  const other = { ...KEY, key: KEY.key.map((byte, at) => (at === 0 ? byte ^ 1 : byte)) };
  const cases: [typeof KEY, Uint8Array, string, RegExp][] = [
    [KEY, new TextEncoder().encode("hello!"), SIGNATURE, /not over this release/],
    [KEY, HELLO, SIGNATURE.replace("1795568784", "1795568785"), /not over this release/],
    [other, HELLO, SIGNATURE, /not over this release/],
    [{ ...KEY, id: "00" }, HELLO, SIGNATURE, /another key/],
    [KEY, HELLO, SIGNATURE.replace("\nRU", "\nRW"), /not a minisign signature/],
    [KEY, HELLO, `${SIGNATURE}more\n`, /not a minisign signature/],
    [KEY, HELLO, "", /not a minisign signature/],
  ];
  for (const [key, file, signature, why] of cases) {
    await expect(verifySignature(key, file, signature)).rejects.toThrow(why);
  }
});

test("other texts are not keys", () => {
  for (const text of ["", "RW", "no key", `${read("minisign.pub")}more\n`, SIGNATURE]) {
    expect(() => parseKey(text), text).toThrow(/not a minisign key/);
  }
});

test("a signature is valid for seven days", () => {
  const signed = 1_800_000_000;
  for (const now of [signed - 300, signed, signed + MAX_AGE_SECONDS]) {
    expect(() => checkFreshness(signed, now)).not.toThrow();
  }
  expect(() => checkFreshness(signed, signed + MAX_AGE_SECONDS + 1)).toThrow(/seven days/);
  expect(() => checkFreshness(signed, signed - 301)).toThrow(/future/);
});
