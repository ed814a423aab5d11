import { fetchPageFile } from "../../ui/page-file";
import { startWorker } from "../../ui/worker";
import { nameOf } from "./names";
import { MAX_BYTES } from "./read";
import type { Question } from "./reader.worker";
import script from "./reader.worker.ts?worker&url";
import type { RecordFile } from "./record.gen";
import { type Answer, type Dropped, type Run, type Source, sourceOf } from "./runs";

const REFERENCE = import.meta.glob<string>("../../../../benchmarks/reference/*.json", {
  query: "?url",
  import: "default",
  eager: true,
});
const RESULTS = import.meta.glob<string>("../../../../benchmarks/results/*.json", {
  query: "?url",
  import: "default",
  eager: true,
});

/** Fetches the published reports and our runs from the page's own origin. */
export async function loadSources(signal: AbortSignal): Promise<readonly Source[]> {
  const ours = Object.entries(RESULTS).map(([path, url]) => load(path, url, "ours", signal));
  const published = Object.entries(REFERENCE).map(([path, url]) => load(path, url, "published", signal));
  return Promise.all([...ours, ...published]);
}

async function load(
  path: string,
  url: string,
  kind: "ours" | "published",
  signal: AbortSignal,
): Promise<Source> {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const answer = await fetchPageFile(url, { signal });
  if (!answer.ok) throw new Error(`${name} could not be loaded: the server answered ${answer.status}`);
  // Not validated again: the file is part of the page, a test validates every such file, and validation takes longer than
  // drawing.
  const { records, ...file } = (await answer.json()) as RecordFile;
  const source = sourceOf(name, kind, { status: "read", file, records, notices: [] });
  if (kind !== "ours") return source;
  const runs = source.runs.map((run) => ({ ...run, title: nameOf(run) }));
  return { ...source, runs, byKey: new Map(runs.map((run) => [run.key, run])) };
}

const TIMEOUT_MS = 30_000;

/** Reads a dropped file in a worker, which is terminated after a timeout. */
export async function readDropped(file: File, taken: readonly string[]): Promise<Dropped> {
  if (file.size > MAX_BYTES) {
    const [size, most] = [file.size, MAX_BYTES].map((bytes) => Math.floor(bytes / 1024 / 1024));
    const reason = `the file has ${size} MiB, at most ${most} are read`;
    return { status: "refused", problems: [{ code: "RECORD_TOO_LARGE", path: "$", reason }] };
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const worker = startWorker<Question, Answer>(script, "clearseal-reader");
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const runs: Run[] = [];
    const byKey = new Map<string, Run>();
    return await new Promise<Dropped>((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("reading it took longer than 30 seconds")), TIMEOUT_MS);
      worker.onmessage = ({ data }: MessageEvent<Answer>) => {
        if (data.status === "part") {
          for (const run of data.runs) {
            runs.push(run);
            byKey.set(run.key, run);
          }
        } else resolve(data.status === "read" ? { ...data, source: { ...data.source, runs, byKey } } : data);
      };
      worker.onerror = ({ message }) => reject(new Error(message.replace(/\.$/, "") || "the reader failed"));
      worker.postMessage({ name: file.name, bytes, taken }, [bytes.buffer]);
    });
  } finally {
    clearTimeout(timer);
    worker.terminate();
  }
}
