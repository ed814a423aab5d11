import type { ClaimsView } from "@clearseal/verifier";
import { type ReactNode, useId, useState } from "react";
import { navigate } from "../../app/router";
import { Button } from "../../ui/Button";
import "../../ui/choice.css";
import { useCopy } from "../../ui/clipboard";
import { download } from "../../ui/download";
import "../../ui/facts.css";
import { count, duration, moment, plural } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { Icon } from "../../ui/Icon";
import { Term } from "../../ui/Term";
import type { Disclosure } from "../../verifier/messages";
import type { SealStore } from "../attestation/seal-store";
import { sendToAudit } from "../audit/inbox";
import { ORIGIN_LABELS, type Origin } from "../policy/origin";
import "./receipt.css";
import type { Receipt } from "./run";

/** The enclave's signed receipt for each request, as the verifier reports it. */
export function ReceiptPanel({ receipts, store }: { receipts: readonly Receipt[]; store: SealStore }) {
  const id = useId();
  const [chosen, setChosen] = useState(0);
  const receipt = receipts[Math.min(chosen, receipts.length - 1)];
  if (!receipt) return null;
  const { report, origin, items } = receipt;
  return (
    <section className="receipt" data-verdict={report.verdict} aria-labelledby={id}>
      <div className="receipt-head">
        <h3 id={id}>
          <Term meaning="A statement that the enclave signs for each request with a key named in the verified document. It contains salted hashes of the request and the answer, never the text.">
            Receipt
          </Term>
        </h3>
        {receipts.length > 1 && (
          <label className="small">
            <span className="visually-hidden">Choose a receipt</span>
            <select value={chosen} onChange={(event) => setChosen(Number(event.target.value))}>
              {receipts.map((one, index) => (
                <option key={one.exchange} value={index}>
                  {index + 1} of {receipts.length}
                </option>
              ))}
            </select>
          </label>
        )}
        <Verdict verdict={report.verdict} origin={origin} />
      </div>
      {report.claims ? (
        <Claims claims={report.claims} items={items} />
      ) : (
        <p className="small">{report.message ?? "This receipt could not be read."}</p>
      )}
      <Bundle key={receipt.exchange} receipt={receipt} store={store} />
    </section>
  );
}

function Verdict({ verdict, origin }: { verdict: string; origin: Origin | null }) {
  switch (verdict) {
    case "verified":
      return (
        <span className="receipt-verdict">
          <Icon name="check" /> verified here{origin && `, ${ORIGIN_LABELS[origin]}`}
        </span>
      );
    case "simulated":
      return (
        <span className="receipt-verdict">
          <Icon name="dash" /> SIMULATED
        </span>
      );
    case "refused":
      return (
        <span className="receipt-verdict">
          <Icon name="cross" /> refused
        </span>
      );
    default:
      return (
        <span className="receipt-verdict">
          <Icon name="circle" /> not checked
        </span>
      );
  }
}

function Claims({ claims, items }: { claims: ClaimsView; items: readonly number[] }) {
  const facts: [string, ReactNode][] = [
    ["Items", plural(items.length, "item")],
    ["Sequence", <span key="s">no. {count(claims.sequenceNumber)}</span>],
    ["Model", claims.modelId],
    ["Execution", `at most ${duration(claims.executionTimeMs)}`],
    ["Peak memory", `at most ${count(claims.memoryPeakMb)} MiB`],
    ["Request", <Hash key="q" value={claims.requestHash} label="request hash" />],
    ["Answer", <Hash key="a" value={claims.responseHash} label="answer hash" />],
    ["Document", <Hash key="d" value={claims.attestationDocHash} label="document hash" />],
  ];
  return (
    <>
      <p className="receipt-words">
        On {moment(claims.issuedAt * 1000)} the enclave ran <strong>{claims.modelId}</strong> on{" "}
        {plural(items.length, "item")} for at most {duration(claims.executionTimeMs)}, as receipt no.{" "}
        {count(claims.sequenceNumber)}. Its security mode is {claims.securityMode}. The receipt signs hashes
        of the exact request that this tab sent and of the answer that it received.
      </p>
      <dl className="facts">
        {facts.map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const DISCLOSURES: readonly {
  readonly value: Disclosure;
  readonly label: string;
  /** Explains who can learn something from the file. */
  readonly consequence: string;
}[] = [
  {
    value: "hashes",
    label: "Hashes only.",
    consequence:
      "The file can never show which text the receipt covers: this tab discards the salt when you close it.",
  },
  {
    value: "salt",
    label: "Hashes and the salt.",
    consequence:
      "Anyone with the file and the text can show that the receipt covers that text. Anyone with only the file can test guesses of the text, but cannot read it.",
  },
  {
    value: "content",
    label: "Hashes, the salt, my text and the vectors.",
    consequence: "An auditor can check the hashes. Anyone with the file can read the text and the vectors.",
  },
];

function Bundle({ receipt, store }: { receipt: Receipt; store: SealStore }) {
  const { copied, refused, copy } = useCopy();
  const name = useId();
  const [disclose, setDisclose] = useState<Disclosure>("hashes");
  const [lost, setLost] = useState(false);
  const bundle = (): Promise<string> => {
    const { exchange, response } = receipt;
    const json = store.bundle(exchange, disclose, disclose === "content" ? (response ?? null) : null);
    json.then(
      () => setLost(false),
      () => setLost(true),
    );
    return json;
  };
  const withBundle = (use: (json: string) => void) => void bundle().then(use, () => undefined);
  return (
    <div className="bundle">
      <fieldset className="bundle-choices">
        <legend className="small">What the bundle discloses</legend>
        {DISCLOSURES.map(({ value, label, consequence }) => (
          <label key={value} className="small choice">
            <input
              type="radio"
              name={name}
              checked={disclose === value}
              onChange={() => setDisclose(value)}
            />
            <span>
              {label} <span className="muted">{consequence}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div className="bundle-actions">
        <Button icon={copied ? "check" : "copy"} onClick={() => copy(bundle())}>
          {copied ? "Copied" : refused && !lost ? "The browser denied it" : "Copy bundle"}
        </Button>
        <Button
          icon="download"
          onClick={() => withBundle((json) => download("receipt-bundle.json", "application/json", json))}
        >
          Download bundle
        </Button>
        <Button
          kind="quiet"
          icon="arrow"
          onClick={() =>
            withBundle((json) => {
              sendToAudit("receipt of the Embed page", json);
              navigate("/audit");
            })
          }
        >
          Audit this
        </Button>
      </div>
      <p role="status" className="small">
        {lost && "The verifier stopped, and this bundle was in its memory. Embed again to get a new receipt."}
      </p>
    </div>
  );
}
