import { useRef, useState } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { useDropTarget } from "../../ui/useDropTarget";
import type { Problem } from "./check";
import "./drop-file.css";
import "./parts.css";
import type { Source } from "./runs";
import { readDropped } from "./sources";

/** What became of one file. */
type Outcome =
  | {
      readonly at: "read";
      readonly name: string;
      readonly runs: number;
      readonly before: Before;
      readonly notices: readonly Problem[];
    }
  | { readonly at: "refused"; readonly name: string; readonly problems: readonly Problem[] }
  | { readonly at: "failed"; readonly name: string; readonly why: string };

/** What was open already: nothing like it, the same contents under some name, or another file of this name. */
type Before =
  | { readonly was: "new" }
  | { readonly was: "same"; readonly id: string }
  | { readonly was: "replaced" }
  | { readonly was: "published" };

interface DropFileProps {
  readonly onRead: (source: Source) => void;
  /** What was opened before, and what the page has of itself. */
  readonly dropped: readonly Source[];
  readonly own: readonly Source[];
}

/** A way in for files of one's own. They are read here and go nowhere. */
export function DropFile({ onRead, dropped, own }: DropFileProps) {
  const picker = useRef<HTMLInputElement>(null);
  const [reading, setReading] = useState<string | null>(null);
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);

  /** One after the other; each is judged, and each is spoken of. */
  const open = async (files: readonly File[]) => {
    if (files.length === 0) return;
    setOutcomes([]);
    let known = dropped;
    for (const file of files) {
      setReading(file.name);
      const { outcome, source } = await judge(file, known, own);
      setOutcomes((before) => [...before, outcome]);
      if (!source) continue;
      known = [source, ...known.filter(({ id }) => id !== source.id)];
      onRead(source);
    }
    setReading(null);
  };
  const target = useDropTarget(({ files }) => void open([...files]), "files");
  const read = outcomes.filter((one) => one.at === "read");
  const refused = outcomes.filter((one) => one.at !== "read");

  return (
    // Dropping is a second way in for those with a pointer; the button does the same for everyone.
    <div className="drop" {...target}>
      <p className="drop-line">
        <Button icon="file" onClick={() => picker.current?.click()}>
          Open result files
        </Button>
        <span className="muted small">or drop them here: JSON of this suite or of the published format.</span>
      </p>
      <input
        ref={picker}
        type="file"
        accept=".json,application/json"
        multiple
        hidden
        aria-label="Result files"
        onChange={({ target }) => {
          void open([...(target.files ?? [])]);
          target.value = "";
        }}
      />
      <div role="status" className="small">
        {reading !== null && <p className="muted">Reading {reading}.</p>}
        {read.slice(0, MOST_SAID).map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: outcomes are only ever added, and two may have one name
          <Read key={index} outcome={one} />
        ))}
        {read.length > MOST_SAID && (
          <p className="muted">{plural(read.length - MOST_SAID, "more file")} read.</p>
        )}
      </div>
      <div role="alert" className="small">
        {refused.slice(0, MOST_SAID).map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: outcomes are only ever added, and two may have one name
          <Refused key={index} outcome={one} />
        ))}
        {refused.length > MOST_SAID && <p>{plural(refused.length - MOST_SAID, "more file")} not read.</p>}
      </div>
    </div>
  );
}

/** Files that are spoken of one by one. */
const MOST_SAID = 5;

async function judge(
  file: File,
  dropped: readonly Source[],
  own: readonly Source[],
): Promise<{ readonly outcome: Outcome; readonly source?: Source }> {
  const { name } = file;
  try {
    const taken = own.map(({ id }) => id);
    const reading = await readDropped(file, taken);
    if (reading.status === "refused") return { outcome: { at: "refused", name, problems: reading.problems } };
    const { source, notices } = reading;
    const before = beforeOf(source, dropped, taken);
    if (before.was === "same") return { outcome: { at: "read", name, runs: 0, before, notices: [] } };
    return { source, outcome: { at: "read", name, runs: source.runs.length, before, notices } };
  } catch (error) {
    return { outcome: { at: "failed", name, why: error instanceof Error ? error.message : String(error) } };
  }
}

function beforeOf(source: Source, dropped: readonly Source[], taken: readonly string[]): Before {
  const same = dropped.find(({ contents }) => contents !== undefined && contents === source.contents);
  if (same) return { was: "same", id: same.id };
  if (dropped.some(({ id }) => id === source.id)) return { was: "replaced" };
  return { was: taken.some((id) => source.id === `${id}-opened`) ? "published" : "new" };
}

function Read({ outcome: { name, runs, before, notices } }: { outcome: Outcome & { at: "read" } }) {
  if (before.was === "same")
    return (
      <p>
        {name} is open already, as {before.id}. Nothing has changed.
      </p>
    );
  return (
    <>
      <p>
        {name}: {plural(runs, "run")} read. It stays in this tab.
        {before.was === "replaced" && " It takes the place of the file of this name that was open already."}
        {before.was === "published" && " The page has figures of this name: both are shown."}
      </p>
      {notices.length > 0 && (
        <details>
          <summary>{plural(notices.length, "field")} not known, and left out</summary>
          <ul className="bench-list">
            {notices.map(({ path }) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function Refused({ outcome }: { outcome: Exclude<Outcome, { at: "read" }> }) {
  if (outcome.at === "failed") {
    return (
      <p className="drop-refused">
        <strong>{outcome.name} was not read.</strong> {outcome.why}. Split it, or open it again.
      </p>
    );
  }
  return (
    <div className="drop-refused">
      <p>
        <strong>{outcome.name} was not read.</strong> Correct this and open it again:
      </p>
      <ul className="bench-list">
        {outcome.problems.map(({ path, reason, code }) => (
          <li key={path + reason}>
            <code>{path}</code> {reason} <span className="muted tiny">{code}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
