import { useDeferredValue, useMemo, useState } from "react";
import { Button } from "../../ui/Button";
import { count, plural } from "../../ui/format";
import { groupIfLong } from "./group";
import { headingOf } from "./names";
import "./parts.css";
import { ENVIRONMENTS } from "./record.gen";
import "./run-picker.css";
import { dateOf, MAX_CHOSEN, machineOf, type Run } from "./runs";

/** Number of rendered rows; a file may contain ten thousand. */
const MAX_LISTED = 60;

interface RunPickerProps {
  readonly all: readonly Run[];
  readonly chosen: readonly Run[];
  readonly onChoose: (keys: readonly string[]) => void;
  /** Returns to the view's default; null while the default is shown. */
  readonly onReset: (() => void) | null;
}

/** Selects the runs that the charts show. */
export function RunPicker({ all, chosen, onChoose, onReset }: RunPickerProps) {
  const [search, setSearch] = useState("");
  const searched = useDeferredValue(search);
  const found = useMemo(() => {
    const wanted = searched.toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length === 0) return all;
    return all.filter(({ words }) => wanted.every((word) => words.includes(word)));
  }, [all, searched]);
  const keys = new Set(chosen.map(({ key }) => key));
  const full = keys.size >= MAX_CHOSEN;
  const toggle = (key: string) => {
    const next = keys.has(key) ? [...keys].filter((one) => one !== key) : [...keys, key];
    onChoose(next);
  };
  return (
    <details className="picker">
      <summary>
        <span className="picker-title">Runs</span>
        <span className="muted small number">
          {count(keys.size)} of {count(all.length)} shown
        </span>
      </summary>
      <div className="picker-body">
        <div className="picker-head">
          <label className="small">
            <span className="visually-hidden">Search runs</span>
            <input
              className="bench-field"
              type="search"
              spellCheck={false}
              autoComplete="off"
              value={search}
              placeholder="Search by name, machine, commit"
              onChange={({ target }) => setSearch(target.value)}
            />
          </label>
          {onReset && (
            <Button kind="quiet" onClick={onReset}>
              Show the default runs
            </Button>
          )}
        </div>
        <div className="picker-list">
          {groupIfLong(found.slice(0, MAX_LISTED), headingOf).map(({ heading, items }) => (
            <section key={heading} aria-label={heading ?? undefined}>
              {heading !== null && <h2 className="small">{heading}</h2>}
              <ul>
                {items.map((run) => (
                  <Choice
                    key={run.key}
                    run={run}
                    checked={keys.has(run.key)}
                    disabled={full && !keys.has(run.key)}
                    onToggle={() => toggle(run.key)}
                  />
                ))}
              </ul>
            </section>
          ))}
        </div>
        <p className="muted tiny" role="status">
          {found.length > MAX_LISTED
            ? `The first ${MAX_LISTED} of ${plural(found.length, "run")}; search to narrow them down.`
            : plural(found.length, "run")}
          {full && ` The charts show at most ${MAX_CHOSEN} runs: untick one to choose another.`}
        </p>
      </div>
    </details>
  );
}

interface ChoiceProps {
  readonly run: Run;
  readonly checked: boolean;
  readonly disabled: boolean;
  readonly onToggle: () => void;
}

function Choice({ run: { title, record }, checked, disabled, onToggle }: ChoiceProps) {
  const about = [ENVIRONMENTS[record.environment], machineOf(record), dateOf(record), record.commit];
  return (
    <li>
      <label>
        <input type="checkbox" checked={checked} disabled={disabled} onChange={onToggle} />
        <span>
          {title}
          <span className="muted tiny picker-about">{about.filter(Boolean).join(" · ")}</span>
        </span>
      </label>
    </li>
  );
}
