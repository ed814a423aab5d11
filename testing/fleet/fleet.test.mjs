/**
 * Replicas are killed, stopped, drained, cut off, restarted and rolled; every client continues, and every embedding is correct.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { everyClient, progress, references, TEXTS } from "./clients.mjs";
import { Fleet, measured, otherRelease } from "./fleet.mjs";
import { Ledger } from "./ledger.mjs";
import { Middlebox } from "./middlebox.mjs";
import { binary, endWithSignals, pause } from "./processes.mjs";

endWithSignals();

/** How long a replica is drained before it is stopped. Clients that still hold its document attest again. */
const DRAINED_MS = 2_000;

let fleet;
let middlebox;
let policy;
let next;
let right;
let clients;
/** Receipts of the npm package's answers. */
const ledger = new Ledger();

before(async () => {
  fleet = await Fleet.start({ replicas: 3, wires: true });
  middlebox = new Middlebox(fleet.url);
  await middlebox.listen();
  next = otherRelease(fleet.folder);
  policy = await fleet.policy([await measured(next, fleet)]);
  assert.equal(policy.releases.length, 2);
  right = await references(fleet.url, policy);
  assert.equal(new Set(right).size, TEXTS.length);
  const options = { url: middlebox.url, policy, references: right, folder: fleet.folder };
  clients = everyClient(options, { npm: { note: (bundle) => ledger.add(bundle) } });
  await progress(clients);
});

after(async () => {
  await Promise.all((clients ?? []).map(({ end }) => end()));
  await middlebox?.close();
  await fleet?.close();
});

/** Checks that nothing has failed so far, and no embedding was wrong. */
function assertNoFailures() {
  for (const { name, work } of clients) {
    assert.equal(work.tally.wrong, 0, `${name}: wrong vectors`);
    assert.deepEqual([...work.tally.failed], [], `${name}: ${work.tally.lastError ?? "failed"}`);
  }
}

/** Does `harm`, lets every client continue, repairs it, and lets them continue again. */
async function survive(harm, mend) {
  await harm();
  await progress(clients);
  await mend();
  await progress(clients);
  assertNoFailures();
}

test("requests find the replica that they are sealed to", async () => {
  const before = middlebox.seen.get("/v1/attestation");
  await progress(clients, 64);
  assert.equal(middlebox.seen.get("/v1/attestation"), before, "no client had to attest again");
  assertNoFailures();
});

test("a replica is killed, and started again", async () => {
  const [replica] = fleet.replicas;
  await survive(
    () => replica.kill(),
    () => replica.start(),
  );
});

test("each enclave is killed in turn, its proxy stays", async () => {
  for (const replica of fleet.replicas) {
    await survive(
      () => replica.killEnclave(),
      () => replica.start(),
    );
  }
});

test("an enclave is stopped, and goes on", async () => {
  const [, replica] = fleet.replicas;
  await survive(
    () => replica.enclave.signal("SIGSTOP"),
    async () => {
      replica.enclave.signal("SIGCONT");
      await replica.ready();
    },
  );
});

test("a proxy is stopped, and goes on", async () => {
  const [, , replica] = fleet.replicas;
  await survive(
    () => replica.proxy.signal("SIGSTOP"),
    async () => {
      replica.proxy.signal("SIGCONT");
      await replica.ready();
    },
  );
});

test("a replica is drained, and put back: no client attests again", async () => {
  const [replica] = fleet.replicas;
  // Wait until clients that the last test moved have settled.
  await progress(clients, 64);
  const before = middlebox.seen.get("/v1/attestation");
  await survive(
    () => replica.drain(),
    () => replica.undrain(),
  );
  assert.equal(middlebox.seen.get("/v1/attestation"), before);
});

test("a replica is cut off, and another one falls silent", async () => {
  const [first, second] = fleet.replicas;
  await survive(
    () => first.wire.cut(),
    () => first.wire.mend(),
  );
  await survive(
    () => second.wire.silence(),
    () => second.wire.mend(),
  );
});

