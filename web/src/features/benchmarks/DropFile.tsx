import { useRef, useState } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { useDropTarget } from "../../ui/useDropTarget";
import type { Problem } from "./check";
import type { Source } from "./runs";
import { readDropped } from "./sources";

type State =
  | { readonly at: "idle" }
  | { readonly at: "reading"; readonly name: string }
  | {
      readonly at: "read";
      readonly name: string;
      readonly runs: number;
      /** It was open already. */
      readonly again: boolean;
      readonly notices: readonly Problem[];
    }
  | { readonly at: "refused"; readonly name: string; readonly problems: readonly Problem[] }
  | { readonly at: "failed"; readonly name: string; readonly why: string };

/** A way in for a file of one's own. It is read here and goes nowhere. */
export function DropFile(props: { onRead: (source: Source) => void; known: readonly Source[] }) {
  const { onRead, known } = props;
  const picker = useRef<HTMLInputElement>(null);
  const [state, setState] = useState<State>({ at: "idle" });

  const open = async (file: File | undefined) => {
    if (!file) return;
    const { name } = file;
    setState({ at: "reading", name });
    try {
      const reading = await readDropped(file);
      if (reading.status === "refused") {
        setState({ at: "refused", name, problems: reading.problems });
        return;
      }
      const { source, notices } = reading;
      const again = known.some(({ id }) => id === source.id);
      setState({ at: "read", name, runs: source.runs.length, again, notices });
      onRead(source);
    } catch (error) {
      setState({ at: "failed", name, why: error instanceof Error ? error.message : String(error) });
    }
  };
  const target = useDropTarget(({ files }) => void all(files));
  /** One after the other: each is judged, and the last one is spoken of. */
  const all = async (files: Iterable<File>) => {
    for (const file of files) await open(file);
  };

  return (
    // Dropping is a second way in for those with a pointer; the button does the same for everyone.
    <div className="drop" {...target}>
      <p className="drop-line">
        <Button icon="file" onClick={() => picker.current?.click()}>
          Open a result file
        </Button>
        <span className="muted small">or drop one here: JSON of this suite or of the published format.</span>
      </p>
      <input
        ref={picker}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label="Result file"
        onChange={({ target }) => {
          void open(target.files?.[0]);
          target.value = "";
        }}
      />
      <div role="status" className="small">
        {state.at === "reading" && <p className="muted">Reading {state.name}.</p>}
        {state.at === "read" && (
          <p>
            {state.name}: {plural(state.runs, "run")} read. It stays in this tab.
            {state.again && " It takes the place of the file of this name that was open already."}
          </p>
        )}
        {state.at === "read" && state.notices.length > 0 && (
          <details>
            <summary>{plural(state.notices.length, "field")} not known, and left out</summary>
            <ul className="bench-list">
              {state.notices.map(({ path }) => (
                <li key={path}>
                  <code>{path}</code>
                </li>
              ))}
            </ul>
          </details>
        )}
      </div>
      <div role="alert" className="small">
        {state.at === "refused" && (
          <div className="drop-refused">
            <p>
              <strong>{state.name} was not read.</strong> Correct this and open it again:
            </p>
            <ul className="bench-list">
              {state.problems.map(({ path, reason, code }) => (
                <li key={path + reason}>
                  <code>{path}</code> {reason} <span className="muted tiny">{code}</span>
                </li>
              ))}
            </ul>
          </div>
        )}
        {state.at === "failed" && (
          <p className="drop-refused">
            <strong>{state.name} was not read.</strong> {state.why}. Split it, or open it again.
          </p>
        )}
      </div>
    </div>
  );
}
