import type { AuditAppraisal } from "@clearseal/verifier";
import { useEffect, useState } from "react";
import { Button } from "../../ui/Button";
import { Command } from "../../ui/Command";
import { CopyButton } from "../../ui/CopyButton";
import { moment } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { type Tab, Tabs } from "../../ui/Tabs";
import { Chain } from "../attestation/Chain";
import { CheckList } from "../attestation/CheckList";
import "../attestation/limits.css";
import { Registers } from "../attestation/Registers";
import { SealRing } from "../attestation/SealRing";
import "../attestation/seal.css";
import { originOf } from "../policy/origin";
import { Provenance } from "../policy/Provenance";
import { faceOf } from "./audit";
import type { AuditStore } from "./audit-store";
import { Claims } from "./Claims";
import { Content } from "./Content";
import "./appraisal.css";
import { LogInclusion } from "./LogInclusion";
import { AUDIT_FACES, explain } from "./labels";

/** One receipt in full: verdict, claims, text and checks. */
export function Appraisal({ store, index, many }: { store: AuditStore; index: number; many: boolean }) {
  const [appraisal, setAppraisal] = useState<AuditAppraisal | "pending" | "stopped">("pending");
  useEffect(() => {
    let unmounted = false;
    void store.detail(index).then((answer) => {
      if (!unmounted) setAppraisal(answer ?? "stopped");
    });
    return () => {
      unmounted = true;
    };
  }, [store, index]);
  if (appraisal === "pending") return <p className="muted">Checking.</p>;
  if (appraisal === "stopped")
    return <p className="muted">The verifier that checked this receipt has stopped.</p>;
  return <Sheet appraisal={appraisal} store={store} many={many} />;
}

function Sheet({ appraisal, store, many }: { appraisal: AuditAppraisal; store: AuditStore; many: boolean }) {
  const { receipt, attestation } = appraisal;
  const face = faceOf(receipt);
  return (
    <article className="audit-sheet" aria-labelledby="audit-verdict">
      <AppraisedSeal appraisal={appraisal} many={many} />
      {receipt.claims && (
        <section>
          <h3>Claims</h3>
          <Claims claims={receipt.claims} />
        </section>
      )}
      {appraisal.claimed && (
        <section>
          <h3>Unverified claims</h3>
          <p className="lead">These claims are not signed by a known key: anyone may have written this.</p>
          <Claims claims={appraisal.claimed} unsigned />
        </section>
      )}
      {receipt.claims && <Content appraisal={appraisal} claims={receipt.claims} store={store} />}
      {receipt.claims && attestation?.manifest && face !== "refused" && (
        <LogInclusion appraisal={appraisal} logKey={attestation.manifest.receiptKey} store={store} />
      )}
      <section>
        <h3>Checks</h3>
        <Tabs label="Checks" tabs={tabs(appraisal)} />
      </section>
      {attestation && face !== "refused" && (
        <section>
          <h3>What this does not prove</h3>
          <div className="limits">
            {attestation.statements
              .filter(({ about }) => about === "limits")
              .map(({ text }) => (
                <p key={text}>{text}</p>
              ))}
            <p>
              A receipt also proves nothing about omitted receipts. To find those, add all receipts, or look
              the receipt up in the log.
            </p>
          </div>
        </section>
      )}
      <Export appraisal={appraisal} />
    </article>
  );
}

/** Verdict, origin of the policy, and reason. Styling hooks: `data-face` and `data-origin`, as in {@link SealRing}. */
export function AppraisedSeal({ appraisal, many }: { appraisal: AuditAppraisal; many: boolean }) {
  const { receipt, attestation, encoding, summary } = appraisal;
  const face = faceOf(receipt);
  const { label, seal } = AUDIT_FACES[face];
  const origin = originOf(attestation);
  return (
    <div className="seal" data-face={seal} data-origin={origin ?? undefined}>
      <div className="seal-face audit-face">
        <SealRing face={seal} rows={receipt.checks} origin={origin} />
        <div className="seal-words">
          <h3 id="audit-verdict" className="seal-verdict">
            {label}
          </h3>
          <Provenance report={attestation} />
          <p className="seal-text">
            <Prose text={explain(face, appraisal)} />
          </p>
          {receipt.remedy && (
            <p className="seal-next">
              <strong>What to do.</strong> <Prose text={receipt.remedy} />
            </p>
          )}
          {receipt.code && <code className="seal-code">{receipt.code}</code>}
          <ul className="seal-facts">
            <li>
              read as {encoding}
              {many && `, line ${summary.line}`}
            </li>
            <li>{BASES[summary.basis]}</li>
            {receipt.judgedAtMs > 0 && <li>checked as of {moment(receipt.judgedAtMs)}</li>}
          </ul>
        </div>
      </div>
    </div>
  );
}

const BASES: Record<AuditAppraisal["summary"]["basis"], string> = {
  bundle: "receipt key from the evidence in its bundle",
  "other-bundle": "receipt key from the evidence of another bundle",
  "named-key": "receipt key that you entered",
  none: "no receipt key",
};

function tabs({ receipt, attestation }: AuditAppraisal): Tab[] {
  const all: Tab[] = [
    {
      key: "receipt",
      label: "Receipt",
      content: () => (
        <>
          <p className="lead">
            The checks have four layers, in this order: format, signature, claims, and agreement with the
            attestation. The first failure ends them.
          </p>
          <CheckList rows={receipt.checks} caption="Checks of the receipt" />
        </>
      ),
    },
  ];
  if (!attestation) return all;
  all.push({
    key: "attestation",
    label: "Attestation",
    content: () => (
      <>
        <p className="lead">
          The document that attests the receipt key, as of {moment(attestation.judgedAtMs)}.
        </p>
        <CheckList rows={attestation.checks} caption="Checks of the attestation document" />
      </>
    ),
  });
  const { document, chain, judgedAtMs } = attestation;
  if (document && document.pcrs.length > 0) {
    all.push({
      key: "measurements",
      label: "Measurements",
      content: () => <Registers report={attestation} />,
    });
  }
  if (chain.length > 0) {
    all.push({
      key: "certificates",
      label: "Certificates",
      content: () => <Chain chain={chain} judgedAtMs={judgedAtMs} />,
    });
  }
  return all;
}

function Export({ appraisal }: { appraisal: AuditAppraisal }) {
  const { link, receipt, attestation, summary } = appraisal;
  const report = () => JSON.stringify({ summary, receipt, attestation }, null, 2);
  return (
    <section className="audit-actions">
      <h3>Export</h3>
      <div className="audit-buttons">
        <CopyButton text={report} label="Copy as JSON" />
        {link && <CopyButton text={() => `${location.origin}/audit#receipt=${link}`} label="Copy link" />}
        <Button onClick={() => print()}>Print</Button>
      </div>
      <p className="muted small">
        The link contains receipt and evidence after its #, a part that browsers never send to a server. It
        never contains text or vectors.
      </p>
      <Command text="clearseal verify receipt receipt-bundle.json --policy policy.json" />
    </section>
  );
}
