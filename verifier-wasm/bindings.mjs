// Runs before the build: makes the generated types of the module compile in programs without the DOM's library and without
// `Symbol.dispose`. A second run changes nothing.
import { readFileSync, writeFileSync } from "node:fs";

const path = new URL("pkg/clearseal_verifier.d.ts", import.meta.url);
const generated = readFileSync(path, "utf8");
const MARK = "/* Platform types are optional. */";

const HEAD = `${MARK}
type SubtleCrypto = typeof globalThis extends { readonly SubtleCrypto: { readonly prototype: infer Type } } ? Type : object;
type Disposable = typeof Symbol extends { readonly dispose: infer Key extends symbol } ? { [K in Key]: () => void } : {};
`;

/** Replaces the types of instantiation, which only index.ts uses. */
const TAIL = `export default function __wbg_init(options: { readonly module_or_path: unknown }): Promise<unknown>;

export interface Auditor extends Disposable {}
`;

if (!generated.includes(MARK)) {
  const end = generated.indexOf("export type InitInput");
  const kept = generated.slice(0, end).replaceAll(/^ *\[Symbol\.dispose\]\(\): void;\n/gm, "");
  if (end < 0 || /RequestInfo|BufferSource|WebAssembly/.test(kept)) {
    throw new Error("wasm-bindgen generated other types than before; adapt verifier-wasm/bindings.mjs");
  }
  writeFileSync(path, `${HEAD}\n${kept}${TAIL}`);
}
