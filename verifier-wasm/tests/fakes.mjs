/** A verifier without cryptography, to test only the client's decisions. */

import { fakeChannel } from "./stream-fakes.mjs";

export const ORIGIN = "https://host.example";
export const KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key";

const encoder = new TextEncoder();

/**
 * `verdicts`: what each check in turn concludes, `trusted`, `simulated` or a code of refusal. The last one repeats. `lives`: until when
 * each enclave is valid, in milliseconds; those that are not listed never expire. `manifest`: that of every report. `judgement`: of
 * evidence that is judged again, by the policy's text. `bundle`: with the salt.
 */
export function fakeVerifier({
  verdicts = ["trusted"],
  embedded = null,
  outcomes = [],
  lives = [],
  manifest = null,
  judgement = () => ({}),
  bundle = "bundle with salt",
} = {}) {
  const seen = {
    judged: [],
    crls: [],
    freed: [],
    prepared: [],
    sealed: [],
    channels: { opened: 0, freed: 0 },
  };
  let checks = 0;
  const verifier = {
    embeddedPolicy: () => embedded,
    judge: (_evidence, policy) =>
      policy === "unusable"
        ? { policy: null, code: "POLICY_UNREADABLE", message: "No policy.", remedy: "Correct it." }
        : { policy: { name: policy }, ...judgement(policy) },
    challenge() {
      checks += 1;
      const number = checks;
      function verification(judgement) {
        const verdict = verdicts[Math.min(number, verdicts.length) - 1];
        seen.judged.push(judgement);
        const simulated = verdict === "simulated" && judgement.allowed;
        const refused = verdict !== "trusted" && !simulated;
        return {
          report: () => ({
            number,
            verdict: refused ? "refused" : simulated ? "simulated" : "verified",
            code: refused ? verdict : null,
            message: refused ? "No." : null,
            remedy: refused ? "Stop." : null,
            manifest,
          }),
          takeEnclave: () => (refused ? undefined : enclave(number)),
          free() {},
        };
      }

      return {
        nonce: `nonce-${number}`,
        nonceHex: `hex-${number}`,
        setCrls: (crls) => seen.crls.push(crls),
        async verify(evidence, policy, nowMs) {
          return verification({ evidence, policy, serverPolicy: undefined, nowMs, allowed: false });
        },
        async verifyAllowingSimulation(evidence, policy, serverPolicy, nowMs) {
          return verification({ evidence, policy, serverPolicy, nowMs, allowed: true });
        },
      };
    },
  };

  function enclave(number) {
    return {
      validUntilMs: lives[number - 1] ?? 8.64e15 - number,
      hint: `hint-${number}`,
      prepare: () => seen.prepared.push(number),
      seal(method, path, headers, content) {
        seen.sealed.push({ number, method, path, headers, content });
        return {
          takeBytes: () => (path === "/unsealable" ? undefined : encoder.encode(`sealed by ${number}`)),
          refusal: () => ({
            status: "refused",
            code: "INNER_BAD_FIELD",
            message: "m",
            remedy: "r",
            receipt: null,
          }),
          open: (answer) => opened(answer),
          free() {},
        };
      },
      openChannel: () => fakeChannel(seen.channels),
      free: () => seen.freed.push(number),
    };
  }

  function opened(answer) {
    const outcome = outcomes.shift() ?? {
      status: "answered",
      httpStatus: 200,
      headers: [["content-type", "application/json"]],
      receipt: { verdict: "verified" },
    };
    return {
      outcome: () => outcome,
      body: () => answer,
      bundle: (withContent) => (withContent ? "bundle with content" : "bundle"),
      bundleWithSalt: () => bundle,
    };
  }

  return { verifier, seen };
}

/** A `fetch` that answers by path; each answer is a Response, a function that returns one, or an Error to throw. */
export function fakeFetch(routes) {
  const calls = [];
  const fetch = async (url, init) => {
    calls.push({ url: url.href, init });
    const route = routes[url.pathname];
    const answer = Array.isArray(route) ? route.shift() : route;
    if (answer === undefined) return new Response("nothing here", { status: 404 });
    const made = typeof answer === "function" ? await answer(init) : answer;
    if (made instanceof Error) throw made;
    return made;
  };
  return { fetch, calls, to: (path) => calls.filter((call) => new URL(call.url).pathname === path) };
}

export const evidence = () => new Response(new Uint8Array([0xa2, 1, 2]), { status: 200 });
export const answer =
  (text = "answer") =>
  () =>
    new Response(text, { status: 200 });
export const unknownKey = () => problem(400, { type: KEY_PROBLEM, code: "KEY_UNKNOWN" });

export function problem(status, body) {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "Application/Problem+JSON; charset=utf-8" },
  });
}

/** Never answers until it is aborted. Keeps the process alive meanwhile, as a socket would; timeouts do not. */
export const hang = ({ signal }) =>
  new Promise((_, reject) => {
    const socket = setInterval(() => {}, 1000);
    const end = () => {
      clearInterval(socket);
      reject(signal.reason);
    };
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });
