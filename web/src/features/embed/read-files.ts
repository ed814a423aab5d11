import { count, plural } from "../../ui/format";
import type { Refusal } from "../../ui/Refusals";
import { inSlices } from "../../ui/slices";
import { type DroppedFile, MAX_FILE_BYTES, parseFileSliced } from "./input";

/** Receives each file that was read, and each that was not. */
export interface Intake {
  readonly take: (file: DroppedFile) => void;
  readonly refuse: (refusal: Refusal) => void;
}

/** Files of the tab before a reload have smaller numbers. */
let lastFile = Date.now();

/** Reads files one after the other, and delivers none after `signal` is aborted. */
export async function readFiles(
  files: readonly File[],
  { take, refuse }: Intake,
  signal: AbortSignal,
): Promise<void> {
  for (const file of files) {
    const outcome = await read(file, take, signal).catch((cause: unknown) => {
      if (signal.aborted) return null;
      throw cause;
    });
    if (outcome === null || signal.aborted) return;
    if ("why" in outcome) refuse(outcome);
    else take(outcome);
  }
}

async function read(file: File, take: Intake["take"], signal: AbortSignal): Promise<DroppedFile | Refusal> {
  if (file.size > MAX_FILE_BYTES) {
    return {
      name: file.name,
      why: `It is larger than ${count(MAX_FILE_BYTES / 1024 / 1024)} MiB.`,
      remedy: "Split it, or use the command `clearseal embed`, which streams.",
    };
  }
  let bytes: ArrayBuffer;
  try {
    bytes = await file.arrayBuffer();
  } catch {
    return {
      name: file.name,
      why: "The browser could not read it.",
      remedy: "Check that it still exists and that you may read it, then add it again.",
    };
  }
  let content: string;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { name: file.name, why: "It is not UTF-8 text.", remedy: "Save it as UTF-8 and drop it again." };
  }
  const parsed = await inSlices(parseFileSliced(file.name, content), signal);
  lastFile += 1;
  const id = lastFile;
  if (parsed.status === "read") return { id, name: file.name, table: parsed.table, column: parsed.column };
  const { why, remedy, rest } = parsed;
  if (!rest) return { name: file.name, why, remedy };
  const { table, column, skipped } = rest;
  const label = `Skip ${plural(skipped.length, "line")}, take ${plural(table.records.length, "record")}`;
  const act = () => take({ id, name: file.name, table, column, skipped: skipped.length });
  return { name: file.name, why, remedy, alternative: { label, act } };
}
