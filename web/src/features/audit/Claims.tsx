import type { ClaimsView } from "@clearseal/verifier";
import type { ReactNode } from "react";
import { count, duration, moment } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { Term } from "../../ui/Term";
import "./claims.css";

/** All claims of a receipt with units, in local time. */
export function Claims({ claims, unsigned = false }: { claims: ClaimsView; unsigned?: boolean }) {
  return (
    <>
      {!unsigned && (
        <p className="audit-words">
          On {moment(claims.issuedAt * 1000)} the enclave ran <strong>{claims.modelId}</strong> for at most{" "}
          {duration(claims.executionTimeMs)}, as receipt no. {count(claims.sequenceNumber)}. Its security mode
          is {claims.securityMode}.
        </p>
      )}
      <dl className="audit-claims">
        {facts(claims).map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const REGISTERS: Record<string, readonly string[]> = {
  "nitro-pcr": ["PCR0", "PCR1", "PCR2", "PCR3", "PCR4", "PCR8"],
  "tdx-mrtd-rtmr": ["MRTD", "RTMR0", "RTMR1", "RTMR2", "RTMR3", "PCR8"],
};

function facts(claims: ClaimsView): [string, ReactNode][] {
  const { measurements } = claims;
  const { pcr0, pcr1, pcr2, pcr3, pcr4, pcr8 } = measurements;
  const names = REGISTERS[claims.measurementType] ?? [];
  const registers = [pcr0, pcr1, pcr2, pcr3, pcr4, pcr8].flatMap((value, place): [string, ReactNode][] => {
    const name = names[place] ?? `Register ${place}`;
    return value ? [[name, <Hash key={name} value={value} label={name} />]] : [];
  });
  return [
    ["Issued", `${moment(claims.issuedAt * 1000)} (${new Date(claims.issuedAt * 1000).toISOString()})`],
    ["Issuer", claims.issuer],
    ["Sequence number (per key, from 1)", count(claims.sequenceNumber)],
    ["Model", `${claims.modelId}, version ${claims.modelVersion}`],
    [
      `Model files${claims.modelHashScheme ? `, ${claims.modelHashScheme}` : ""}`,
      <Hash key="m" value={claims.modelHash} label="hash of the model" />,
    ],
    ["Execution time", `at most ${count(claims.executionTimeMs)} ms`],
    ["Peak memory of the enclave", `at most ${count(claims.memoryPeakMb)} MiB`],
    ["Security mode, policy version", `${claims.securityMode}, ${claims.policyVersion}`],
    [
      "Request",
      <span key="q">
        <Term meaning="SHA-256 of the whole request, which includes 32 secret random bytes, the salt. Without the salt, no one can use the hash to test guesses of the text.">
          salted hash
        </Term>{" "}
        <Hash value={claims.requestHash} label="hash of the request" />
      </span>,
    ],
    ["Answer, salted hash", <Hash key="a" value={claims.responseHash} label="hash of the answer" />],
    [
      "Attestation document",
      <Hash key="d" value={claims.attestationDocHash} label="hash of the attestation document" />,
    ],
    ["Client's nonce", claims.nonce ? <Hash key="n" value={claims.nonce} label="nonce" /> : "none"],
    ["Identifier", <Hash key="i" value={claims.id} label="identifier" />],
    ...registers,
  ];
}
