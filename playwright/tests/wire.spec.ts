import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { binary } from "../fixtures/processes.ts";
import { expect, test } from "../fixtures/stack.ts";

const run = promisify(execFile);

test("no plaintext and no number of the embedding appears on a connection or in a log", async ({
  embed,
  stack,
}) => {
  const words = ["quinquagenarian", "xylophonist", "zeugmatically"];
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed(words.join(" "));
  await expect(embed.receipt).toBeVisible();
  const saved = JSON.parse((await embed.save("JSON")).toString("utf8")) as {
    data: { embedding: number[] }[];
  };
  const vector = saved.data[0]?.embedding ?? [];
  expect(vector).toHaveLength(384);

  for (const [wire, recorded] of [
    ["browser to proxy", stack.front.recorded],
    ["proxy to enclave", stack.back.recorded],
    ["logs", Buffer.from(stack.logs)],
  ] as const) {
    expect(recorded.length, wire).toBeGreaterThan(0);
    for (const word of words) {
      expect(recorded.includes(word), `${word}, ${wire}`).toBe(false);
      expect(
        recorded.includes(Buffer.from(word).toString("base64").slice(0, 12)),
        `${word}, ${wire}, base64`,
      ).toBe(false);
    }
    for (const number of vector.slice(0, 16)) {
      const raw = Buffer.alloc(4);
      raw.writeFloatLE(number);
      // A whole float is unlikely to occur by chance in two hundred kilobytes of ciphertext.
      expect(recorded.includes(raw), `${number}, ${wire}`).toBe(false);
      expect(recorded.includes(number.toFixed(6)), `${number} as text, ${wire}`).toBe(false);
    }
  }
});

for (const way of [[], ["--bulk"]]) {
  test(`${["the command line", ...way].join(" ")} leaves out a line that is refused, and names it`, async ({
    stack,
  }) => {
    const lines = [
      "The cat sleeps.",
      "word ".repeat(14_000),
      "A kitten naps.",
      "x".repeat(600 * 1024),
      "End.",
    ];
    const options = [
      "embed",
      "--accept-simulated",
      "--url",
      stack.proxyUrl,
      "--fields",
      "index,tokens",
      ...way,
    ];
    const embedding = run(binary("clearseal"), options);
    embedding.child.stdin?.end(`${lines.join("\n")}\n`);
    const { code, stdout, stderr } = await embedding
      .catch((failure: { code: number; stdout: string; stderr: string }) => failure)
      .then((ended) => ({ code: 0, ...ended }));
    const rows = stdout.trimEnd().split("\n");
    expect(rows.map((row) => (JSON.parse(row) as { index: number }).index)).toEqual([0, 2, 4]);
    expect(stderr).toMatch(/^index 1 is left out: .*70000 bytes.*TEXT_TOO_LONG/m);
    expect(stderr).toMatch(/^index 3 is left out: .*614400 bytes.*TEXT_TOO_LONG/m);
    expect(code).toBe(3);
  });
}

test("the command line embeds like the page, and audits its receipts", async ({ stack }) => {
  const folder = await mkdtemp(join(tmpdir(), "clearseal-"));
  try {
    const [receipts, policy] = [join(folder, "receipts.jsonl"), join(folder, "policy.json")];
    const lines = ["The cat sleeps.", "", "A kitten naps.", "Revenue fell."];
    const embedding = run(binary("clearseal"), [
      "embed",
      "--accept-simulated",
      "--url",
      stack.url,
      "--batch",
      "2",
      "--receipts",
      receipts,
    ]);
    embedding.child.stdin?.end(`${lines.join("\n")}\n`);
    const { stdout, stderr } = await embedding;
    expect(stderr).toContain("SIMULATED");
    const items = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { index: number; text: string; embedding: number[] });
    expect(items.map(({ text }) => text)).toEqual(["The cat sleeps.", "A kitten naps.", "Revenue fell."]);
    expect(items.map(({ index }) => index)).toEqual([0, 2, 3]);
    for (const { embedding: vector } of items) {
      expect(vector).toHaveLength(384);
      expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    }

    const bundles = (await readFile(receipts, "utf8")).trimEnd().split("\n");
    expect(bundles).toHaveLength(2);
    const served = await fetch(`${stack.url}/v1/development-policy`);
    await writeFile(policy, await served.text());
    for (const [index, bundle] of bundles.entries()) {
      const file = join(folder, `bundle-${index}.json`);
      await writeFile(file, bundle);
      const audit = ["verify", "receipt", file, "--policy", policy, "--accept-simulated", "--json"];
      const { stdout: report } = await run(binary("clearseal"), audit);
      expect((JSON.parse(report) as { verdict: string }).verdict).toBe("simulated");
      // One character of the receipt changed.
      await writeFile(
        file,
        bundle.replace(
          /("receipt": ?"[^"]{200})(.)/,
          (_, head: string, one: string) => head + (one === "A" ? "B" : "A"),
        ),
      );
      const tampered = await run(binary("clearseal"), audit).catch((error: { code: number }) => error);
      expect("code" in tampered && tampered.code).toBe(1);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("the command line agrees with the page", async ({ embed, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  const evidence = await embed.save("Download evidence");
  const policy = await embed.save("Download policy");
  const command =
    (await embed.page.locator(".command code").filter({ hasText: "clearseal verify" }).textContent()) ?? "";
  const nonce = /--nonce ([0-9a-f]+)/.exec(command)?.[1] ?? "";
  const at = /--at (\S+)/.exec(command)?.[1] ?? "";
  const folder = await mkdtemp(join(tmpdir(), "clearseal-"));
  try {
    const [evidenceFile, policyFile, rootFile] = ["evidence.cbor", "policy.json", "root.der"].map((name) =>
      join(folder, name),
    );
    if (!evidenceFile || !policyFile || !rootFile) throw new Error("no paths");
    await writeFile(evidenceFile, evidence);
    await writeFile(policyFile, policy);
    const { root } = JSON.parse(policy.toString("utf8")) as { root: { development: string } };
    await writeFile(rootFile, Buffer.from(root.development, "base64"));

    const verified = await run(binary("clearseal"), [
      "verify",
      "attestation",
      evidenceFile,
      "--policy",
      policyFile,
      "--nonce",
      nonce,
      "--at",
      at,
      "--accept-simulated",
      "--json",
    ]);
    const report = JSON.parse(verified.stdout) as {
      verdict: string;
      checks: { name: string; state: string }[];
    };
    expect(report.verdict).toBe("simulated");
    // The stack's host serves no revocation lists.
    const others = report.checks.filter(({ state }) => state !== "passed");
    expect(others.map(({ name, state }) => [name, state])).toEqual([["revocation", "skipped"]]);

    const inspected = await run(binary("clearseal"), [
      "inspect",
      "attestation",
      evidenceFile,
      "--root",
      rootFile,
      "--at",
      at,
      "--json",
    ]);
    const authentic = JSON.parse(inspected.stdout) as { verdict: string; document: { sha256: string } };
    expect(authentic.verdict).toBe("authentic");
    const { sha256 } = authentic.document;
    await embed.page.getByRole("tab", { name: "Evidence" }).click();
    await expect(embed.seal).toContainText(sha256.slice(0, 8));

    const refused = await run(binary("clearseal"), [
      "inspect",
      "attestation",
      evidenceFile,
      "--at",
      at,
      "--json",
    ]).catch((error: { code: number; stdout: string }) => error);
    expect("code" in refused && refused.code, "AWS's root did not sign this").toBe(1);
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
});
