import type { AttestationReport, PcrView } from "@clearseal/verifier";
import { useState } from "react";
import "../../ui/badge.css";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import "../../ui/table.css";
import "./registers.css";
import { measurementLabels } from "./labels";

/** Platform configuration registers: role, value that the policy pins, and value in the document. */
export function Registers({ report }: { report: AttestationReport }) {
  const pcrs = report.document?.pcrs ?? [];
  const { lead, about } = measurementLabels(report);
  const [all, setAll] = useState(false);
  const relevant = pcrs.filter((pcr) => !pcr.zero || pcr.expected);
  const shown = all ? pcrs : relevant;
  const hidden = pcrs.length - relevant.length;
  return (
    <>
      <p className="lead">{lead}</p>
      <table className="table table-cards registers">
        <caption className="visually-hidden">Platform configuration registers</caption>
        <thead>
          <tr>
            <th scope="col">Register</th>
            <th scope="col">{about}</th>
            <th scope="col">Expected and observed, SHA-384</th>
            <th scope="col">
              <span className="visually-hidden">Copy</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((pcr) => (
            <Register key={pcr.index} pcr={pcr} about={about} />
          ))}
        </tbody>
      </table>
      {hidden > 0 && (
        <p className="registers-more">
          <Button kind="quiet" onClick={() => setAll(!all)} aria-expanded={all}>
            {all ? "Hide registers that are zero" : `Show ${hidden} more registers, all zero`}
          </Button>
        </p>
      )}
    </>
  );
}

function Register({ pcr, about }: { pcr: PcrView; about: string }) {
  const { expected, value } = pcr;
  const differs = expected !== null && expected !== undefined && expected !== value;
  return (
    <tr data-tone={differs ? "failed" : undefined}>
      <th scope="row" className="mono">
        PCR{pcr.index}
      </th>
      <td data-label={about}>
        {pcr.role || <span className="muted">no fixed meaning</span>}
        <span className="badges">
          {pcr.zero && <span className="badge">zero</span>}
          {expected === null || expected === undefined ? (
            <span className="badge">unpinned</span>
          ) : differs ? (
            <span className="badge badge-refused">differs</span>
          ) : (
            <span className="badge badge-plain">pinned</span>
          )}
        </span>
      </td>
      <td data-label="Value">
        <Values expected={expected ?? null} observed={value} />
      </td>
      <td>
        <CopyButton kind="quiet" text={value} label="Copy" />
      </td>
    </tr>
  );
}

/** Expected above observed value, with the first differing byte marked in both; one value if both are equal. */
function Values({ expected, observed }: { expected: string | null; observed: string }) {
  if (expected === null || expected === observed) {
    return (
      <dl className="difference">
        <dt>{expected === null ? "observed" : "both"}</dt>
        <dd>
          <Bytes hex={observed} />
        </dd>
      </dl>
    );
  }
  const at = firstDifference(expected, observed);
  return (
    <dl className="difference">
      <dt>expected</dt>
      <dd>
        <Bytes hex={expected} mark={at} />
      </dd>
      <dt>observed</dt>
      <dd>
        <Bytes hex={observed} mark={at} />
      </dd>
      <dt>first differing byte</dt>
      <dd className="number">
        {at + 1} of {Math.max(expected.length, observed.length) / 2}
      </dd>
    </dl>
  );
}

function Bytes({ hex, mark }: { hex: string; mark?: number }) {
  if (mark === undefined || mark < 0) return <code className="bytes">{hex}</code>;
  return (
    <code className="bytes">
      {hex.slice(0, mark * 2)}
      <mark>{hex.slice(mark * 2, mark * 2 + 2)}</mark>
      {hex.slice(mark * 2 + 2)}
    </code>
  );
}

/** Index of the first byte that differs between two hex strings; -1 if they are equal. */
export function firstDifference(a: string, b: string): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 2) {
    if (a.slice(at, at + 2) !== b.slice(at, at + 2)) return at / 2;
  }
  return -1;
}
