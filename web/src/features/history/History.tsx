import { type ChangeEvent, useRef, useSyncExternalStore } from "react";
import { navigate } from "../../app/router";
import { Button } from "../../ui/Button";
import "../../ui/choice.css";
import { download } from "../../ui/download";
import { count, moment, plural } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { sendToAudit } from "../audit/inbox";
import { knownOrigin, ORIGIN_LABELS } from "../policy/origin";
import "./history.css";
import { type Kept, type Summary, toJsonl } from "./history";
import type { HistoryStore } from "./history-store";

const SHOWN = 8;

/** The receipts of this tab: export, import and audit them together. */
export function History({ history }: { history: HistoryStore }) {
  const { kept, forgotten, stored, problem } = useSyncExternalStore(history.subscribe, history.get);
  const picker = useRef<HTMLInputElement>(null);
  const onPick = async (event: ChangeEvent<HTMLInputElement>) => {
    const [file] = event.target.files ?? [];
    event.target.value = "";
    if (file) await history.import(file);
  };
  return (
    <section className="history" aria-labelledby="history-title">
      <h2 id="history-title">Receipts</h2>
      <p className="muted small history-lead">
        {kept.length === 0
          ? "Each answer comes with a signed receipt. This list collects them, without your text."
          : `${plural(kept.length, "receipt")}, without text and vectors.`}
      </p>
      <div className="history-actions">
        <Button
          icon="download"
          disabled={kept.length === 0}
          onClick={() => download("receipts.jsonl", "application/jsonl", toJsonl(kept.toReversed()))}
        >
          Export JSONL
        </Button>
        <Button icon="file" onClick={() => picker.current?.click()}>
          Import
        </Button>
        <input
          ref={picker}
          type="file"
          hidden
          accept=".jsonl,.ndjson,.json"
          aria-label="Import receipts"
          onChange={(event) => void onPick(event)}
        />
        <Button
          icon="arrow"
          disabled={kept.length === 0}
          onClick={() => {
            sendToAudit("receipts of the Embed page", toJsonl(kept.toReversed()));
            navigate("/audit");
          }}
        >
          Audit all
        </Button>
        {kept.length > 0 && (
          <Button kind="quiet" icon="cross" onClick={() => void history.clear()}>
            Forget all
          </Button>
        )}
        {forgotten.length > 0 && (
          <Button kind="quiet" icon="repeat" onClick={() => void history.remember()}>
            Undo: bring back {plural(forgotten.length, "receipt")}
          </Button>
        )}
      </div>
      <label className="small choice">
        <input
          type="checkbox"
          checked={stored}
          onChange={(event) => void history.store(event.target.checked)}
        />
        <span>
          Keep them in this browser when the tab closes.{" "}
          <span className="muted">Otherwise, closing the tab discards them.</span>
        </span>
      </label>
      <p role="alert" className="small history-problem">
        {problem}
      </p>
      {kept.length > 0 && (
        <ul className="history-list">
          {kept.slice(0, SHOWN).map((one) => (
            <Line key={one.id} one={one} />
          ))}
        </ul>
      )}
      {kept.length > SHOWN && (
        <p className="muted small">and {count(kept.length - SHOWN)} more; the audit shows them all</p>
      )}
    </section>
  );
}

function describeVerdict({ verdict, origin }: Summary): string {
  const known = knownOrigin(origin);
  return known ? `${verdict} ${ORIGIN_LABELS[known]}` : verdict;
}

function Line({ one }: { one: Kept }) {
  const { summary } = one;
  return (
    <li>
      <Icon name="file" />
      <span>
        {summary ? (
          <>
            no. {count(summary.sequence)}{" "}
            <span className="muted">
              {moment(summary.issuedAtMs)}, {plural(summary.items, "item")}, {describeVerdict(summary)} on
              receipt
            </span>
          </>
        ) : (
          <>
            imported <span className="muted">not checked here yet</span>
          </>
        )}
      </span>
      <Button
        kind="quiet"
        aria-label={summary ? `Audit receipt no. ${summary.sequence}` : "Audit the imported receipt"}
        onClick={() => {
          sendToAudit(summary ? `receipt no. ${summary.sequence}` : "imported receipt", one.bundle);
          navigate("/audit");
        }}
      >
        Audit
      </Button>
    </li>
  );
}
