import type { VectorJudgement } from "@clearseal/verifier";
import { useId, useState } from "react";
import { count, plural } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Prose } from "../../ui/Prose";
import "../../ui/text-box.css";
import { Ladder } from "../attestation/Ladder";
import "../attestation/seal.css";
import { Provenance } from "../policy/Provenance";
import { type Asked, useAsked } from "./asked";
import { faceOf } from "./audit";
import type { AuditStore } from "./audit-store";
import { Claims } from "./Claims";
import "./compare.css";
import "./vector-proof.css";
import { AUDIT_FACES } from "./words";

/** One row of an index, and the proof that was kept beside it: nothing of the other rows is needed or shown. */
export function VectorProof({ store }: { store: AuditStore }) {
  const id = useId();
  const [row, setRow] = useState("");
  const [proof, setProof] = useState("");
  const { asked, ask, drop } = useAsked<VectorJudgement>(store);
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
        Was this vector computed from this text, by this model, in this enclave? With the proof that{" "}
        <code>clearseal embed --proofs</code> kept for its row, you can see that, and nothing of any other
        row.
      </p>
      <form
        className="audit-open"
        onSubmit={(event) => {
          event.preventDefault();
          void ask(() => store.vector(row, proof));
        }}
      >
        {field("row", "Row: a line of JSON with text and embedding", 3, row, setRow)}
        {field("proof", "Proof: its line of evidence, and its own line", 4, proof, setProof)}
        <button
          type="submit"
          className="button button-plain"
          disabled={row.trim() === "" || proof.trim() === "" || asked.at === "asking"}
        >
          Check the vector
        </button>
      </form>
      <Result asked={asked} />
    </details>
  );
}

/** Its status region is always there, so that what comes into it is read out. */
export function Result({ asked }: { asked: Asked<VectorJudgement> }) {
  const judgement = asked.at === "answered" ? asked.answer : null;
  const face = judgement && faceOf(judgement.receipt);
  return (
    <section
      className="audit-vector-result"
      {...(face && { "data-face": face, "aria-label": "Judgement of the vector" })}
    >
      <div role="status">
        {asked.at === "asking" && <p className="muted">Judging.</p>}
        {asked.at === "gone" && <p className="muted">The verifier has stopped; check again.</p>}
        {judgement && <Verdict judgement={judgement} />}
      </div>
      {judgement && <Reasons judgement={judgement} />}
    </section>
  );
}

function Verdict({ judgement: { receipt, index, tokens, truncated } }: { judgement: VectorJudgement }) {
  const face = faceOf(receipt);
  const { word, icon } = AUDIT_FACES[face];
  return (
    <p>
      <Icon name={icon} /> <strong>{word}.</strong>{" "}
      {face === "refused" ? (
        <Prose text={`${receipt.message ?? "It did not pass."} ${receipt.remedy ?? ""}`} />
      ) : (
        <>
          This vector is item {count((index ?? 0) + 1)} of its answer, computed from{" "}
          {plural(tokens ?? 0, "token")} of exactly this text
          {truncated ? "; the text was longer, and the rest was not read" : ""}.
        </>
      )}{" "}
      {receipt.code && <code className="seal-code">{receipt.code}</code>}
    </p>
  );
}

function Reasons({ judgement: { receipt, attestation } }: { judgement: VectorJudgement }) {
  return (
    <>
      <Provenance report={attestation} />
      {faceOf(receipt) !== "refused" && receipt.claims && <Claims claims={receipt.claims} />}
      {attestation && (
        <details>
          <summary>Every check</summary>
          <Ladder rows={receipt.checks} caption="Checks of the vector's receipt" />
          <Ladder rows={attestation.checks} caption="Checks of its attestation document" />
        </details>
      )}
    </>
  );
}
