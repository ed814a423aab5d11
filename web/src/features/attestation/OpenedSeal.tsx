import type { AttestationReport, Evidence } from "@clearseal/verifier";
import { type ReactNode, useState } from "react";
import { Button } from "../../ui/Button";
import { Command } from "../../ui/Command";
import { download } from "../../ui/download";
import "../../ui/facts.css";
import { count, moment } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { type Tab, Tabs } from "../../ui/Tabs";
import { CallFailed } from "../../verifier/client";
import type { Flipped } from "../../verifier/messages";
import { ORIGIN_LABELS, originOf } from "../policy/origin";
import { PolicyChoice } from "../policy/PolicyChoice";
import { Chain } from "./Chain";
import { CheckList } from "./CheckList";
import { KeyRelease } from "./KeyRelease";
import "./limits.css";
import "./opened-seal.css";
import { PageFiles } from "./PageFiles";
import { Registers } from "./Registers";
import { evidenceOf, reportOf, type Seal, type ShownRow } from "./seal";
import type { SealStore } from "./seal-store";

/** Details of the verdict: checks, measurements, certificates, evidence, and the limits of the proof. */
export function OpenedSeal({
  seal,
  rows,
  store,
  policyShown,
}: {
  seal: Seal;
  rows: readonly ShownRow[];
  store: SealStore;
  /** The policy control is already visible above. */
  policyShown: boolean;
}) {
  const report = reportOf(seal);
  const evidence = evidenceOf(seal);
  return (
    <div className="opened">
      <div>
        <Tabs label="Details of the seal" tabs={tabs(rows, report, seal.at === "closed")} />
      </div>
      {!policyShown && (
        <section>
          <h3>Trust policy</h3>
          <PolicyChoice />
        </section>
      )}
      {report && <Limits report={report} />}
      {report && evidence && <OfflineVerification evidence={evidence} report={report} store={store} />}
    </div>
  );
}

function tabs(rows: readonly ShownRow[], report: AttestationReport | null, live: boolean): Tab[] {
  const all: Tab[] = [
    {
      key: "checks",
      label: "Checks",
      content: () => (
        <>
          <p className="lead">
            The verifier in this tab runs the checks in this order and stops at the first failure. A number
            identifies a check, not its position.
          </p>
          <CheckList rows={rows} caption="Checks of the attestation document" />
        </>
      ),
    },
  ];
  if (!report) return all;
  const { document, chain, policy, judgedAtMs } = report;
  if (document) {
    all.push({
      key: "measurements",
      label: "Measurements",
      content: () => <Registers report={report} />,
    });
  }
  if (chain.length > 0) {
    all.push({
      key: "certificates",
      label: "Certificates",
      content: () => (
        <>
          <p className="lead">
            Each certificate signs the one below it.{" "}
            {policy?.root === "aws"
              ? "The first must be AWS's root, whose fingerprint is built into this page."
              : "The first is not AWS's root: its owner can sign anything."}
          </p>
          <Chain chain={chain} judgedAtMs={judgedAtMs} live={live} />
        </>
      ),
    });
  }
  all.push({ key: "evidence", label: "Evidence", content: () => <EvidenceDetails report={report} /> });
  return all;
}

