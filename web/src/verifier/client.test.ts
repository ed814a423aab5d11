import { describe, expect, it } from "vitest";
import { CallFailed, type Listeners, type Port, VerifierClient } from "./client";
import type { Reply, Request } from "./messages";

function harness() {
  const sent: Request[] = [];
  const heard: string[] = [];
  const port: Port & { terminated: boolean } = {
    terminated: false,
    postMessage: (message) => void sent.push(message),
    terminate() {
      this.terminated = true;
    },
    onmessage: null,
    onmessageerror: null,
    onerror: null,
  };
  const listeners: Listeners = {
    ready: () => heard.push("ready"),
    trust: () => heard.push("trust"),
    lost: (problem) => heard.push(`lost ${problem.code}`),
  };
  const client = new VerifierClient(port, listeners);
  const say = (data: Reply) => port.onmessage?.(new MessageEvent("message", { data }));
  return { client, port, sent, heard, say };
}

describe("VerifierClient", () => {
  it("routes each answer to its call", async () => {
    const { client, say } = harness();
    const first = client.call("bundle", { exchange: 1, disclose: "hashes", response: null });
    const second = client.call("bundle", { exchange: 2, disclose: "hashes", response: null });
    say({ kind: "done", id: 2, output: "two" });
    say({ kind: "done", id: 1, output: "one" });
    expect(await first).toBe("one");
    expect(await second).toBe("two");
  });

  it("rejects at once on abort, tells the worker, and drops the late answer", async () => {
    const { client, sent, say } = harness();
    const controller = new AbortController();
    const open = client.call(
      "bundle",
      { exchange: 1, disclose: "hashes", response: null },
      { signal: controller.signal },
    );
    controller.abort();
    say({ kind: "done", id: 1, output: "late" });
    await expect(open).rejects.toMatchObject({ problem: { code: "CANCELLED" } });
    expect(sent.at(-1)).toEqual({ kind: "abort", id: 1 });
  });

  it("sends nothing for a call that was aborted before it started", async () => {
    const { client, sent } = harness();
    await expect(client.call("forget", null, { signal: AbortSignal.abort() })).rejects.toBeInstanceOf(
      CallFailed,
    );
    expect(sent).toEqual([]);
  });

  it("rejects every open call, once, when the worker reports an error", async () => {
    const { client, port, heard } = harness();
    const open = client.call("forget", null);
    port.onerror?.({ message: "boom" } as ErrorEvent);
    port.onerror?.({ message: "boom" } as ErrorEvent);
    await expect(open).rejects.toBeInstanceOf(CallFailed);
    expect(heard).toEqual(["lost VERIFIER_FAILED"]);
    expect(port.terminated).toBe(true);
    expect(client.alive).toBe(false);
  });

  it("declares a silent worker dead after exactly three unanswered pings", () => {
    const { client, heard, say } = harness();
    client.ping();
    client.ping();
    say({ kind: "pong" });
    client.ping();
    client.ping();
    client.ping();
    expect(heard).toEqual([]);
    client.ping();
    expect(heard).toEqual(["lost VERIFIER_SILENT"]);
  });

  it("rejects calls after close, and ignores late answers", async () => {
    const { client, port, heard, say } = harness();
    client.close();
    await expect(client.call("forget", null)).rejects.toBeInstanceOf(CallFailed);
    say({ kind: "ready", questions: [], builtIn: null });
    expect(port.onmessage).toBeNull();
    expect(heard).toEqual([]);
  });
});
