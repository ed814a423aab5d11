import type { AuditJudgement } from "@clearseal/verifier";
import { useEffect, useState } from "react";
import { Button } from "../../ui/Button";
import { Command } from "../../ui/Command";
import { CopyButton } from "../../ui/CopyButton";
import { moment } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { type Tab, Tabs } from "../../ui/Tabs";
import { Chain } from "../attestation/Chain";
import { Ladder } from "../attestation/Ladder";
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
import "./judgement.css";
import { LogPlace } from "./LogPlace";
import { AUDIT_FACES, explain } from "./words";

/** One receipt in full: the verdict, what it says, what it is about, and every check. */
export function Judgement({ store, index, many }: { store: AuditStore; index: number; many: boolean }) {
  const [judgement, setJudgement] = useState<AuditJudgement | "asked" | "gone">("asked");
  useEffect(() => {
    let late = false;
    void store.detail(index).then((answer) => {
      if (!late) setJudgement(answer ?? "gone");
    });
    return () => {
      late = true;
    };
  }, [store, index]);
  if (judgement === "asked") return <p className="muted">Judging.</p>;
  if (judgement === "gone") return <p className="muted">The verifier that judged this has stopped.</p>;
  return <Sheet judgement={judgement} store={store} many={many} />;
}

function Sheet({ judgement, store, many }: { judgement: AuditJudgement; store: AuditStore; many: boolean }) {
  const { receipt, attestation } = judgement;
  const face = faceOf(receipt);
  return (
    <article className="audit-sheet" aria-labelledby="audit-verdict">
      <JudgedSeal judgement={judgement} many={many} />
      {receipt.claims && (
        <section>
          <h3>What it says</h3>
          <Claims claims={receipt.claims} />
        </section>
      )}
      {judgement.claimed && (
        <section>
          <h3>What it claims</h3>
          <p className="lead">
            Nobody's word yet: its signature could not be checked, so anybody may have written this.
          </p>
          <Claims claims={judgement.claimed} unsigned />
        </section>
      )}
      {receipt.claims && <Content judgement={judgement} claims={receipt.claims} store={store} />}
      {receipt.claims && attestation?.manifest && face !== "refused" && (
        <LogPlace judgement={judgement} logKey={attestation.manifest.receiptKey} store={store} />
      )}
      <section>
        <h3>How it was judged</h3>
        <Tabs label="Checks" tabs={tabs(judgement)} />
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
              A receipt also says nothing about receipts that were left out: for that, add all of them, or
              look up its place in the log.
            </p>
          </div>
        </section>
      )}
      <TakeAway judgement={judgement} />
    </article>
  );
}

/** Verdict, who chose the policy, and why. */
export function JudgedSeal({ judgement, many }: { judgement: AuditJudgement; many: boolean }) {
  const { receipt, attestation, encoding, summary } = judgement;
  const face = faceOf(receipt);
  const { word, seal } = AUDIT_FACES[face];
  const origin = originOf(attestation);
  return (
    <div className="seal" data-face={seal} data-origin={origin ?? undefined}>
      <div className="seal-face audit-face">
        <SealRing face={seal} rows={receipt.checks} origin={origin} />
        <div className="seal-words">
          <h3 id="audit-verdict" className="seal-verdict">
            {word}
          </h3>
          <Provenance report={attestation} />
          <p className="seal-text">
            <Prose text={explain(face, judgement)} />
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
            {receipt.judgedAtMs > 0 && <li>judged as of {moment(receipt.judgedAtMs)}</li>}
          </ul>
        </div>
      </div>
    </div>
  );
}

const BASES: Record<AuditJudgement["summary"]["basis"], string> = {
  bundle: "key out of the evidence in its bundle",
  "other-bundle": "key out of evidence in another bundle",
  "named-key": "key named by you",
  none: "no key",
};

function tabs({ receipt, attestation }: AuditJudgement): Tab[] {
  const all: Tab[] = [
    {
      key: "receipt",
      label: "Receipt",
      content: () => (
        <>
          <p className="lead">
            Four layers, in this order: form, signature, claims, and agreement with what was attested. The
            first check that fails ends the rest.
          </p>
          <Ladder rows={receipt.checks} caption="Checks of the receipt" />
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
          The document that vouches for the receipt's key, as of {moment(attestation.judgedAtMs)}.
        </p>
        <Ladder rows={attestation.checks} caption="Checks of the attestation document" />
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

function TakeAway({ judgement }: { judgement: AuditJudgement }) {
  const { link, receipt, attestation, summary } = judgement;
  const report = () => JSON.stringify({ summary, receipt, attestation }, null, 2);
  return (
    <section className="audit-actions">
      <h3>Take it along</h3>
      <div className="audit-buttons">
        <CopyButton text={report} label="Copy as JSON" />
        {link && <CopyButton text={() => `${location.origin}/audit#receipt=${link}`} label="Copy link" />}
        <Button onClick={() => print()}>Print</Button>
      </div>
      <p className="muted small">
        The link carries receipt and evidence behind its #, a part of an address that browsers send to nobody.
        It never carries text or vectors.
      </p>
      <Command text="clearseal verify receipt receipt-bundle.json --policy policy.json" />
    </section>
  );
}