test("the balancer is restarted and knows no name", async () => {
  await fleet.balancer.kill();
  await fleet.startBalancer();
  await progress(clients);
  // Without a balancer, clients can only retry: single requests may have failed meanwhile.
  for (const { work } of clients) work.tally.failed.delete("NETWORK");
  assertNoFailures();
});

test("a middlebox that rewrites errors breaks no client", async () => {
  middlebox.rewriting = true;
  try {
    for (const replica of fleet.replicas) {
      await survive(
        () => replica.killEnclave(),
        () => replica.start(),
      );
    }
    assert.ok(middlebox.rewritten > 0, "it had something to rewrite");
  } finally {
    middlebox.rewriting = false;
  }
});

test("a release is rolled, replica by replica, under a policy that accepts both", async () => {
  for (const replica of fleet.replicas) {
    await replica.roll(next, DRAINED_MS);
    await progress(clients);
    assertNoFailures();
  }
  const { releases } = await fleet.policy();
  assert.equal(releases.length, 1, "every replica runs the new release");
});

test("the log of each replica is found through the balancer", async () => {
  // The log is pulled after each sealed answer, at most ten times a second.
  await pause(1_000);
  let found = 0;
  for (const replica of fleet.replicas) {
    const { logs } = await (await fetch(`${replica.url}/v1/log`)).json();
    for (const { log } of logs) {
      const answer = await fetch(`${fleet.url}/v1/log/${log}/head`);
      assert.equal(answer.status, 200, `${replica.name} has ${log}`);
      found += 1;
    }
  }
  assert.ok(found >= fleet.replicas.length);
  const unknown = await fetch(`${fleet.url}/v1/log/${"00".repeat(32)}/head`);
  assert.equal(unknown.status, 404);
});

test("keys that were handed out are shown through the balancer, and by the one replica that they are of", async () => {
  const nonce = randomBytes(32).toString("base64url");
  const answer = await fetch(`${fleet.url}/v1/attestation?nonce=${nonce}`);
  const evidence = join(fleet.folder, "evidence.cbor");
  writeFileSync(evidence, Buffer.from(await answer.arrayBuffer()));
  const trusted = join(fleet.folder, "trusted.json");
  writeFileSync(trusted, JSON.stringify(await fleet.policy()));
  // Not synchronously: the networks in front of the replicas run in this process.
  const shown = async (url) => {
    const asked = [
      "verify",
      "keys",
      evidence,
      "--policy",
      trusted,
      "--url",
      url,
      "--accept-simulated",
      "--json",
    ];
    const child = spawn(binary("clearseal"), asked, { stdio: ["ignore", "pipe", "inherit"] });
    const [output, [status]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    assert.ok([0, 1].includes(status), output);
    return JSON.parse(output).hosts[0].log.code;
  };
  assert.equal(await shown(fleet.url), null);
  const codes = await Promise.all(fleet.replicas.map(({ url }) => shown(url)));
  assert.deepEqual(codes.sort(), ["KEYS_NOT_SHOWN", "KEYS_NOT_SHOWN", null].sort());
});

test("a replica is restarted in order, whichever of its programs ends first", async () => {
  const [replica] = fleet.replicas;
  for (const first of ["proxy", "enclave", "both"]) {
    await replica.drain();
    await pause(DRAINED_MS);
    await replica.stop(first);
    await replica.start();
    await replica.undrain();
    await progress(clients);
    assertNoFailures();
  }
});

test("at the end every line has its row, and every row its vector", async () => {
  const tallies = await Promise.all(clients.map(({ end }) => end()));
  assertNoFailures();
  for (const tally of tallies) assert.ok(tally.right > 0);
});

test("every receipt is in a log, but for the last ones of enclaves that were killed", async () => {
  // The clients have ended. Each proxy reads its log, and publishes new entries, every 5 seconds.
  await pause(10_000);
  const logs = new Set();
  for (const { url } of fleet.replicas) {
    for (const { log } of (await (await fetch(`${url}/v1/log`)).json()).logs) logs.add(log);
  }
  const { lost, wrong, logged } = await ledger.settle(fleet.url, [...logs], fleet.killed);
  assert.deepEqual([[...lost], wrong], [[], []]);
  assert.ok(logged > 0);
  rmSync(join(fleet.folder, "enclave-server"), { force: true });
});
