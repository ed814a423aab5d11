// Downloads a model from a hub that answers like Hugging Face's. The task runner chooses the files:
//
//   node xtask/hub.mjs list ID REVISION    prints the commit of a revision and its files
//   node xtask/hub.mjs fetch LIST FOLDER   downloads the files of such a list, chosen before, into FOLDER
//
// `HF_ENDPOINT` names another hub. `HF_TOKEN` is sent to the hub, never to the servers that it redirects to.
//
// A list is { model, commit, files: [{ name, size, sha256 | git }] }: `sha256` is the SHA-256 of a file in large-file storage,
// `git` the SHA-1 of any other file as a Git blob. A file that has another digest is deleted.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** Attempts without a byte of progress before a download fails. */
const ATTEMPTS = 5;
/** Milliseconds without a byte after which a connection is closed. */
const SILENCE = 30_000;
/** Milliseconds between two lines of progress. */
const REPORT_EVERY = 1_000;

/** An answer that a further attempt does not change. */
class HubError extends Error {}

/** The hub of the environment. `pause` is the first back-off in milliseconds, and doubles. */
export function hubOf(environment, pause = 1_000) {
  const endpoint = environment.HF_ENDPOINT || "https://huggingface.co";
  if (!/^https?:\/\//.test(endpoint)) throw new HubError(`HF_ENDPOINT is not an HTTP address: ${endpoint}`);
  return { endpoint: endpoint.replace(/\/+$/, ""), token: environment.HF_TOKEN, pause };
}

/** The commit of a revision (branch, tag or commit), and its files. */
export async function listFiles(hub, model, revision) {
  const path = `/api/models/${escapePath(model)}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const about = await retry(hub, async () => (await request(hub, path, {}, silence())).json());
  if (!/^[0-9a-f]{40}$/.test(about?.sha) || !Array.isArray(about.siblings)) {
    throw new HubError(`${hub.endpoint} does not answer like Hugging Face's hub`);
  }
  const files = about.siblings.map(({ rfilename, size, blobId, lfs }) =>
    lfs ? { name: rfilename, size: lfs.size, sha256: lfs.sha256 } : { name: rfilename, size, git: blobId },
  );
  return { model, commit: about.sha, files };
}

/** Downloads the files of a list. The folder appears when it is complete; until then its files are in `FOLDER.partial`. */
export async function fetchFiles(hub, list, folder, report = () => {}) {
  const partial = `${resolve(folder)}.partial`;
  for (const [index, file] of list.files.entries()) {
    const path = join(partial, file.name);
    if (!path.startsWith(partial + sep))
      throw new HubError(`the hub names a file outside its folder: ${file.name}`);
    await mkdir(dirname(path), { recursive: true });
    const title = `${index + 1} of ${list.files.length}, ${file.name}`;
    await retry(hub, (progress) =>
      fetchFile(hub, list, file, path, (bytes) => {
        progress();
        report(
          `${title}: ${Math.floor((100 * bytes) / Math.max(file.size, 1))} % of ${megabytes(file.size)}`,
        );
      }),
    );
    await checkDigest(file, path);
  }
  await rename(partial, folder);
}

/** Downloads the rest of a file. */
async function fetchFile(hub, list, file, path, progress) {
  const output = await open(path, "a");
  try {
    let { size: held } = await output.stat();
    if (held > file.size) {
      await output.truncate(0);
      held = 0;
    }
    if (held === file.size) return;
    const headers = held > 0 ? { range: `bytes=${held}-` } : {};
    const timer = silence();
    const answer = await request(
      hub,
      `/${escapePath(list.model)}/resolve/${list.commit}/${escapePath(file.name)}`,
      headers,
      timer,
    );
    const continues =
      answer.status === 206 && answer.headers.get("content-range")?.startsWith(`bytes ${held}-`);
    if (held > 0 && !continues) {
      await output.truncate(0);
      held = 0;
    }
    for await (const chunk of answer.body) {
      timer.restart();
      held += chunk.length;
      if (held > file.size)
        throw new HubError(`${file.name} is longer than the ${file.size} bytes that the hub lists`);
      await output.write(chunk);
      progress(held);
    }
    if (held < file.size) throw new Error(`${file.name} ended after ${held} of ${file.size} bytes`);
  } finally {
    await output.close();
  }
}

async function checkDigest(file, path) {
  const digest = file.sha256
    ? createHash("sha256")
    : createHash("sha1").update(`blob ${(await stat(path)).size}\0`);
  for await (const chunk of createReadStream(path)) digest.update(chunk);
  const actual = digest.digest("hex");
  if (actual !== (file.sha256 ?? file.git)) {
    await rm(path);
    throw new HubError(
      `${file.name} has digest ${actual}, the hub lists ${file.sha256 ?? file.git}; start again`,
    );
  }
}

async function request(hub, path, headers, timer) {
  const authorization = hub.token ? { authorization: `Bearer ${hub.token}` } : {};
  const answer = await fetch(hub.endpoint + path, {
    // A range of a compressed file is not a range of the file.
    headers: { ...authorization, "accept-encoding": "identity", ...headers },
    signal: timer.signal,
  });
  if (answer.ok) return answer;
  await answer.body?.cancel();
  const message = `${hub.endpoint} answers ${answer.status}`;
  switch (answer.status) {
    case 401:
    case 403:
      throw new HubError(
        `${message}: the model does not exist, or needs HF_TOKEN of an account that accepted its terms`,
      );
    case 404:
      throw new HubError(`${message}: no such model, revision or file; check --model-id and --revision`);
    default:
      throw Object.assign(new Error(message), { retryAfter: Number(answer.headers.get("retry-after")) || 0 });
  }
}

/** Repeats `work` after failures of the network. `work` calls its argument when it has made progress. */
async function retry(hub, work) {
  let failures = 0;
  for (;;) {
    try {
      return await work(() => {
        failures = 0;
      });
    } catch (error) {
      if (error instanceof HubError || isLocal(error) || ++failures === ATTEMPTS) throw error;
      const pause = Math.max(hub.pause * 2 ** (failures - 1), 1_000 * (error.retryAfter ?? 0));
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}

/** A full disk or a folder without write permission: an error of the file system, which has a path or a call's name. */
function isLocal(error) {
  return (
    error.syscall !== undefined && ["open", "write", "mkdir", "ftruncate", "fstat"].includes(error.syscall)
  );
}

/** An abort signal that fires after a time without `restart`. */
function silence() {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`no byte for ${SILENCE / 1_000} s`)),
    SILENCE,
  ).unref();
  return { signal: controller.signal, restart: () => timer.refresh() };
}

function escapePath(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

function megabytes(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Prints lines, at most one a second. */
function reportSlowly() {
  let last = 0;
  return (line) => {
    if (Date.now() - last < REPORT_EVERY) return;
    last = Date.now();
    console.error(line);
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [verb, ...rest] = process.argv.slice(2);
  try {
    const hub = hubOf(process.env);
    if (verb === "list") console.log(JSON.stringify(await listFiles(hub, ...rest)));
    else await fetchFiles(hub, JSON.parse(await readFile(rest[0], "utf8")), rest[1], reportSlowly());
  } catch (error) {
    const cause = error.cause?.message ? ` (${error.cause.message})` : "";
    console.error(`${error.message}${cause}`);
    process.exitCode = 1;
  }
}
