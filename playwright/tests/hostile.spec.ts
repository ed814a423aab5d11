import { flip, joinEvidence, splitEvidence } from "../fixtures/evidence.ts";
import type { Tamper } from "../fixtures/hostile.ts";
import { expect, type Stack, test } from "../fixtures/stack.ts";

const SECRET = "the patient reports chest pain";

/** Attacks of a hostile host on the evidence, with the check that must fail. */
const ATTACKS: readonly {
  what: string;
  check: string;
  tamper: (stack: Stack) => Promise<Tamper> | Tamper;
}[] = [
  {
    what: "a document whose signature was changed",
    check: "document-signature",
    tamper: () => evidence((parts) => ({ ...parts, document: flip(parts.document, -1) })),
  },
  {
    what: "a document cut short",
    check: "envelope",
    tamper: () => evidence((parts) => ({ ...parts, document: parts.document.subarray(0, -1) })),
  },
  {
    what: "a manifest with one bit changed",
    check: "binding",
    tamper: () => evidence((parts) => ({ ...parts, manifest: flip(parts.manifest, -1) })),
  },
  {
    what: "the document of an earlier connection",
    check: "freshness",
    tamper: async (stack) => {
      const earlier = await fetchEvidence(stack);
      return (answer) => ({ ...answer, body: earlier });
    },
  },
  {
    what: "the manifest of another enclave with this one's document",
    check: "binding",
    tamper: async (stack) => {
      const { manifest } = splitEvidence(await fetchEvidence(stack));
      await stack.restartEnclave();
      return evidence((parts) => ({ ...parts, manifest }));
    },
  },
  {
    what: "the document of another enclave under another root",
    check: "root",
    tamper: async (stack) => {
      const other = await fetchEvidence(stack);
      await stack.restartEnclave();
      return (answer) => ({ ...answer, body: other });
    },
  },
];

for (const { what, check, tamper } of ATTACKS) {
  test(`refuses ${what}, and sends nothing`, async ({ embed, stack }) => {
    stack.host.tamper("/v1/attestation", await tamper(stack));
    await embed.open();
    await expect(embed.verdict).toHaveText("Refused");
    await embed.openSeal();
    await expect(embed.check(check)).toHaveAttribute("data-tone", "failed");
    await embed.text.fill(SECRET);
    await expect(embed.submit).toBeDisabled();
    expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
  });
}

test("refuses a document for another nonce than the one that this tab sent", async ({ embed, stack }) => {
  stack.host.rewrite(
    "/v1/attestation",
    () => `/v1/attestation?nonce=${Buffer.alloc(32, 7).toString("base64url")}`,
  );
  await embed.open();
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("NONCE_MISMATCH");
  await embed.openSeal();
  await expect(embed.check("freshness")).toHaveAttribute("data-tone", "failed");
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
});

test("a policy that pins another image refuses this one", async ({ embed, stack }) => {
  stack.host.tamper("/v1/development-policy", (answer) => {
    const policy = JSON.parse(answer.body.toString("utf8")) as {
      releases: { pcrs: Record<string, string> }[];
    };
    for (const release of policy.releases) release.pcrs["0"] = "11".repeat(48);
    return { ...answer, body: Buffer.from(JSON.stringify(policy)) };
  });
  await embed.open();
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("PCR_MISMATCH");
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
});

test("a served policy never turns the seal green, for any root", async ({ embed, stack }) => {
  stack.host.tamper("/v1/development-policy", (answer) => {
    const policy = JSON.parse(answer.body.toString("utf8")) as { root: unknown };
    policy.root = "aws-nitro-enclaves-g1";
    return { ...answer, body: Buffer.from(JSON.stringify(policy)) };
  });
  await embed.open();
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.seal).not.toHaveAttribute("data-face", "verified");
});

/** Attacks of a hostile host on a sealed answer. None may appear as an answer of the service. */
const ANSWERS: readonly { what: string; tamper: Tamper }[] = [
  { what: "changed in one bit", tamper: (answer) => ({ ...answer, body: flip(answer.body, 40) }) },
  { what: "cut short", tamper: (answer) => ({ ...answer, body: answer.body.subarray(0, -8) }) },
  {
    what: "replaced by an unsealed success",
    tamper: (answer) => {
      answer.headers.set("content-type", "application/json");
      return { ...answer, body: Buffer.from('{"object":"list","data":[{"embedding":[1,2,3]}]}') };
    },
  },
  {
    what: "replaced by an unsealed failure",
    tamper: (answer) => ({ ...answer, status: 500, body: Buffer.from("no") }),
  },
  {
    what: "replaced by endless hints that the key is unknown",
    tamper: (answer) => {
      answer.headers.set("content-type", "application/problem+json");
      const problem = {
        type: "https://iana.org/assignments/http-problem-types#ohttp-key",
        title: "key",
        status: 400,
      };
      return { ...answer, status: 400, body: Buffer.from(JSON.stringify(problem)) };
    },
  },
];

for (const { what, tamper } of ANSWERS) {
  test(`shows no result if the reply is ${what}`, async ({ embed, stack }) => {
    await embed.open();
    await expect(embed.verdict).toHaveText("SIMULATED");
    stack.host.tamper("/v1/gateway", tamper);
    await embed.embed(SECRET);
    await expect(embed.progress).toContainText(/fail|refused|not embedded|could not|unknown/i);
    await expect(embed.receipt).toHaveCount(0);
    // The typed text stays, for a retry.
    await expect(embed.text).toHaveValue(SECRET);
    expect(stack.host.requests("/v1/gateway").length).toBeLessThanOrEqual(3);
  });
}

test("refuses the answer to another request", async ({ embed, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  let first: Buffer | null = null;
  stack.host.tamper("/v1/gateway", (answer) => {
    if (first) return { ...answer, body: first };
    first = answer.body;
    return answer;
  });
  await embed.embed("one");
  await expect(embed.receipt).toBeVisible();
  await embed.embed("two");
  await expect(embed.progress).toContainText(/fail|refused|not embedded|could not/i);
});

async function fetchEvidence(stack: Stack): Promise<Buffer> {
  const nonce = Buffer.alloc(32, 1).toString("base64url");
  const answer = await fetch(`${stack.url}/v1/attestation?nonce=${nonce}`);
  return Buffer.from(await answer.arrayBuffer());
}

type Change = (parts: ReturnType<typeof splitEvidence>) => ReturnType<typeof splitEvidence>;

function evidence(change: Change): Tamper {
  return (answer) => ({ ...answer, body: joinEvidence(change(splitEvidence(answer.body))) });
}
