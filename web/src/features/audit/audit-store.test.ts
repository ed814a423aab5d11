import type { AuditAppraisal, AuditSummary } from "@clearseal/verifier";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { PolicyStore } from "../policy/policy-store";
import { AuditStore, type Port } from "./audit-store";
import type { Reply, Request } from "./messages";

function harness(
  policy: () => Promise<string | null> = async () => null,
  verifier: "up" | "starting" = "up",
) {
  const ports: (Port & { sent: Request[] })[] = [];
  const spawn = () => {
    const sent: Request[] = [];
    const port = {
      sent,
      postMessage: (message: Request) => void sent.push(message),
      terminate: () => undefined,
      onmessage: null,
      onmessageerror: null,
      onerror: null,
    };
    ports.push(port);
    return port;
  };
  const policies = new PolicyStore();
  if (verifier === "up") policies.builtIn(null);
  const store = new AuditStore(spawn, policy, policies);
  const say = (data: Reply) => ports.at(-1)?.onmessage?.(new MessageEvent("message", { data }));
  const settle = () => vi.advanceTimersByTimeAsync(0);
  return { store, policies, ports, say, settle, at: () => store.get().audit.at };
}

const blob = new Blob(["x"]);
const summary = { index: 0, verdict: "simulated" } as AuditSummary;
const found = { total: 1, policy: null, key: null, encoding: "hex" };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("AuditStore", () => {
  it("forwards sources and the server's policy, and keeps the replies", async () => {
    const { store, ports, say, settle, at } = harness(async () => "theirs");
    store.set([{ name: "a", blob }]);
    await settle();
    expect(ports[0]?.sent[0]).toMatchObject({
      kind: "audit",
      attempt: 1,
      policy: null,
      serverPolicy: "theirs",
    });
    say({ kind: "found", attempt: 1, found });
    say({ kind: "summaries", attempt: 1, summaries: [summary] });
    expect(at()).toBe("judging");
    say({ kind: "judged", attempt: 1, tookMs: 3 });
    expect(at()).toBe("judged");
  });

  it("requests the service's policy only if the page has none", async () => {
    const served = vi.fn(async () => "theirs");
    const { store, ports, say, settle } = harness(served, "starting");
    store.prepare();
    store.set([{ name: "a", blob }]);
    await settle();
    expect(served).not.toHaveBeenCalled();
    expect(ports[0]?.sent).toEqual([]);
    say({ kind: "ready", builtIn: "production" });
    await settle();
    expect(served).not.toHaveBeenCalled();
    expect(ports[0]?.sent).toMatchObject([{ kind: "audit", serverPolicy: null }]);

    const without = harness(served, "starting");
    without.store.prepare();
    without.say({ kind: "ready", builtIn: null });
    await without.settle();
    // Before any input, so that the audit works offline afterwards.
    expect(served).toHaveBeenCalledOnce();
  });

  it("uses no worker that stopped before it was ready, until retried", async () => {
    const { store, ports, say, settle, at } = harness(async () => null, "starting");
    store.set([{ name: "a", blob }]);
    say({ kind: "lost", problem: { code: "VERIFIER_STOPPED", title: "", detail: "", remedy: "" } });
    await settle();
    expect(at()).toBe("failed");
    expect(ports).toHaveLength(1);
    store.again();
    say({ kind: "ready", builtIn: null });
    await settle();
    expect(ports[1]?.sent).toMatchObject([{ kind: "audit", attempt: 2 }]);
  });

  it("drops every verdict when the worker falls silent, and starts a new one on retry", async () => {
    const { store, ports, say, settle, at } = harness();
    store.set([{ name: "a", blob }]);
    await settle();
    say({ kind: "found", attempt: 1, found });
    say({ kind: "summaries", attempt: 1, summaries: [summary] });
    const detail = store.detail(0);
    for (let beat = 0; beat < 6; beat += 1) store.pulse();
    expect(at()).toBe("failed");
    expect(await detail).toBeNull();
    expect(store.get().losses).toBe(1);
    store.again();
    await settle();
    expect(ports).toHaveLength(2);
    expect(store.get().sources).toHaveLength(1);
  });

  it("restarts when a source is added, and forgets everything when cleared", async () => {
    const { store, ports, settle, at } = harness();
    store.add([{ name: "a", blob }]);
    store.add([{ name: "b", blob }]);
    await settle();
    // The second attempt replaced the first before it was sent.
    expect(ports[0]?.sent).toMatchObject([{ attempt: 2, sources: [{ name: "a" }, { name: "b" }] }]);
    store.clear();
    expect(at()).toBe("empty");
    expect(store.get().sources).toEqual([]);
  });

  it("restarts under a chosen policy, and again without it", async () => {
    const { store, policies, ports, settle } = harness();
    store.set([{ name: "policy.json", blob: new Blob(["{}"]) }]);
    await settle();
    // Every added source is evidence.
    expect(ports[0]?.sent.at(-1)).toMatchObject({ attempt: 1, policy: null });
    await policies.choose(new File(["{}"], "mine.json"));
    await settle();
    expect(ports[0]?.sent.at(-1)).toMatchObject({ attempt: 2, policy: "{}" });
    policies.stop();
    await settle();
    expect(ports[0]?.sent.at(-1)).toMatchObject({ attempt: 3, policy: null });
  });

  it("returns no appraisal of an earlier attempt", async () => {
    const { store, ports, say, settle } = harness();
    store.set([{ name: "a", blob }]);
    await settle();
    const detail = store.detail(0);
    expect(ports[0]?.sent.at(-1)).toMatchObject({ kind: "detail", attempt: 1, index: 0 });
    store.set([{ name: "b", blob }]);
    say({ kind: "detail", id: 1, appraisal: { encoding: "hex" } as AuditAppraisal });
    expect(await detail).toBeNull();
  });
});
