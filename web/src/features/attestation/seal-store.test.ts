import type { AttestationReport, Row } from "@clearseal/verifier";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Listeners, type Port, VerifierClient } from "../../verifier/client";
import type { Reply, Request } from "../../verifier/messages";
import { PolicyStore } from "../policy/policy-store";
import { face } from "./seal";
import { SealStore } from "./seal-store";

const passed: Row = {
  id: 1,
  name: "envelope",
  stage: "document",
  title: "Envelope",
  required: true,
  state: "passed",
  code: null,
  expected: "",
  observed: "",
  clause: "",
  micros: null,
};

const verified: AttestationReport = {
  verdict: "verified",
  code: null,
  message: null,
  remedy: null,
  judgedAtMs: 0,
  checks: [passed],
  statements: [],
  policy: null,
  document: null,
  chain: [],
  manifest: null,
};

function harness() {
  const ports: { port: Port; sent: Request[] }[] = [];
  const spawn = (listeners: Listeners) => {
    const sent: Request[] = [];
    const port: Port = {
      postMessage: (message) => void sent.push(message),
      terminate: () => undefined,
      onmessage: null,
      onmessageerror: null,
      onerror: null,
    };
    ports.push({ port, sent });
    return new VerifierClient(port, listeners);
  };
  const policies = new PolicyStore();
  const store = new SealStore("http://service", spawn, policies);
  const say = (data: Reply, worker = ports.length - 1) =>
    ports[worker]?.port.onmessage?.(new MessageEvent("message", { data }));
  const settle = () => vi.advanceTimersByTimeAsync(0);
  const trust = (id: number, lifeMs = 60_000): Reply => ({
    kind: "done",
    id,
    output: {
      status: "trusted",
      trust: { report: verified, evidence: null, validUntilMs: Date.now() + lifeMs },
    },
  });
  return { store, policies, ports, say, settle, trust, now: () => face(store.get().seal) };
}

