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
import { ORIGIN_WORDS, type Origin } from "../policy/origin";
import "./receipt.css";
import type { Receipt } from "./run";

/** What the enclave signed about each request, as the verifier read it. */
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
          <Term meaning="A statement that the enclave signs for each request, with a key that the verified document vouches for. It holds salted hashes of request and answer, never the text.">
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
          <Icon name="check" /> verified here{origin && `, ${ORIGIN_WORDS[origin]}`}
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
          <Icon name="circle" /> not judged
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
        {count(claims.sequenceNumber)} in {claims.securityMode} mode. It signed hashes of exactly what this
        tab sent and what came back.
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

const DISCLOSURES: readonly (readonly [Disclosure, string, string])[] = [
  [
    "hashes",
    "Hashes alone.",
    "Nobody can ever show with it which text it is about: this tab forgets the salt when it is closed.",
  ],
  [
    "salt",
    "Hashes, and the salt.",
    "Whoever has the text can show that the receipt is about it. Whoever gets the file can test guesses of the text, and read nothing.",
  ],
  [
    "content",
    "My text and the vectors too.",
    "An auditor can check the hashes; whoever gets the file can read both.",
  ],
];

function Bundle({ receipt, store }: { receipt: Receipt; store: SealStore }) {
  const { copied, copy } = useCopy();
  const name = useId();
  const [disclose, setDisclose] = useState<Disclosure>("hashes");
  const [lost, setLost] = useState(false);
  const take = (use: (json: string) => void) => {
    const { exchange, response } = receipt;
    store
      .bundle(exchange, disclose, disclose === "content" ? (response ?? null) : null)
      .then(use, () => setLost(true));
  };
  return (
    <div className="bundle">
      <fieldset className="bundle-choices">
        <legend className="small">What the bundle discloses</legend>
        {DISCLOSURES.map(([value, what, lost]) => (
          <label key={value} className="small choice">
            <input
              type="radio"
              name={name}
              checked={disclose === value}
              onChange={() => setDisclose(value)}
            />
            <span>
              {what} <span className="muted">{lost}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div className="bundle-actions">
        <Button icon={copied ? "check" : "copy"} onClick={() => take(copy)}>
          {copied ? "Copied" : "Copy bundle"}
        </Button>
        <Button
          icon="download"
          onClick={() => take((json) => download("receipt-bundle.json", "application/json", json))}
        >
          Download bundle
        </Button>
        <Button
          kind="quiet"
          icon="arrow"
          onClick={() =>
            take((json) => {
              sendToAudit("receipt of the Embed page", json);
              navigate("/audit");
            })
          }
        >
          Audit this
        </Button>
      </div>
      <p role="status" className="small">
        {lost &&
          "The verifier that kept this bundle has stopped, and the bundle with it. Embed again to get a new receipt."}
      </p>
    </div>
  );
}
