import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "@playwright/test";
import { Client } from "../fixtures/client.ts";
import { blocks, type Run, read, run } from "../fixtures/printed.ts";
import { binary, root } from "../fixtures/processes.ts";

/** Runs the examples of `examples/` and of README as printed, in a copy of the folder. */

/** `bin` of a Python environment with `examples/requirements.txt`; empty if Python or the registry was unavailable. */
const python = process.env.CLEARSEAL_PYTHON ?? "";

let client: Client;
let folder: string;

test.beforeAll(async () => {
  client = await Client.start();
  folder = mkdtempSync(join(tmpdir(), "clearseal-examples-"));
  cpSync(join(root, "examples"), join(folder, "examples"), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const files = readdirSync(join(folder, "examples"), { recursive: true, withFileTypes: true });
  for (const file of files.filter((entry) => entry.isFile())) {
    const path = join(file.parentPath, file.name);
    writeFileSync(path, localise(readFileSync(path, "utf8")));
  }
});

test.afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await client.close();
});

/** Replaces the printed addresses, which another service may use, with those of this run. */
const localise = (text: string) =>
  text.replaceAll("http://127.0.0.1:8787", client.service).replaceAll("http://127.0.0.1:8788", client.proxy);

function shell(command: string): Promise<Run> {
  const programs = [python, binary("."), process.env.PATH].filter(Boolean).join(delimiter);
  return run("sh", ["-c", localise(command)], folder, {
    PATH: programs,
    CLEARSEAL_URL: client.service,
    LLAMA_INDEX_CACHE_DIR: folder,
    FORCE_COLOR: "0",
    PYTHONDONTWRITEBYTECODE: "1",
  });
}

function skipWithoutPython(title: string, needed: boolean): void {
  const missing = needed && !python;
  const reason = "no Python environment with examples/requirements.txt";
  const list = process.env.CLEARSEAL_SKIPPED;
  if (missing && list) appendFileSync(list, `${title}\t${reason}\n`);
  test.skip(missing, reason);
}

const printed = blocks(read("examples/README.md"), "sh");

for (const block of printed) {
  const lines = block.trim().split("\n");
  const command = lines.filter((line) => !line.startsWith("#")).join("\n");
  const expected = lines.filter((line) => line.startsWith("#")).map((line) => line.slice(2));
  test(command, async () => {
    skipWithoutPython(command, /python3|(postgres|qdrant)\/search/.test(command));
    const ended = await shell(command);
    expect(ended.status, ended.err).toBe(0);
    expect(ended.out.trim().split("\n")).toEqual(expected);
  });
}

test("every example is printed", () => {
  const programs = readdirSync(join(root, "examples"), { withFileTypes: true });
  for (const { name } of programs.filter((entry) => entry.isDirectory())) {
    expect(printed.join("\n"), name).toContain(`examples/${name}/`);
  }
});

test("LangChain's token ids are refused, with a remedy", async () => {
  const answer = await fetch(`${client.proxy}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    // "What did the central bank decide?" encoded with OpenAI's cl100k_base.
    body: JSON.stringify({ model: "all-MiniLM-L6-v2", input: [[3923, 1550, 279, 8792, 6201, 10491, 30]] }),
  });
  expect(answer.status).toBe(400);
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  expect(error.code).toBe("TOKENIZER_UNNAMED");
  expect(error.message).toContain("check_embedding_ctx_length=False");
});

const readme = read("README.md");

test("README, Python", async () => {
  skipWithoutPython("README, Python", true);
  const [example = ""] = blocks(readme, "python");
  writeFileSync(join(folder, "readme.py"), localise(example));
  const ended = await shell("python3 readme.py");
  expect(ended.out.trim(), ended.err).toBe("384");
});

test("README, Python without a proxy: a policy with a development root opens no session", async () => {
  skipWithoutPython("README, Python without a proxy", true);
  const [, example = ""] = blocks(readme, "python");
  const policy = await (await fetch(`${client.service}/v1/development-policy`)).text();
  writeFileSync(join(folder, "trust-policy.json"), policy);
  const guarded = example.replace("https://embed.example", client.service);
  writeFileSync(join(folder, "sealed.py"), guarded);
  const refused = await shell("python3 sealed.py");
  expect(refused.err).toContain("SIMULATION_REFUSED");
  expect(refused.status).not.toBe(0);
  const allowed = guarded.replace("policy=", "allow_simulated=True, policy=");
  writeFileSync(join(folder, "sealed.py"), `${allowed}print(client.models.list().data[0].id)\n`);
  const ended = await shell("python3 sealed.py");
  expect(ended.out.trim(), ended.err).toBe("all-MiniLM-L6-v2");
});

test("README, JavaScript", async () => {
  const [example = ""] = blocks(readme, "js");
  writeFileSync(join(folder, "readme.mjs"), localise(example));
  const ended = await shell("node readme.mjs");
  expect(ended.out.trim(), ended.err).toBe("384");
});

test("README, terminal", async () => {
  const terminal = blocks(readme, "sh").find((block) => block.includes("curl ")) ?? "";
  const command = terminal.split("\n").find((line) => line.startsWith("curl "));
  const ended = await shell(command ?? "false");
  expect(ended.status, ended.err).toBe(0);
  const { data } = JSON.parse(ended.out) as { data: { embedding: number[] }[] };
  expect(data[0]?.embedding).toHaveLength(384);
});
