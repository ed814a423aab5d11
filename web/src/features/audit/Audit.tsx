import { useEffect, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { Prose } from "../../ui/Prose";
import "../../ui/refusals.css";
import { readSession, writeSession } from "../../ui/session";
import { useSaved } from "../../ui/useSaved";
import { PolicyChoice } from "../policy/PolicyChoice";
import { usePolicies } from "../policy/Provenance";
import type { Audit as AuditState } from "./audit";
import { AuditStore } from "./audit-store";
import "./audit.css";
import { Appraisal } from "./Appraisal";
import { Batch } from "./Batch";
import { Intake } from "./Intake";
import { takeForAudit } from "./inbox";
import { VectorProof } from "./VectorProof";
import "./print.css";
import { announcement } from "./labels";

/** Outlives the route, so that added receipts stay when the user returns. */
const store = new AuditStore();

/** Text typed in this tab before a reload. */
const TYPED = "clearseal.audit";
const LINK = /^#receipt=([\w.-]+)$/;

/** Checks receipts from any source in this tab. */
export default function Audit() {
  const { audit, sources, typed } = useSyncExternalStore(store.subscribe, store.get);
  useSaved(typed, saveTyped);
  useEffect(() => {
    store.prepare();
    const handedOver = takeForAudit();
    if (handedOver.length > 0) store.set(handedOver);
    // They replace the text that was typed before a reload, too.
    if (handedOver.length > 0 || fromLink()) saveTyped(store.get().typed);
    else restoreTyped();
    addEventListener("hashchange", fromLink);
    const unwatch = store.watch(document);
    return () => {
      removeEventListener("hashchange", fromLink);
      unwatch();
    };
  }, []);
  return (
    <div className="audit" data-filled={sources.length > 0}>
      <Intake store={store} restored={typed !== "" && typed === restored} />
      {sources.length === 0 && <PolicyChoice />}
      <section className="audit-result" aria-labelledby="audit-title">
        <h2 id="audit-title" className="visually-hidden">
          Result
        </h2>
        <Outcome audit={audit} />
        <p className="visually-hidden" role="status">
          {sources.length > 0 && announcement(audit)}
        </p>
      </section>
      {sources.length > 0 && <PolicyChoice />}
      <VectorProof store={store} />
    </div>
  );
}

/** The fragment of an address is never sent to a server. */
function fromLink(): boolean {
  const receipt = LINK.exec(location.hash)?.[1];
  if (receipt) store.set([{ name: "receipt in the link", blob: new Blob([receipt]) }]);
  return receipt !== undefined;
}

function saveTyped(typed: string): void {
  writeSession(TYPED, typed === "" ? null : typed);
}

/** The text that this load restored, until something replaces it; "" for none. */
let restored = "";

function restoreTyped(): void {
  const typed = readSession(TYPED);
  if (typeof typed !== "string" || store.get().sources.length > 0 || store.get().typed !== "") return;
  restored = typed;
  store.type(typed);
}

function Outcome({ audit }: { audit: AuditState }) {
  switch (audit.at) {
    case "empty":
      return (
        <p className="audit-empty muted">
          The result shows each check of the receipt with its expected and observed values, and the receipt's
          claims. For several receipts, it also shows which sequence numbers are missing or repeated.
        </p>
      );
    case "reading":
      return <p className="muted">Reading your input.</p>;
    case "failed":
      return (
        <div className="refusal audit-failed">
          <p>
            <strong>{audit.problem.title}.</strong>{" "}
            <Prose text={`${audit.problem.detail} ${audit.problem.remedy}`} />{" "}
            <code>{audit.problem.code}</code>
          </p>
          <Button icon="repeat" onClick={store.again}>
            Check again
          </Button>
        </div>
      );
    default:
      return <Judged key={audit.attempt} audit={audit} />;
  }
}

function Judged({ audit }: { audit: Extract<AuditState, { at: "judging" | "judged" }> }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const { found, summaries, at, attempt } = audit;
  const only = found.total === 1 ? summaries[0] : undefined;
  const shown = only ?? (chosen === null ? undefined : summaries[chosen]);
  return (
    <>
      <Context audit={audit} />
      {found.total > 1 && <Batch audit={audit} chosen={chosen} onChoose={setChosen} />}
      {found.total > 1 && at === "judged" && !shown && (
        <p className="muted small">Choose a receipt to see its checks.</p>
      )}
      {shown && at === "judged" && (
        <Appraisal
          key={`${attempt}:${shown.index}`}
          store={store}
          index={shown.index}
          many={found.total > 1}
        />
      )}
    </>
  );
}

/** Other content of the sources that applies to all receipts. */
function Context({ audit }: { audit: Extract<AuditState, { at: "judging" | "judged" }> }) {
  const { policy, key, total } = audit.found;
  const { chosen } = usePolicies();
  if (policy === null && key === null && total > 0) return null;
  return (
    <ul className="audit-context small">
      {policy?.applies && (
        <li>
          Checked under a policy that came with the evidence, <strong>{policy.name}</strong>: no verdict is
          better than SIMULATED.
        </li>
      )}
      {policy && !policy.applies && (
        <li>
          The evidence includes a policy, which is not used: <strong>{policy.name}</strong>.{" "}
          {chosen ? "The policy that you chose applies." : "The policy built into this page applies."}
        </li>
      )}
      {key !== null && (
        <li>
          Receipts without evidence are checked with the key <code>{key.slice(0, 16)}…</code>, which you
          entered.
        </li>
      )}
      {total === 0 && <li>There is no receipt yet: add a receipt or its bundle.</li>}
    </ul>
  );
}
