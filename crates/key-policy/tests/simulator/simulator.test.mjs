// Compares this project's answers about key policies with those of @cloud-copilot/iam-simulate. `cases.json` holds random policies:
// both answer alike, or differ for a reason that is named here. A named difference that no longer occurs fails too. `holes.json`
// holds refused policies, each with a request that succeeds: the simulator must not deny it.
//
// `cargo test -p key-policy` checks that both files are up to date.

import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { test } from "node:test";

const PACKAGE = "@cloud-copilot/iam-simulate";
const KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const PARENT = "arn:aws:iam::111122223333:role/clearseal-parent";

const simulator = await import(PACKAGE).catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  return undefined;
});
const skip = simulator ? false : `${PACKAGE} is not installed; run npm ci`;
if (skip && process.env.CLEARSEAL_SKIPPED) {
  appendFileSync(process.env.CLEARSEAL_SKIPPED, `key-policy::simulator\t${skip}\n`);
}

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));

/** Answers `Allowed`, `ExplicitlyDenied` or `ImplicitlyDenied`, and names the condition keys that the simulator left out. */
async function simulate(policy, { action, caller, context }) {
  const answer = await simulator.runSimulation(
    {
      request: {
        principal: caller,
        action,
        resource: { resource: KEY, accountId: "111122223333" },
        contextVariables: context,
      },
      identityPolicies: [],
      serviceControlPolicies: [],
      resourceControlPolicies: [],
      resourcePolicy: policy,
    },
    {},
  );
  assert.notEqual(answer.resultType, "error", JSON.stringify(answer));
  return { theirs: answer.overallResult, ignored: answer.result.ignoredContextKeys };
}

/** Rules that only one of the two implements, and the refused policies that show them. */
const DIFFERENCES = [
  {
    name: "encryption-context",
    why:
      "The simulator knows kms:EncryptionContext:KEY by its placeholder alone and leaves every real key of it out of the request. " +
      "KMS sends the pairs of the encryption context, so here they count.",
    explains: ({ ignored }) => ignored.some((key) => /^kms:encryptioncontext:/i.test(key)),
    holes: ["an encryption context that differs in case is spared", "one encryption context is spared"],
  },
];

test("random policies are answered alike, or differ for a named reason", { skip }, async () => {
  const unexplained = [];
  const found = new Set();
  let compared = 0;
  for (const { policy, requests } of read("cases.json")) {
    for (const request of requests) {
      const { theirs, ignored } = await simulate(policy, request);
      compared += 1;
      if (theirs === request.answer) continue;
      const difference = DIFFERENCES.find((it) => it.explains({ ignored }));
      if (difference) found.add(difference.name);
      else unexplained.push({ theirs, request, policy });
    }
  }
  assert.deepEqual(unexplained.slice(0, 3), [], `${unexplained.length} of ${compared} differ`);
  assert.equal(compared, 240, "requests in cases.json");
  assert.deepEqual([...found].sort(), DIFFERENCES.map((it) => it.name).sort(), "found, and listed");
});

test("the simulator does not deny the request of a refused policy", { skip }, async () => {
  const holes = read("holes.json");
  assert.ok(holes.length >= 20);
  const denied = [];
  for (const { name, policy, action, context } of holes) {
    const caller = context["aws:principalarn"] ?? PARENT;
    const { theirs, ignored } = await simulate(policy, { action, caller, context });
    if (theirs !== "ExplicitlyDenied") continue;
    assert.ok(
      DIFFERENCES.some((it) => it.explains({ ignored })),
      name,
    );
    denied.push(name);
  }
  assert.deepEqual(denied.sort(), DIFFERENCES.flatMap((it) => it.holes).sort());
});