const request = () => ({ method: "POST", path: "/", headers: {}, body: new Uint8Array(1) });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("SealStore", () => {
  it("begins only once, and verifies again on request", async () => {
    const { store, ports, settle } = harness();
    expect(face(store.get().seal)).toBe("unknown");
    store.begin();
    store.begin();
    await settle();
    expect(ports.map(({ sent }) => sent.map(({ kind }) => kind))).toEqual([["call"]]);
    void store.verify();
    await settle();
    expect(ports[0]?.sent.filter(({ kind }) => kind === "call")).toHaveLength(2);
  });

  it("closes, expires, re-verifies automatically, and closes again", async () => {
    const { store, say, settle, trust, now } = harness();
    void store.verify();
    expect(now()).toBe("checking");
    say(trust(1, 60_000));
    await settle();
    expect(now()).toBe("verified");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(now()).toBe("expired");
    await vi.advanceTimersByTimeAsync(1_000);
    expect(now()).toBe("checking");
    say(trust(2));
    await settle();
    expect(now()).toBe("verified");
  });

  it("asks an unreachable service again after growing pauses, and states when", async () => {
    const { store, say, settle, trust, now } = harness();
    const problem = { code: "X", title: "", detail: "", remedy: "" };
    void store.verify();
    for (const [attempt, pause] of [5_000, 10_000, 20_000, 40_000, 60_000, 60_000].entries()) {
      expect(store.get().retryAtMs).toBeNull();
      say({ kind: "done", id: attempt + 1, output: { status: "unreachable", problem } });
      await settle();
      expect(now()).toBe("unreachable");
      expect(store.get().retryAtMs).toBe(Date.now() + pause);
      await vi.advanceTimersByTimeAsync(pause - 1);
      expect(now()).toBe("unreachable");
      await vi.advanceTimersByTimeAsync(1);
      expect(now()).toBe("checking");
    }
    say(trust(7));
    await settle();
    void store.verify();
    say({ kind: "done", id: 8, output: { status: "unreachable", problem } });
    await settle();
    expect(store.get().retryAtMs).toBe(Date.now() + 5_000);
  });

  it("does not loop if verifications expire at once, and then refuses to send", async () => {
    const { store, say, settle, trust, now, ports } = harness();
    void store.verify();
    say(trust(1, 1_000));
    await settle();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(now()).toBe("expired");
    const before = ports[0]?.sent.length;
    const exchanged = await store.exchange(request(), new AbortController().signal);
    expect(exchanged).toMatchObject({ status: "unreachable", problem: { code: "SEAL_NOT_CLOSED" } });
    expect(ports[0]?.sent.length).toBe(before);
  });

  it("holds a request at an expired verification until the next one, and sends nothing before", async () => {
    const { store, say, settle, trust, now, ports } = harness();
    const calls = () => ports[0]?.sent.flatMap((sent) => (sent.kind === "call" ? [sent.call] : []));
    void store.verify();
    say(trust(1, 60_000));
    await settle();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(now()).toBe("expired");
    void store.exchange(request(), new AbortController().signal);
    await settle();
    expect(calls()).toEqual(["connect", "connect"]);
    say(trust(2));
    await settle();
    expect(calls()).toEqual(["connect", "connect", "exchange"]);
  });

  it("lets a waiting request be cancelled, and continues the check", async () => {
    const { store, say, settle, trust, now, ports } = harness();
    void store.verify();
    const cancelled = new AbortController();
    const waiting = store.exchange(request(), cancelled.signal);
    const other = store.stream(["a"], "m", new AbortController().signal, () => undefined);
    await settle();
    cancelled.abort();
    expect(await waiting).toMatchObject({ status: "unreachable", problem: { code: "CANCELLED" } });
    expect(now()).toBe("checking");
    say(trust(1));
    await settle();
    expect(now()).toBe("verified");
    expect(ports[0]?.sent.map((sent) => (sent.kind === "call" ? sent.call : sent.kind))).toEqual([
      "connect",
      "stream",
    ]);
    say({ kind: "done", id: 2, output: { status: "done" } });
    expect(await other).toEqual({ status: "done" });
  });

  it("refuses a waiting request when the renewal is refused", async () => {
    const { store, say, settle, trust, now } = harness();
    void store.verify();
    say(trust(1, 60_000));
    await settle();
    await vi.advanceTimersByTimeAsync(60_000);
    const sending = store.exchange(request(), new AbortController().signal);
    say({
      kind: "done",
      id: 2,
      output: { status: "refused", report: { ...verified, verdict: "refused" }, evidence: null },
    });
    expect(await sending).toMatchObject({ status: "unreachable", problem: { code: "SEAL_NOT_CLOSED" } });
    expect(now()).toBe("refused");
  });

  it("ignores an abandoned check", async () => {
    const { store, say, settle, trust, now, ports } = harness();
    void store.verify();
    void store.verify();
    expect(ports[0]?.sent).toContainEqual({ kind: "abort", id: 1 });
    say(trust(1));
    await settle();
    expect(now()).toBe("checking");
    say(trust(2));
    await settle();
    expect(now()).toBe("verified");
  });

  it("turns grey when the worker dies silently, and starts a new one on request", async () => {
    const { store, say, settle, trust, now, ports } = harness();
    void store.verify();
    say(trust(1));
    await settle();
    for (let beat = 0; beat < 4; beat += 1) store.pulse();
    expect(now()).toBe("unknown");
    void store.verify();
    expect(ports).toHaveLength(2);
    say(trust(1));
    await settle();
    expect(now()).toBe("verified");
  });

  it("breaks when a re-verification during a request is refused", async () => {
    const { store, say, settle, trust, now } = harness();
    void store.verify();
    say(trust(1));
    await settle();
    const sending = store.exchange(request(), new AbortController().signal);
    const problem = { code: "PCR_MISMATCH", title: "", detail: "", remedy: "" };
    say({
      kind: "done",
      id: 2,
      output: { status: "refused", problem, report: { ...verified, verdict: "refused" } },
    });
    expect(await sending).toMatchObject({ status: "refused" });
    expect(now()).toBe("refused");
  });

  it("verifies again under a chosen policy, and again without it", async () => {
    const { store, policies, say, settle, trust, now, ports } = harness();
    void store.verify();
    say(trust(1));
    await settle();
    expect(now()).toBe("verified");
    await policies.choose(new File(["{}"], "mine.json"));
    // The earlier verdict ends with its policy.
    expect(now()).toBe("checking");
    expect(ports[0]?.sent.at(-1)).toMatchObject({ call: "connect", input: { policy: "{}" } });
    say(trust(2));
    await settle();
    policies.stop();
    expect(now()).toBe("checking");
    expect(ports[0]?.sent.at(-1)).toMatchObject({ call: "connect", input: { policy: null } });
  });

  it("flips a bit under the same policy, and forwards the built-in policy's name", async () => {
    const { store, policies, say, ports } = harness();
    void store.verify();
    say({ kind: "ready", questions: [], builtIn: "production" });
    expect(policies.get().builtIn).toBe("production");
    await policies.choose(new File(["[]"], "mine.json"));
    const evidence = {
      bytes: new Uint8Array(1),
      nonce: "00",
      policy: "of the evidence",
      crls: new Uint8Array(0),
    };
    void store.flip(evidence);
    expect(ports[0]?.sent.at(-1)).toMatchObject({ call: "flip", input: { policy: "[]" } });
  });
});