function EvidenceDetails({ report }: { report: AttestationReport }) {
  const { document, manifest, policy } = report;
  const origin = originOf(report);
  return (
    <>
      <p className="lead">The evidence as checked on {moment(report.judgedAtMs)}.</p>
      {policy && (
        <Facts
          facts={[
            ["Policy", policy.name],
            ["Checked", origin ? ORIGIN_LABELS[origin] : "under a policy of unknown origin"],
            [
              "Root of trust",
              { aws: "AWS Nitro Enclaves", development: "a development root" }[policy.root] ?? policy.root,
            ],
            ["Release", policy.release ?? "none matches"],
          ]}
        />
      )}
      {document && (
        <>
          <h3 className="facts-title">Attestation document</h3>
          <Facts
            facts={[
              ["Enclave", <code key="id">{document.moduleId}</code>],
              ["Issued", moment(document.timestampMs)],
              ["Size, bytes", count(document.size)],
              ["SHA-256", <Hash key="h" value={document.sha256} label="SHA-256 of the document" />],
              ["Nonce", document.nonce ? <Hash key="n" value={document.nonce} label="nonce" /> : "none"],
            ]}
          />
        </>
      )}
      {manifest && (
        <>
          <h3 className="facts-title">Service manifest</h3>
          <Facts
            facts={[
              ["Sealing keys, best first", manifest.kems.join(", ")],
              ["Receipt key, Ed25519", <Hash key="r" value={manifest.receiptKey} label="receipt key" />],
              ["Model", `${manifest.modelId}, version ${manifest.modelVersion}`],
              [
                "Model files, SHA-256",
                <Hash key="m" value={manifest.modelSha256} label="SHA-256 of the model" />,
              ],
              ["Model's key", <KeyRelease key="k" />],
              [
                "Embedding",
                `${count(manifest.dimension)} numbers, from up to ${count(manifest.maxTokens)} tokens`,
              ],
              ["Mode", `${manifest.securityMode}, policy ${manifest.policyVersion}`],
              ["Keys valid until", moment(manifest.notAfter * 1000)],
            ]}
          />
        </>
      )}
    </>
  );
}

function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Limits({ report }: { report: AttestationReport }) {
  const limits = report.statements.filter((statement) => statement.about === "limits");
  if (limits.length === 0) return null;
  return (
    <section>
      <h3>What this does not prove</h3>
      <div className="limits">
        {limits.map(({ text }) => (
          <p key={text}>{text}</p>
        ))}
        <PageFiles />
      </div>
    </section>
  );
}

function OfflineVerification({
  evidence,
  report,
  store,
}: {
  evidence: Evidence;
  report: AttestationReport;
  store: SealStore;
}) {
  const [flipped, setFlipped] = useState<Flipped | string | null>(null);
  const command = offlineCommand(evidence, report.judgedAtMs);
  const flip = () => {
    store.flip(evidence).then(setFlipped, (cause: unknown) => {
      setFlipped(cause instanceof CallFailed ? cause.problem.detail : "The verifier could not check it.");
    });
  };
  return (
    <section>
      <h3>Check it without this page</h3>
      <p className="lead">
        Download the evidence and verify it with the command line on a machine that you trust.
      </p>
      <Command text={command} />
      <div className="evidence-actions">
        <Button
          icon="download"
          onClick={() => download("evidence.cbor", "application/cbor", evidence.bytes.slice())}
        >
          Download evidence
        </Button>
        {evidence.policy !== null && (
          <Button
            icon="download"
            onClick={() => download("policy.json", "application/json", evidence.policy ?? "")}
          >
            Download policy
          </Button>
        )}
        {evidence.crls.length > 0 && (
          <Button
            icon="download"
            onClick={() => download("revocation.crl", "application/octet-stream", evidence.crls.slice())}
          >
            Download revocation lists
          </Button>
        )}
        <Button onClick={flip}>Flip one bit and check again</Button>
      </div>
      <div role="status">{flipped !== null && <FlippedVerdict flipped={flipped} />}</div>
      {flipped !== null && typeof flipped !== "string" && (
        <div className="flipped-checks">
          <CheckList rows={flipped.report.checks} caption="Checks of the changed copy" />
        </div>
      )}
    </section>
  );
}

function FlippedVerdict({ flipped }: { flipped: Flipped | string }) {
  if (typeof flipped === "string") return <p className="flipped">{flipped}</p>;
  const { offset, report } = flipped;
  return (
    <p className="flipped">
      This tab changed one bit of byte {count(offset)} in a copy. Verdict: <strong>{report.verdict}</strong>
      {report.code && (
        <>
          , <code>{report.code}</code>
        </>
      )}
      . {report.message}
    </p>
  );
}

/** The command that verifies the downloaded evidence as this tab did, with the same nonce, time and revocation lists. */
export function offlineCommand(evidence: Evidence, judgedAtMs: number): string {
  const at = new Date(judgedAtMs).toISOString();
  const lists = evidence.crls.length > 0 ? " --crl revocation.crl" : "";
  return `clearseal verify attestation evidence.cbor --policy policy.json --nonce ${evidence.nonce} --at ${at}${lists}`;
}
