import { useDeferredValue, useState } from "react";
import { Button } from "../../ui/Button";
import { count, plural } from "../../ui/format";
import { ENVIRONMENTS } from "./record.gen";
import { MOST_CHOSEN, type Run } from "./runs";

/** Rows that are drawn; a file may bring ten thousand. */
const MOST_LISTED = 60;

interface RunPickerProps {
  readonly all: readonly Run[];
  readonly chosen: readonly Run[];
  readonly onChoose: (keys: readonly string[]) => void;
  /** Back to what the view suggests; null where that is what is shown. */
  readonly onReset: (() => void) | null;
}

/** Which runs the charts show. */
export function RunPicker({ all, chosen, onChoose, onReset }: RunPickerProps) {
  const [search, setSearch] = useState("");
  const words = useDeferredValue(search).toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    words.length === 0 ? all : all.filter((run) => words.every((word) => textOf(run).includes(word)));
  const keys = new Set(chosen.map(({ key }) => key));
  const full = keys.size >= MOST_CHOSEN;
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
              type="search"
              value={search}
              placeholder="Search by name, machine, commit"
              onChange={({ target }) => setSearch(target.value)}
            />
          </label>
          {onReset && (
            <Button kind="quiet" onClick={onReset}>
              Show what the view suggests
            </Button>
          )}
        </div>
        <ul className="picker-list">
          {found.slice(0, MOST_LISTED).map((run) => (
            <li key={run.key}>
              <label>
                <input
                  type="checkbox"
                  checked={keys.has(run.key)}
                  disabled={full && !keys.has(run.key)}
                  onChange={() => toggle(run.key)}
                />
                <span>
                  {run.title}
                  <span className="muted tiny picker-about">
                    {[
                      ENVIRONMENTS[run.record.environment],
                      run.record.hardware,
                      run.record.timestamp,
                      run.record.commit,
                    ]
                      .filter(Boolean)
                      .join(" · ")}
                  </span>
                </span>
              </label>
            </li>
          ))}
        </ul>
        <p className="muted tiny" role="status">
          {found.length > MOST_LISTED
            ? `The first ${MOST_LISTED} of ${plural(found.length, "run")}; search to narrow them down.`
            : plural(found.length, "run")}
          {full && ` At most ${MOST_CHOSEN} can be told apart at once: untick one to choose another.`}
        </p>
      </div>
    </details>
  );
}

const texts = new WeakMap<Run, string>();

/** What a search looks through; made when the first one does, because a file may bring ten thousand runs. */
function textOf(run: Run): string {
  const known = texts.get(run);
  if (known !== undefined) return known;
  const { environment, hardware = "", commit = "", timestamp = "", machine } = run.record;
  const text =
    `${run.title} ${run.from} ${ENVIRONMENTS[environment]} ${hardware} ${commit} ${timestamp} ${machine?.cpu ?? ""}`.toLowerCase();
  texts.set(run, text);
  return text;
}
