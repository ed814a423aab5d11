import type { VectorAppraisal } from "@clearseal/verifier";
import { useId, useState } from "react";
import { count, plural } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Prose } from "../../ui/Prose";
import "../../ui/text-box.css";
import { CheckList } from "../attestation/CheckList";
import "../attestation/seal.css";
import { Provenance } from "../policy/Provenance";
import { faceOf } from "./audit";
import type { AuditStore } from "./audit-store";
import { Claims } from "./Claims";
import { type Query, useQuery } from "./query";
import "./compare.css";
import "./vector-proof.css";
import { AUDIT_FACES } from "./labels";

/** Checks one row of an index with its stored proof. Needs and shows no other row. */
export function VectorProof({ store }: { store: AuditStore }) {
  const id = useId();
  const [row, setRow] = useState("");
  const [proof, setProof] = useState("");
  const { query, ask, drop } = useQuery<VectorAppraisal>(store);
  const field = (name: string, label: string, rows: number, value: string, set: (value: string) => void) => (
    <>
      <label className="text-label" htmlFor={`${id}-${name}`}>
        {label}
      </label>
      <textarea
        id={`${id}-${name}`}
        className="text-box audit-compare mono"
        rows={rows}
        spellCheck={false}
        autoComplete="off"
        value={value}
        onChange={(event) => {
          set(event.target.value);
          drop();
        }}
      />
    </>
  );
  return (
    <details className="audit-vector">
      <summary>Check one vector of an index</summary>
      <p className="lead">
        Did this enclave compute this vector from this text with this model? The proof that{" "}
        <code>clearseal embed --proofs</code> stores for a row shows it, without revealing any other row.
      </p>
      <form
        className="audit-open"
        onSubmit={(event) => {
          event.preventDefault();
          void ask(() => store.vector(row, proof));
        }}
      >
        {field("row", "Row: the line of JSON with text and embedding", 3, row, setRow)}
        {field("proof", "Proof: the line of evidence and the row's own line", 4, proof, setProof)}
        <button
          type="submit"
          className="button button-plain"
          disabled={row.trim() === "" || proof.trim() === "" || query.at === "asking"}
        >
          Check the vector
        </button>
      </form>
      <Result query={query} />
    </details>
  );
}

/** The status region always exists, so that screen readers announce its changes. Test hook: `data-face` is the {@link AuditFace}. */
export function Result({ query }: { query: Query<VectorAppraisal> }) {
  const appraisal = query.at === "answered" ? query.answer : null;
  const face = appraisal && faceOf(appraisal.receipt);
  return (
    <section
      className="audit-vector-result"
      {...(face && { "data-face": face, "aria-label": "Result of the vector check" })}
    >
      <div role="status">
        {query.at === "asking" && <p className="muted">Checking.</p>}
        {query.at === "stopped" && <p className="muted">The verifier stopped; check again.</p>}
        {appraisal && <Verdict appraisal={appraisal} />}
      </div>
      {appraisal && <Reasons appraisal={appraisal} />}
    </section>
  );
}

function Verdict({ appraisal }: { appraisal: VectorAppraisal }) {
  const { receipt, index, prompt, tokens, truncated } = appraisal;
  const face = faceOf(receipt);
  const { label, icon } = AUDIT_FACES[face];
  return (
    <p>
      <Icon name={icon} /> <strong>{label}.</strong>{" "}
      {face === "refused" ? (
        <Prose text={`${receipt.message ?? "It did not pass."} ${receipt.remedy ?? ""}`} />
      ) : (
        <>
          This vector is item {count((index ?? 0) + 1)} of its answer, computed from{" "}
          {plural(tokens ?? 0, "token")} of exactly this text
          {prompt && (
            <>
              {" "}
              after the prompt “<bdi className="mono">{prompt}</bdi>”
            </>
          )}
          {truncated ? "; the model did not read the rest of the text" : ""}.
        </>
      )}{" "}
      {receipt.code && <code className="seal-code">{receipt.code}</code>}
    </p>
  );
}

function Reasons({ appraisal: { receipt, attestation } }: { appraisal: VectorAppraisal }) {
  return (
    <>
      <Provenance report={attestation} />
      {faceOf(receipt) !== "refused" && receipt.claims && <Claims claims={receipt.claims} />}
      {attestation && (
        <details>
          <summary>Every check</summary>
          <CheckList rows={receipt.checks} caption="Checks of the vector's receipt" />
          <CheckList rows={attestation.checks} caption="Checks of its attestation document" />
        </details>
      )}
    </>
  );
}
