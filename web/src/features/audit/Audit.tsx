import { useEffect, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { Prose } from "../../ui/Prose";
import "../../ui/refusals.css";
import { PolicyChoice } from "../policy/PolicyChoice";
import { usePolicies } from "../policy/Provenance";
import type { Audit as AuditState } from "./audit";
import { AuditStore } from "./audit-store";
import "./audit.css";
import { Batch } from "./Batch";
import { Intake } from "./Intake";
import { takeForAudit } from "./inbox";
import { Judgement } from "./Judgement";
import { VectorProof } from "./VectorProof";
import "./print.css";
import { announcement } from "./words";

/** Outlives the page: what was added is still there when its reader comes back. */
const store = new AuditStore();

const LINK = /^#receipt=([\w.-]+)$/;

/** Receipts from anywhere, judged in this tab. */
export default function Audit() {
  const { audit, sources } = useSyncExternalStore(store.subscribe, store.get);
  useEffect(() => {
    store.prepare();
    const handedOver = takeForAudit();
    if (handedOver.length > 0) store.set(handedOver);
    else fromLink();
    addEventListener("hashchange", fromLink);
    const unwatch = store.watch(document);
    return () => {
      removeEventListener("hashchange", fromLink);
      unwatch();
    };
  }, []);
  return (
    <div className="audit">
      <Intake store={store} />
      <PolicyChoice />
      <section className="audit-result" aria-labelledby="audit-title">
        <h2 id="audit-title" className="visually-hidden">
          Judgement
        </h2>
        <Outcome audit={audit} />
        <p className="visually-hidden" role="status">
          {sources.length > 0 && announcement(audit)}
        </p>
      </section>
      <VectorProof store={store} />
    </div>
  );
}

/** The fragment of an address is never sent to a server. */
function fromLink(): void {
  const receipt = LINK.exec(location.hash)?.[1];
  if (receipt) store.set([{ name: "receipt in the link", blob: new Blob([receipt]) }]);
}

function Outcome({ audit }: { audit: AuditState }) {
  switch (audit.at) {
    case "empty":
      return (
        <p className="audit-empty muted">
          Here you will see each check of the receipt with what was expected and what was found, its claims in
          plain words, and for a file of many, which numbers are missing or were given twice.
        </p>
      );
    case "reading":
      return <p className="muted">Reading what you added.</p>;
    case "failed":
      return (
        <div className="refusal audit-failed">
          <p>
            <strong>{audit.problem.title}.</strong>{" "}
            <Prose text={`${audit.problem.detail} ${audit.problem.remedy}`} />{" "}
            <code>{audit.problem.code}</code>
          </p>
          <Button icon="repeat" onClick={store.again}>
            Judge again
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
        <Judgement
          key={`${attempt}:${shown.index}`}
          store={store}
          index={shown.index}
          many={found.total > 1}
        />
      )}
    </>
  );
}

/** What else was among the sources, and applies to all receipts. */
function Context({ audit }: { audit: Extract<AuditState, { at: "judging" | "judged" }> }) {
  const { policy, key, total } = audit.found;
  const { chosen } = usePolicies();
  if (policy === null && key === null && total > 0) return null;
  return (
    <ul className="audit-context small">
      {policy?.applies && (
        <li>
          Judged by a policy that came with the evidence, <strong>{policy.name}</strong>: no verdict is better
          than SIMULATED.
        </li>
      )}
      {policy && !policy.applies && (
        <li>
          A policy came with this. It is not used: <strong>{policy.name}</strong>.{" "}
          {chosen ? "The one that you chose judges." : "The one built into this page judges."}
        </li>
      )}
      {key !== null && (
        <li>
          Receipts without evidence are judged under the key <code>{key.slice(0, 16)}…</code>, which you
          named.
        </li>
      )}
      {total === 0 && <li>There is no receipt yet: add one, or its bundle.</li>}
    </ul>
  );
}
