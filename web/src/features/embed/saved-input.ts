import { readSession, writeSession } from "../../ui/session";
import { type DroppedFile, type Input, NO_INPUT } from "./input";

const KEY = "clearseal.input";

/** A browser stores about five million characters for a tab. */
const MAX_FILE_CHARACTERS = 1_000_000;

/** Keeps the input through reloads of this tab: always the text, and files as far as there is room. */
export function saveInput({ text, files }: Input): void {
  const empty = text === "" && files.length === 0;
  const size = files.reduce((sum, { table }) => sum + charactersOf(table.records), 0);
  const kept: Input = { text, files: size <= MAX_FILE_CHARACTERS ? files : [] };
  if (!writeSession(KEY, empty ? null : kept)) writeSession(KEY, { text, files: [] });
}

export function loadInput(): Input {
  const saved = readSession(KEY) as Partial<Input> | null;
  if (typeof saved?.text !== "string" || !Array.isArray(saved.files)) return NO_INPUT;
  return { text: saved.text, files: saved.files.filter(isFile) };
}

/** The record may come from an earlier version of the page. */
function isFile(file: Partial<DroppedFile> | null): file is DroppedFile {
  const { columns, records } = file?.table ?? {};
  return (
    typeof file?.id === "number" &&
    typeof file.name === "string" &&
    typeof file.column === "number" &&
    Array.isArray(columns) &&
    Array.isArray(records) &&
    records.every(Array.isArray)
  );
}

function charactersOf(records: readonly (readonly string[])[]): number {
  return records.reduce((sum, record) => record.reduce((length, { length: more }) => length + more, sum), 0);
}
