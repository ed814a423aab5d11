import { type ChangeEvent, type ClipboardEvent, type KeyboardEvent, useId, useRef, useState } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { type Refusal, Refusals } from "../../ui/Refusals";
import "../../ui/text-box.css";
import { useDropTarget } from "../../ui/useDropTarget";
import { type DroppedFile, type Input, MAX_TYPED_CHARACTERS, NO_INPUT } from "./input";
import { readFiles } from "./read-files";
import "./text-input.css";

interface TextInputProps {
  readonly input: Input;
  /** Number of items in the input. */
  readonly count: number;
  readonly onInput: (change: (input: Input) => Input) => void;
  /** Ctrl+Enter, or Command+Enter. */
  readonly onSubmit: () => void;
}

const EXAMPLE = [
  "The patient reports chest pain after climbing stairs.",
  "Angina is brought on by exertion.",
  "Our quarterly revenue fell short of the forecast.",
  "Sales in the third quarter were lower than planned.",
  "The cat sleeps on the warm radiator.",
  "A kitten naps next to the heater.",
].join("\n");

/** One item per line, and files whose records are items. The input ends with the tab. */
export function TextInput({ input, count: items, onInput, onSubmit }: TextInputProps) {
  const id = useId();
  const picker = useRef<HTMLInputElement>(null);
  const [refusals, setRefusals] = useState<readonly Refusal[]>([]);
  const [reading, setReading] = useState(() => new AbortController());
  const empty = input.text === "" && input.files.length === 0;

  const add = (files: readonly File[]) => {
    const others = (shown: readonly Refusal[], { name }: { name: string }) =>
      shown.filter((refusal) => refusal.name !== name);
    const take = (file: DroppedFile) => {
      onInput((before) => ({ ...before, files: [...before.files, file] }));
      setRefusals((shown) => others(shown, file));
    };
    const refuse = (refusal: Refusal) => setRefusals((shown) => [...others(shown, refusal), refusal]);
    setRefusals([]);
    void readFiles(files, { take, refuse }, reading.signal);
  };
  // The browser itself inserts dropped text into the box.
  const target = useDropTarget(({ files }) => add([...files]), "files");
  const onPick = (event: ChangeEvent<HTMLInputElement>) => {
    add([...(event.target.files ?? [])]);
    event.target.value = "";
  };
  const onPaste = (event: ClipboardEvent) => {
    const text = event.clipboardData.getData("text/plain");
    if (text.length + input.text.length <= MAX_TYPED_CHARACTERS) return;
    event.preventDefault();
    add([new File([text], "pasted text.txt", { type: "text/plain" })]);
  };

  const clear = () => {
    // A file that is still being read belongs to the cleared input.
    reading.abort();
    setReading(new AbortController());
    onInput(() => NO_INPUT);
    setRefusals([]);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onSubmit();
  };

  return (
    // Dropping needs a pointer; the button below works for everyone.
    <div className="text-input" {...target}>
      <label className="text-label" htmlFor={id}>
        One item per line
      </label>
      <textarea
        id={id}
        className="text-box"
        dir="auto"
        rows={6}
        spellCheck={false}
        autoComplete="off"
        value={input.text}
        aria-describedby={`${id}-note`}
        placeholder={
          "Type or paste here, or drop a .txt, .csv or .jsonl file.\nEach line becomes one vector."
        }
        onChange={(event) => onInput((before) => ({ ...before, text: event.target.value }))}
        onPaste={onPaste}
        onKeyDown={onKeyDown}
      />
      {input.files.length > 0 && (
        <ul className="files">
          {input.files.map((file) => (
            <FileLine key={file.id} file={file} onInput={onInput} />
          ))}
        </ul>
      )}
      <Refusals refusals={refusals} />
      <div className="text-actions">
        <Button kind="quiet" icon="file" onClick={() => picker.current?.click()}>
          Add files
        </Button>
        <input
          ref={picker}
          type="file"
          multiple
          accept=".txt,.text,.md,.csv,.tsv,.jsonl,.ndjson"
          hidden
          aria-label="Add files"
          onChange={onPick}
        />
        {empty ? (
          <Button kind="quiet" onClick={() => onInput(() => ({ text: EXAMPLE, files: [] }))}>
            Try six sentences
          </Button>
        ) : (
          <Button kind="quiet" icon="cross" onClick={clear}>
            Clear
          </Button>
        )}
        <span className="muted small number text-count">{plural(items, "item")}</span>
      </div>
      <p id={`${id}-note`} className="muted tiny">
        The text stays in this tab, and closing the tab discards it. <kbd>Ctrl</kbd>+<kbd>Enter</kbd> embeds.
      </p>
    </div>
  );
}

function FileLine({ file, onInput }: { file: DroppedFile; onInput: TextInputProps["onInput"] }) {
  const { columns, records } = file.table;
  const change = (column: number) => {
    onInput((before) => ({
      ...before,
      files: before.files.map((one) => (one.id === file.id ? { ...one, column } : one)),
    }));
  };
  const remove = () =>
    onInput((before) => ({ ...before, files: before.files.filter((one) => one.id !== file.id) }));
  return (
    <li className="file">
      <Icon name="file" />
      <span className="file-name">{file.name}</span>
      <span className="muted small number">
        {plural(records.length, "record")}
        {file.skipped !== undefined && `, ${plural(file.skipped, "line")} skipped`}
      </span>
      {columns.length > 1 && (
        <label className="small">
          <span className="muted">column</span>{" "}
          <select value={file.column} onChange={(event) => change(Number(event.target.value))}>
            {columns
              .map((name, index) => ({ name, index }))
              .map(({ name, index }) => (
                <option key={index} value={index}>
                  {name || `column ${index + 1}`}
                </option>
              ))}
          </select>
        </label>
      )}
      <Button kind="quiet" icon="cross" iconOnly onClick={remove}>
        Remove {file.name}
      </Button>
    </li>
  );
}
