import { expect, it } from "vitest";
import type { Measurement } from "./record.gen";
import { withTransport } from "./views/plots";

const label = (subject: string, parameters: NonNullable<Measurement["parameters"]>) =>
  withTransport({ subject, parameters, statistics: { p50: 1 }, unit: "ms" });

it("puts a figure of ours in the row of a published one only under the same conditions", () => {
  const transport = "secure channel in process";
  const published = label("transport.rtt", { transport, payload_bytes: 1536 });
  expect(label("transport.rtt", { transport, payload_bytes: 1536, threads: 2 })).toBe(published);
  expect(label("transport.rtt", { transport, payload_bytes: 1536, threads: 1 })).toBe(
    `${published}, one thread`,
  );
});

it("distinguishes ways to set up a session", () => {
  const transport = "secure channel in process";
  const ways = [
    { transport, attestation: "mock" },
    { transport, attestation: "endorsed key", certificates: 0, kind: "X25519" },
    { transport, attestation: "endorsed key", certificates: 0, kind: "X-Wing" },
    { transport, attestation: "document, simulated", certificates: 1, kind: "X25519" },
    { transport, attestation: "document, simulated", certificates: 4, kind: "X25519" },
    { transport: "TLS 1.3", curve: "P-256, pinned", certificates: 1 },
    { transport: "TLS 1.3", curve: "P-384", certificates: 1 },
    { transport: "TLS 1.3", curve: "P-384", certificates: 4 },
  ];
  const labels = ways.map((way) => label("transport.handshake", way));
  expect(new Set(labels).size).toBe(ways.length);
});
