import type { CertificateView } from "@clearseal/verifier";
import { Button } from "../../ui/Button";
import { download } from "../../ui/download";
import "../../ui/facts.css";
import { date, duration, moment } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import "./chain.css";
import { Countdown } from "./Countdown";

const ROLES: Record<string, string> = {
  root: "Root",
  regional: "Region",
  zonal: "Availability zone",
  instance: "Instance",
  leaf: "Enclave",
  ca: "Authority",
};

/** The certificates from the pinned root down to the one that signed the document. */
export function Chain({
  chain,
  judgedAtMs,
  live = false,
}: {
  chain: readonly CertificateView[];
  judgedAtMs: number;
  /** The chain is in use now: show a countdown to the leaf's expiry. */
  live?: boolean;
}) {
  return (
    <ol className="chain">
      {chain.map((certificate, index) => (
        <Certificate
          key={certificate.sha256}
          certificate={certificate}
          place={index}
          judgedAtMs={judgedAtMs}
          live={live && certificate.role === "leaf"}
        />
      ))}
    </ol>
  );
}

function Certificate({
  certificate,
  place,
  judgedAtMs,
  live,
}: {
  certificate: CertificateView;
  place: number;
  judgedAtMs: number;
  live: boolean;
}) {
  const role = ROLES[certificate.role] ?? certificate.role;
  return (
    <li className="certificate">
      <div className="certificate-head">
        <h3>
          {role}
          {role.toLowerCase() !== certificate.role && (
            <span className="muted certificate-role">{certificate.role}</span>
          )}
        </h3>
        <p className="certificate-name">{commonName(certificate.subject)}</p>
      </div>
      <Validity
        notBefore={certificate.notBefore * 1000}
        notAfter={certificate.notAfter * 1000}
        judgedAtMs={judgedAtMs}
        live={live}
      />
      <dl className="facts">
        <div>
          <dt>Fingerprint, SHA-256</dt>
          <dd>
            <Hash value={certificate.sha256} label={`fingerprint of the ${role.toLowerCase()} certificate`} />
          </dd>
        </div>
        <div>
          <dt>Key may sign</dt>
          <dd>{certificate.keyUsage.map(usage).join(", ") || "not stated"}</dd>
        </div>
        <div>
          <dt>Authorities below</dt>
          <dd>{certificate.ca ? (certificate.pathLength ?? "any number") : "none: not an authority"}</dd>
        </div>
      </dl>
      <Button
        kind="quiet"
        icon="download"
        aria-label={`Download the ${role.toLowerCase()} certificate, DER`}
        onClick={() =>
          download(`${place}-${certificate.role}.der`, "application/pkix-cert", derOf(certificate.der))
        }
      >
        .der
      </Button>
    </li>
  );
}

/** A bar from notBefore to notAfter with a mark at the time of the check. Each certificate has its own scale. */
function Validity({
  notBefore,
  notAfter,
  judgedAtMs,
  live,
}: {
  notBefore: number;
  notAfter: number;
  judgedAtMs: number;
  live: boolean;
}) {
  const share = (judgedAtMs - notBefore) / (notAfter - notBefore);
  const inside = share >= 0 && share <= 1;
  const x = Math.min(1, Math.max(0, share)) * 100;
  const long = notAfter - notBefore > 3 * 86_400_000;
  const format = long ? date : moment;
  return (
    <div className="validity">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" data-inside={inside}>
        <rect className="validity-all" x="0" y="3" width="100" height="2" />
        <rect className="validity-past" x="0" y="3" width={x} height="2" />
        <rect className="validity-now" x={Math.min(99.4, x)} y="0" width="0.6" height="8" />
      </svg>
      <p className="validity-ends">
        <span>{format(notBefore)}</span>
        <span className="validity-left">
          {inside && live ? (
            <>
              ends in <Countdown untilMs={notAfter} />
            </>
          ) : inside ? (
            `valid for ${duration(notAfter - judgedAtMs)} more`
          ) : share < 0 ? (
            "not valid yet"
          ) : (
            "no longer valid"
          )}
        </span>
        <span>{format(notAfter)}</span>
      </p>
    </div>
  );
}

/** Returns the CN of a distinguished name (RFC 4514). */
function commonName(subject: string): string {
  return /(?:^|,)\s*CN=((?:\\.|[^,\\])*)/.exec(subject)?.[1] ?? subject;
}

const USAGES: Record<string, string> = {
  digitalSignature: "data",
  keyCertSign: "certificates",
  cRLSign: "revocation lists",
};

function usage(name: string): string {
  return USAGES[name] ?? name;
}

function derOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}
