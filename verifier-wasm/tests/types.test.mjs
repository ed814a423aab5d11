/** The package's types, compiled as a program of its users compiles them: libraries checked, and none of the DOM's. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const compiler = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));

/** Compiles `source` in a project that has the package installed; returns the compiler's errors. */
async function compile(source, options) {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-types-"));
  try {
    mkdirSync(join(folder, "node_modules", "@clearseal"), { recursive: true });
    symlinkSync(root, join(folder, "node_modules", "@clearseal", "verifier"));
    writeFileSync(join(folder, "main.ts"), source);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      target: "ES2022",
      types: [],
      ...options,
    };
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
    await run(process.execPath, [compiler, "-p", folder]);
    return "";
  } catch (failed) {
    return failed.stdout ?? String(failed);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const USE = `
import { Auditor, connect, initialise, judge, verifyVector, type Session, type StreamedBatch } from "@clearseal/verifier";

export async function embed(module: ArrayBuffer, texts: string[]): Promise<StreamedBatch[]> {
  await initialise(module);
  const connection = await connect("https://host.example", { policy: { format: "clearseal-trust-policy/1" } });
  if (connection.status !== "trusted") throw new Error(connection.status);
  const session: Session = connection.session;
  const response = await session.fetch("/v1/embeddings", { method: "POST", body: "{}" });
  const status: number = response.status;
  const parsed: unknown = await response.json();
  const batches: StreamedBatch[] = [];
  for await (const batch of session.stream(texts)) batches.push(batch);
  const auditor = new Auditor("{}");
  auditor.free();
  void [judge, verifyVector, status, parsed];
  return batches;
}
`;

const RESOLUTIONS = [
  { module: "NodeNext", moduleResolution: "NodeNext" },
  { module: "ESNext", moduleResolution: "Bundler" },
];

test("the types compile without the DOM's library, with every library checked", async () => {
  for (const resolution of RESOLUTIONS) {
    assert.equal(await compile(USE, { lib: ["ES2022"], ...resolution }), "");
  }
});

/** Assignable in both directions: not the minimal forms. */
const SAME = `
import type { ConnectOptions, ModuleSource, Session } from "@clearseal/verifier";
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
export const checks: true[] = [
  true satisfies Same<NonNullable<ConnectOptions["fetch"]>, typeof fetch>,
  true satisfies Same<NonNullable<ConnectOptions["signal"]>, AbortSignal>,
  true satisfies Same<Awaited<ReturnType<Session["fetch"]>>, Response>,
  true satisfies Same<Parameters<Session["fetch"]>[0], string | URL | Request>,
  true satisfies Same<NonNullable<Parameters<Session["fetch"]>[1]>, RequestInit>,
  true satisfies Same<Extract<ModuleSource, Response>, Response>,
];
`;

const WITH_DOM = `
export const socket: ConnectOptions["webSocket"] = WebSocket;
export const module: ModuleSource = new WebAssembly.Module(new Uint8Array(8));
`;

const DISPOSED = `
import { Auditor } from "@clearseal/verifier";
export function audit(): void {
  using auditor = new Auditor("{}");
  void auditor;
}
`;

test("a program with the platform's libraries gets the platform's types", async () => {
  const node = existsSync(fileURLToPath(new URL("../../node_modules/@types/node", import.meta.url)));
  assert.ok(node, "@types/node is installed");
  const typeRoots = [fileURLToPath(new URL("../../node_modules/@types", import.meta.url))];
  const [resolution] = RESOLUTIONS;
  const dom = { lib: ["ES2022", "DOM"], ...resolution };
  assert.equal(await compile(SAME + WITH_DOM, dom), "");
  assert.equal(
    await compile(SAME, { lib: ["ES2022"], types: ["node"], typeRoots, skipLibCheck: true, ...resolution }),
    "",
  );
  assert.equal(await compile(DISPOSED, { lib: ["ES2022", "ESNext.Disposable"], ...resolution }), "");
});

test("programs that do not read `exports` find the same files", () => {
  const { main, types, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert.equal(main, exports["."].default);
  assert.equal(types, exports["."].types);
  for (const file of [main, types, exports["./module.wasm"]]) assert.ok(existsSync(join(root, file)), file);
});
