import type { AuditJudgement, LogReport } from "@clearseal/verifier";
import { useState } from "react";
import { Button } from "../../ui/Button";
import { count, moment } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { Ladder } from "../attestation/Ladder";
import type { AuditStore } from "./audit-store";

type Place =
  | { readonly at: "unasked" | "asking" }
  | { readonly at: "unanswered"; readonly why: string }
  | { readonly at: "judged"; readonly report: LogReport };

/** Whether the receipt is in the log that its enclave signs. The only part of an audit that asks the network, when told to. */
export function LogPlace(props: { judgement: AuditJudgement; logKey: string; store: AuditStore }) {
  const { judgement, logKey, store } = props;
  const { index, sha256 } = judgement.summary;
  const [place, setPlace] = useState<Place>({ at: "unasked" });
  const ask = async () => {
    setPlace({ at: "asking" });
    setPlace(await lookUp(store, index, logKey, sha256 ?? ""));
  };
  return (
    <section className="audit-log">
      <h3>Its place in the log</h3>
      <p>
        The enclave counts its receipts in a tree and signs the tree's head. A host that leaves receipts out,
        or tells two stories, cannot prove both. Looking it up sends the receipt's hash to this page's origin,
        and nothing else.
      </p>
      <Button onClick={() => void ask()} disabled={place.at === "asking"}>
        Look it up
      </Button>
      <div aria-live="polite">
        {place.at === "unanswered" && <p data-log="unanswered">{place.why}</p>}
        {place.at === "judged" && <Found report={place.report} />}
      </div>
    </section>
  );
}

function Found({ report }: { report: LogReport }) {
  const { verdict, head, message, remedy, code, checks } = report;
  return (
    <>
      <p data-log={verdict}>
        {verdict === "refused" || !head ? (
          <>
            <strong>Not proved.</strong> <Prose text={`${message ?? ""} ${remedy ?? ""}`} />{" "}
            <code>{code}</code>
          </>
        ) : (
          <>
            <strong>In the log{verdict === "simulated" && ", simulated"}.</strong> The enclave signed a tree
            of {count(head.size)} {head.size === 1 ? "receipt" : "receipts"} that holds this one, on{" "}
            {moment(head.time * 1000)}.
          </>
        )}
      </p>
      <Ladder rows={checks} caption="Checks of the log" />
    </>
  );
}

async function lookUp(store: AuditStore, index: number, log: string, sha256: string): Promise<Place> {
  let answer: Response;
  try {
    answer = await fetch(`/v1/log/${log}/inclusion?receipt=${sha256}`, { credentials: "omit" });
  } catch {
    return {
      at: "unanswered",
      why: "The log could not be reached. Everything else on this page needs no network.",
    };
  }
  if (answer.status === 404) {
    return {
      at: "unanswered",
      why: "This origin's log does not hold the receipt: it is of another service, it is not there yet, or it was left out.",
    };
  }
  if (!answer.ok)
    return { at: "unanswered", why: `The log answered with status ${answer.status}, which proves nothing.` };
  const report = await store.logged(index, await answer.text());
  return report
    ? { at: "judged", report }
    : {
        at: "unanswered",
        why: "The verifier that judged this has stopped. Judge again: that starts a fresh one.",
      };
}
