import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { splitEvidence } from "../fixtures/evidence.ts";
import { blocks, read, run } from "../fixtures/printed.ts";
import { binary, root } from "../fixtures/processes.ts";
import { expect, type Stack, test } from "../fixtures/stack.ts";

/** Runs every printed example of a connection against a simulated service. */

/** Creates a project with the package installed. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-example-"));
  mkdirSync(join(folder, "node_modules", "@clearseal"), { recursive: true });
  symlinkSync(join(root, "verifier-wasm"), join(folder, "node_modules", "@clearseal", "verifier"));
  return folder;
}

/** Builds a script that defines the example's two free names, runs the example, and prints its result. */
function script(example: string, url: string, policy: string): string {
  const given = `const url = ${JSON.stringify(url)};\nconst policy = ${JSON.stringify(policy)};\n`;
  const print = 'console.log(connection.status.concat(" ", String(response.status)));';
  return `${given}${example}\n${print}\nprocess.exit(0);\n`;
}

async function developmentPolicy(stack: Stack): Promise<string> {
  return await (await fetch(`${stack.url}/v1/development-policy`)).text();
}

test("printed code sends nothing to a simulation, unless it explicitly allows one", async ({ stack }) => {
  const comment = read("verifier-wasm/js/index.ts").replace(/^ \* ?/gm, "");
  const examples = [...blocks(read("README.md"), "ts"), ...blocks(comment, "ts")];
  expect(examples).toHaveLength(3);
  const policy = await developmentPolicy(stack);
  const before = stack.host.requests("/v1/gateway").length;
  const folder = project();
  try {
    for (const [index, example] of examples.entries()) {
      const allowed = example.includes("allowSimulated: true");
      writeFileSync(join(folder, `${index}.mjs`), script(example, stack.url, policy));
      const ended = await run(process.execPath, [`${index}.mjs`], folder);
      const sent = stack.host.requests("/v1/gateway").length - before;
      if (allowed) {
        expect(ended.out.trim(), ended.err).toBe("simulated 200");
        expect(sent).toBe(1);
        continue;
      }
      // A chosen policy with a development root opens no session.
      expect(ended.err).toContain("is not verified: refused");
      expect(ended.status).not.toBe(0);
      expect(sent - examples.slice(0, index).filter((it) => it.includes("allowSimulated")).length).toBe(0);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("printed commands run, and none reports a simulation as verified", async ({ stack }) => {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-example-"));
  try {
    const policy = await developmentPolicy(stack);
    const nonce = "5a".repeat(32);
    const query = Buffer.from(nonce, "hex").toString("base64url");
    const answer = await fetch(`${stack.url}/v1/attestation?nonce=${query}`);
    const evidence = Buffer.from(await answer.arrayBuffer());
    writeFileSync(join(folder, "evidence.cbor"), evidence);
    writeFileSync(join(folder, "document.cbor"), splitEvidence(evidence).document);
    writeFileSync(join(folder, "trust-policy.json"), policy);
    writeFileSync(join(folder, "lines.txt"), "first line\nsecond line\n");
    const clearseal = binary("clearseal");
    const shell = (command: string) =>
      run("sh", ["-c", command], folder, { NONCE: nonce, CLEARSEAL_URL: stack.url });
    const made = await shell(`echo line | ${clearseal} embed --accept-simulated --receipts bundle.json`);
    expect(made.status, made.err).toBe(0);
    // The host publishes its log at fixed intervals.
    const logged = `${clearseal} verify log bundle.json --policy trust-policy.json --url ${stack.url}`;
    await expect
      .poll(async () => (await shell(logged)).err, { timeout: 20_000 })
      .not.toContain("RECEIPT_NOT_LOGGED");

    const terminal = blocks(read("README.md"), "sh").find((block) => block.includes("clearseal embed")) ?? "";
    const commands = terminal.split("\n").filter((line) => line.includes("target/release/clearseal"));
    expect(commands).toHaveLength(13);
    for (const command of commands) {
      const ended = await shell(
        command
          .replaceAll("target/release/clearseal", clearseal)
          .replaceAll("http://127.0.0.1:8787", stack.url),
      );
      const output = `${command}\n${ended.out}${ended.err}`;
      expect(ended.out, output).not.toMatch(/^VERIFIED/m);
      if (command.includes("--proofs")) {
        expect(ended.status, output).toBe(0);
        expect(ended.out).toBe("");
      } else if (command.includes("--accept-simulated")) {
        expect(ended.status, output).toBe(0);
        expect(ended.out.trim().split("\n")).toHaveLength(2);
        expect(ended.err).toContain("SIMULATED");
      } else if (command.includes("policy check")) {
        expect(ended.status, output).toBe(0);
        expect(ended.out).toContain("simulated at best");
      } else {
        // Without AWS's signature, the verdict is refused or simulated. Neither is a success.
        expect(ended.status, output).toBe(1);
        expect(`${ended.out}${ended.err}`, output).toMatch(
          /ROOT_NOT_PINNED|SIMULATED|SIMULATION_REFUSED|: simulated;/,
        );
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
