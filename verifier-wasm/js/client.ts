import { attest, type Service } from "./attest.js";
import { policyText } from "./policy.js";
import { SealedSession } from "./session.js";
import { read, SourceFailed } from "./source.js";
import { requestOptions } from "./transport.js";
import type { Connection, ConnectOptions } from "./types.js";
import type { Verifier } from "./verifier.js";

const TIMEOUT_MS = 120_000;
const POLICY_EVERY_MS = 60_000;

/** `connect` with any implementation of the verifier. */
export async function connectWith(
  verifier: Verifier,
  url: string | URL,
  options: ConnectOptions = {},
): Promise<Connection> {
  const source = typeof options.policy === "function" ? options.policy : null;
  const policy = source ? await read(source) : options.policy;
  if (policy instanceof SourceFailed) return { status: "unreachable", problem: policy.problem };
  const service: Service = {
    verifier,
    // Wrapped: browsers throw if their `fetch` is called as a method of another object.
    transport: {
      fetch: options.fetch ?? ((input, init) => fetch(input, init)),
      options: requestOptions(),
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    },
    base: baseOf(url),
    policy: policyText(policy),
    model: null,
    // Only `true`: another truthy value, passed by mistake, must not allow simulation.
    allowSimulated: options.allowSimulated === true,
    now: options.now ?? Date.now,
    webSocket: options.webSocket ?? globalThis.WebSocket,
    subtle: options.accelerate === false ? undefined : globalThis.crypto?.subtle,
  };
  const attested = await attest(service, options.signal);
  if (!("enclave" in attested)) return attested;
  const { status, report, evidence } = attested;
  const follow = source && { source, everyMs: options.policyEveryMs ?? POLICY_EVERY_MS };
  return { status, report, evidence, session: new SealedSession(service, attested, follow) };
}

function baseOf(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  base.search = "";
  base.hash = "";
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return base;
}
