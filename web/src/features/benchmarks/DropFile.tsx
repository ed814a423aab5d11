import { useRef, useState } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { useDropTarget } from "../../ui/useDropTarget";
import type { Problem } from "./check";
import "./drop-file.css";
import "./parts.css";
import type { Source } from "./runs";
import { readDropped } from "./sources";

/** Result of reading one file. */
type Outcome =
  | {
      readonly at: "read";
      readonly name: string;
      readonly runs: number;
      readonly relation: Relation;
      readonly notices: readonly Problem[];
    }
  | { readonly at: "refused"; readonly name: string; readonly problems: readonly Problem[] }
  | { readonly at: "foreign"; readonly name: string }
  | { readonly at: "failed"; readonly name: string; readonly why: string };

/** Relation to open files: new, the same contents, another file of this name, or the name of a published one. */
type Relation =
  | { readonly is: "new" }
  | { readonly is: "same"; readonly id: string }
  | { readonly is: "replaced" }
  | { readonly is: "published" };

interface DropFileProps {
  readonly onRead: (source: Source) => void;
  /** Sources opened before, and the page's own sources. */
  readonly dropped: readonly Source[];
  readonly own: readonly Source[];
}

/** Input for the user's result files, which stay in this tab. */
export function DropFile({ onRead, dropped, own }: DropFileProps) {
  const picker = useRef<HTMLInputElement>(null);
  const [reading, setReading] = useState<string | null>(null);
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);

  /** Reads the files one after the other, and reports on each. */
  const open = async (files: readonly File[]) => {
    if (files.length === 0) return;
    setOutcomes([]);
    let known = dropped;
    for (const file of files) {
      setReading(file.name);
      const { outcome, source } = await readResultFile(file, known, own);
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
    // Dropping needs a pointer; the button works for everyone.
    <div className="drop" {...target}>
      <p className="drop-line">
        <Button icon="file" onClick={() => picker.current?.click()}>
          Open result files
        </Button>
        <span className="muted small">
          or drop them here: JSON of this benchmark suite or in the published format.
        </span>
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
        {read.slice(0, MAX_REPORTED).map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: outcomes are only added, and names may repeat
          <Read key={index} outcome={one} />
        ))}
        {read.length > MAX_REPORTED && (
          <p className="muted">{plural(read.length - MAX_REPORTED, "more file")} read.</p>
        )}
      </div>
      <div role="alert" className="small">
        {refused.slice(0, MAX_REPORTED).map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: outcomes are only added, and names may repeat
          <Refused key={index} outcome={one} />
        ))}
        {refused.length > MAX_REPORTED && (
          <p>{plural(refused.length - MAX_REPORTED, "more file")} not read.</p>
        )}
      </div>
    </div>
  );
}

/** Number of files that are reported individually. */
const MAX_REPORTED = 5;

async function readResultFile(
  file: File,
  dropped: readonly Source[],
  own: readonly Source[],
): Promise<{ readonly outcome: Outcome; readonly source?: Source }> {
  const { name } = file;
  try {
    const taken = own.map(({ id }) => id);
    const reading = await readDropped(file, taken);
    if (reading.status === "refused") {
      const { problems, foreign } = reading;
      return { outcome: foreign ? { at: "foreign", name } : { at: "refused", name, problems } };
    }
    const { source, notices } = reading;
    const relation = relationOf(source, dropped, taken);
    if (relation.is === "same") return { outcome: { at: "read", name, runs: 0, relation, notices: [] } };
    return { source, outcome: { at: "read", name, runs: source.runs.length, relation, notices } };
  } catch (error) {
    return { outcome: { at: "failed", name, why: error instanceof Error ? error.message : String(error) } };
  }
}

function relationOf(source: Source, dropped: readonly Source[], taken: readonly string[]): Relation {
  const same = dropped.find(({ contents }) => contents !== undefined && contents === source.contents);
  if (same) return { is: "same", id: same.id };
  if (dropped.some(({ id }) => id === source.id)) return { is: "replaced" };
  return { is: taken.some((id) => source.id === `${id}-opened`) ? "published" : "new" };
}

function Read({ outcome: { name, runs, relation, notices } }: { outcome: Outcome & { at: "read" } }) {
  if (relation.is === "same")
    return (
      <p>
        {name} is open already, as {relation.id}. Nothing has changed.
      </p>
    );
  return (
    <>
      <p>
        {name}: {plural(runs, "run")} read. It stays in this tab.
        {relation.is === "replaced" && " It replaces the open file of this name."}
        {relation.is === "published" && " The page has figures of this name too: both are shown."}
      </p>
      {notices.length > 0 && (
        <details>
          <summary>{plural(notices.length, "field")} not known, and ignored</summary>
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
  if (outcome.at === "foreign") {
    return (
      <p className="drop-refused">
        <strong>{outcome.name} is not a benchmark file.</strong> It contains no environment and no figures.
        Open a file that <code>npm run bench</code> wrote, or one in the published format.
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
