import {
  type ChangeEvent,
  type ClipboardEvent,
  useEffect,
  useId,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { Button } from "../../ui/Button";
import { bytes, count } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { type Refusal, Refusals } from "../../ui/Refusals";
import "../../ui/text-box.css";
import { useDropTarget } from "../../ui/useDropTarget";
import { type AuditStore, MAX_FILE_BYTES, MAX_PASTED_CHARACTERS } from "./audit-store";
import "./intake.css";
import { pasteDestination } from "./paste";
import { type LoadedSamples, loadSamples, SAMPLES } from "./samples";

interface IntakeProps {
  readonly store: AuditStore;
  /** The text box contains what an earlier load left, unchanged: new input replaces it instead of joining it. */
  readonly restored: boolean;
}

/** Input of receipts: pasted, dropped, chosen, or samples. */
export function Intake({ store, restored }: IntakeProps) {
  const id = useId();
  const picker = useRef<HTMLInputElement>(null);
  const { sources, typed } = useSyncExternalStore(store.subscribe, store.get);
  const [refusals, setRefusals] = useState<readonly Refusal[]>([]);
  const samples = useSamples();
  const named = sources.filter((source) => source.name !== "");
  const addSources = restored ? store.set : store.add;

  const add = (files: Iterable<File>) => {
    const all = [...files];
    const tooLarge = all.filter((file) => file.size > MAX_FILE_BYTES);
    setRefusals(tooLarge.map(({ name, size }) => refusal(name, size, MAX_FILE_BYTES, TOO_LARGE_FILE)));
    const rest = all.filter((file) => file.size <= MAX_FILE_BYTES);
    if (rest.length > 0) addSources(rest.map((file) => ({ name: file.name, blob: file })));
  };
  /** Adds text that is too long for the box. */
  const addText = (what: string, text: string, destination: "attachment" | "too-long") => {
    if (destination === "attachment") addSources([{ name: `${what} text`, blob: new Blob([text]) }]);
    else setRefusals([refusal(`The ${what} text`, text.length, MAX_PASTED_CHARACTERS, TOO_LARGE_PASTE)]);
  };
  const target = useDropTarget((dropped) => {
    if (dropped.files.length > 0) {
      add(dropped.files);
      return;
    }
    const text = dropped.getData("text/plain");
    // A dragged image or element: keep the typed text.
    if (text === "") return;
    setRefusals([]);
    const destination = pasteDestination(text, 0);
    if (destination === "box") store.type(text);
    else addText("dropped", text, destination);
  });
  const onPick = (event: ChangeEvent<HTMLInputElement>) => {
    add([...(event.target.files ?? [])]);
    event.target.value = "";
  };
  const onPaste = (event: ClipboardEvent<HTMLTextAreaElement>) => {
    const { files } = event.clipboardData;
    if (files.length > 0) {
      event.preventDefault();
      add(files);
      return;
    }
    const text = event.clipboardData.getData("text/plain");
    setRefusals([]);
    const destination = pasteDestination(text, restored ? 0 : typed.length);
    if (destination === "box") {
      // The browser pastes over the selection, and can undo that.
      if (restored && text !== "") event.currentTarget.select();
      return;
    }
    event.preventDefault();
    addText("pasted", text, destination);
  };

  return (
    // Dropping needs a pointer; the button below works for everyone.
    <section className="audit-intake text-input" aria-label="Receipts to audit" {...target}>
      <label className="text-label" htmlFor={id}>
        Receipt, audit bundle, or a file of several
      </label>
      <textarea
        id={id}
        className="text-box audit-box mono"
        rows={sources.length === 0 ? 5 : 1}
        spellCheck={false}
        autoComplete="off"
        value={typed}
        aria-describedby={`${id}-note`}
        placeholder="Paste it here, or drop a file. Hex, base64, JSON, JSONL and raw bytes are recognised."
        onChange={(event) => store.type(event.target.value)}
        onPaste={onPaste}
      />
      {named.length > 0 && (
        <ul className="files">
          {named.map((source) => (
            <li key={source.id} className="file">
              <Icon name="file" />
              <span className="file-name">{source.name}</span>
              <span className="muted small number">{bytes(source.blob.size)}</span>
              <Button kind="quiet" icon="cross" iconOnly onClick={() => store.remove(source.id)}>
                Remove {source.name}
              </Button>
            </li>
          ))}
        </ul>
      )}
      <Refusals refusals={refusals} />
      <div className="text-actions">
        <Button kind="quiet" icon="file" onClick={() => picker.current?.click()}>
          Add files
        </Button>
        <input ref={picker} type="file" multiple hidden aria-label="Add files" onChange={onPick} />
        {sources.length > 0 && (
          <Button
            kind="quiet"
            icon="cross"
            onClick={() => {
              setRefusals([]);
              store.clear();
            }}
          >
            Clear
          </Button>
        )}
        <SampleButtons loaded={samples} store={store} />
      </div>
      <p id={`${id}-note`} className="muted tiny">
        You can add a receipt key (64 hex digits) the same way. A trust policy added here counts as evidence,
        and its best verdict is SIMULATED: choose your own policy below. Everything stays in this tab.
      </p>
    </section>
  );
}

function SampleButtons({ loaded, store }: { loaded: LoadedSamples; store: AuditStore }) {
  if (loaded.at === "absent") return null;
  if (loaded.at === "changed") {
    return (
      <p className="small" role="alert">
        No samples: {loaded.why}. Enter nothing in a page of this server until you know why.
      </p>
    );
  }
  const { samples } = loaded;
  return (
    <fieldset className="audit-samples">
      <legend className="visually-hidden">Samples</legend>
      <span className="muted small">SIMULATED samples:</span>
      {SAMPLES.map(({ key, label }) => (
        <Button
          key={key}
          kind="quiet"
          onClick={() =>
            store.set([
              { name: `${label}, simulated`, blob: new Blob([samples[key]]) },
              { name: "policy of the samples, development root", blob: new Blob([samples.policy]) },
            ])
          }
        >
          {label}
        </Button>
      ))}
    </fieldset>
  );
}

/** Loads the samples with the page, so that they work offline. */
function useSamples(): LoadedSamples {
  const [samples, setSamples] = useState<LoadedSamples>({ at: "absent" });
  useEffect(() => {
    let unmounted = false;
    void loadSamples().then((loaded) => {
      if (!unmounted) setSamples(loaded);
    });
    return () => {
      unmounted = true;
    };
  }, []);
  return samples;
}

const TOO_LARGE_FILE = "Split it between lines, or use the command `clearseal verify receipt`.";
const TOO_LARGE_PASTE = "Save it as a file and drop the file, which is read in pieces.";

function refusal(name: string, size: number, limit: number, remedy: string): Refusal {
  const why = `It has ${bytes(size)}; the limit is ${count(limit / 1024 / 1024)} MiB.`;
  return { name, why, remedy };
}
