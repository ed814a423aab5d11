/**
 * Runs other people's clients against `clearseal proxy` over a simulated enclave, and compares their vectors with those of
 * `clearseal embed`. Installs each client in a temporary folder; needs the built programs (`CLEARSEAL_BIN_DIR`, default
 * target/release) and the model.
 *
 *     npm run clients -- [--only NAME]… [--write] [--project FOLDER]
 *
 * `--write` replaces the table of examples/README.md: all rows, or those of `--only`. `--project` keeps the installed clients.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { binary, endWithSignals, freePort, model, Program, ready, root } from "../fleet/processes.mjs";
import { CLIENTS, LANGUAGES } from "./catalogue.mjs";
import { compare, describe, replaceRows } from "./table.mjs";

const exec = promisify(execFile);
const README = join(root, "examples", "README.md");
const MODEL = "all-MiniLM-L6-v2";
const TEXTS = [
  "The cat sleeps on the sofa.",
  "Interest rates rose again.",
  "Ein Käfer, 甲虫 und a 🐞 walk into a bar.",
];

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    write: { type: "boolean" },
    project: { type: "string" },
  },
});
endWithSignals();
const project = options.project ?? mkdtempSync(join(tmpdir(), "clearseal-clients-"));
mkdirSync(project, { recursive: true });
const running = [];
try {
  const chosen = CLIENTS.filter(
    ({ name }) =>
      !options.only || options.only.some((part) => name.toLowerCase().includes(part.toLowerCase())),
  );
  if (chosen.length === 0) throw new Error("no client has that name");
  const service = await serve();
  const expected = await embed(service.url);
  const rows = [];
  for (const client of chosen) {
    const result = await tryClient(client, service, expected);
    rows.push({ ...client, result });
    process.stdout.write(
      `${client.name} (${client.language}) ${client.version}: ${describe(client, result)}\n`,
    );
    if (options.write) write(rows);
  }
  process.exitCode = rows.every(({ result }) => result.works) ? 0 : 1;
} finally {
  for (const program of running.reverse()) await program.stop();
  if (!options.project) rmSync(project, { recursive: true, force: true });
}

/** Starts an enclave, its host, and two proxies, one of them with TLS. */
async function serve() {
  const enclave = `tcp:127.0.0.1:${await freePort()}`;
  start("enclave-server", ["--listen", enclave, "--simulate-nsm", "--model", model]);
  const listen = `127.0.0.1:${await freePort()}`;
  start("host-proxy", ["--listen", listen, "--enclave", enclave]);
  const url = `http://${listen}`;
  await ready(`${url}/readyz`, running);
  const certificate = join(project, "certificate.pem");
  const secure = await startProxy(url, [`--tls-self-signed=${certificate}`]);
  const proxy = await startProxy(url, []);
  await ready(`http://${proxy}/healthz`, running);
  return { url, address: `http://${proxy}`, secure: `https://${secure}`, certificate };
}

async function startProxy(url, more) {
  const listen = `127.0.0.1:${await freePort()}`;
  start("clearseal", ["proxy", "--url", url, "--accept-simulated", "--listen", listen, ...more]);
  return listen;
}

function start(name, args) {
  running.push(new Program(binary(name), args));
}

/** The vectors of `clearseal embed`. */
async function embed(url) {
  const embedding = exec(binary("clearseal"), ["embed", "--url", url, "--accept-simulated"]);
  embedding.child.stdin.end(TEXTS.map((text) => `${text}\n`).join(""));
  const { stdout } = await embedding;
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).embedding);
}

/** Installs and runs one client: as its documentation has it, then with its setting if that fails. */
async function tryClient(client, service, expected) {
  const language = LANGUAGES[client.language];
  const folder = join(project, `${client.language}-${client.case}`);
  let command;
  try {
    mkdirSync(folder, { recursive: true });
    command = await language.install(folder, client);
  } catch (error) {
    return { works: false, stage: "install", why: reason(error) };
  }
  try {
    const first = await run(command, folder, client, service, expected, false);
    if (first.works || !client.setting) return first;
    return { ...(await run(command, folder, client, service, expected, true)), without: first.why };
  } finally {
    if (!options.project) rmSync(folder, { recursive: true, force: true });
  }
}

async function run([program, ...args], folder, client, service, expected, withSetting) {
  const input = {
    case: client.case,
    model: MODEL,
    texts: TEXTS,
    address: client.tls ? service.secure : service.address,
    setting: withSetting,
  };
  const environment = {
    ...process.env,
    CLIENT_INPUT: JSON.stringify(input),
    // Read by the TLS libraries of Python and Go, and by Node.
    ...(client.tls && { SSL_CERT_FILE: service.certificate, NODE_EXTRA_CA_CERTS: service.certificate }),
    ...client.environment,
  };
  try {
    const running = exec(program, args, {
      cwd: folder,
      env: environment,
      timeout: 300_000,
      maxBuffer: 64 * 1024 * 1024,
    });
    running.child.stdin.end();
    const { stdout } = await running;
    // Libraries print lines of their own before it.
    const vectors = JSON.parse(stdout.trim().split("\n").at(-1));
    return compare(vectors, expected);
  } catch (error) {
    return { works: false, stage: "run", why: reason(error) };
  }
}

/** The last line of a program's errors that states something. */
function reason(error) {
  const lines = `${error.stderr ?? ""}`
    .split("\n")
    .map((line) => line.trim())
    .filter(
      (line) => /error|exception|refused|failed|panic/i.test(line) && !/^at |^File |notice/i.test(line),
    );
  const line = lines.at(-1) ?? `${error.stderr || error.message}`.trim().split("\n").at(-1);
  return line.replaceAll(project, "").replaceAll("|", "\\|").slice(0, 200);
}

function write(rows) {
  writeFileSync(README, replaceRows(readFileSync(README, "utf8"), rows, new Date()));
}
