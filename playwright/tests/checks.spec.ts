import { expect, Stack, test } from "../fixtures/stack.ts";
import { EmbedPage } from "../pages/embed.ts";

test("each row shows expected and observed value, clause and time", async ({ embed, stack }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  stack.host.tamper("/v1/attestation", async (answer) => {
    await held;
    return answer;
  });
  await embed.open();
  await embed.openSeal();
  // All rows are running: none may look finished.
  await expect(embed.checks.locator('tr[data-tone="running"]')).toHaveCount(27);
  release();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const row = embed.check("root");
  await expect(row).toHaveAttribute("data-tone", "passed");
  for (const label of ["Expected", "Observed", "Time, ms", "Result"]) {
    await expect(row.locator(`td[data-label="${label}"]`)).not.toBeEmpty();
  }
  await expect(row.locator(".check-clause")).not.toBeEmpty();
});

test("registers show the first differing byte, and whether they are unpinned or zero", async ({
  embed,
  page,
  stack,
}) => {
  stack.host.tamper("/v1/development-policy", (answer) => {
    const policy = JSON.parse(answer.body.toString("utf8")) as {
      releases: { pcrs: Record<string, string> }[];
    };
    for (const { pcrs } of policy.releases) {
      const value = pcrs["0"] ?? "";
      // The third byte of forty-eight.
      pcrs["0"] = `${value.slice(0, 4)}${value.slice(4, 6) === "00" ? "ff" : "00"}${value.slice(6)}`;
    }
    return { ...answer, body: Buffer.from(JSON.stringify(policy)) };
  });
  await embed.open();
  await expect(embed.code).toHaveText("PCR_MISMATCH");
  await embed.openSeal();
  await page.getByRole("tab", { name: "Measurements" }).click();
  const register = page.getByRole("row", { name: /^PCR0/ });
  await expect(register).toContainText("differs");
  await expect(register).toContainText("3 of 48");
  await expect(register.locator("mark")).toHaveCount(2);
  await expect(page.getByRole("row", { name: /^PCR4/ })).toContainText("unpinned");
  await page.getByRole("button", { name: /more registers, all zero/ }).click();
  await expect(page.getByRole("row", { name: /^PCR15/ })).toContainText("zero");
});

test("the chain shows five certificates, their key usage, and a countdown to the leaf's expiry", async ({
  embed,
  page,
}) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await page.getByRole("tab", { name: "Certificates" }).click();
  const certificates = page.locator(".certificate");
  await expect(certificates).toHaveCount(5);
  await expect(certificates.first()).toContainText("any number");
  await expect(certificates.first()).toContainText("certificates");
  const leaf = certificates.last();
  await expect(leaf).toContainText("not an authority");
  await expect(leaf.getByRole("timer")).toHaveText(/^\d:\d\d:\d\d$/);
  const before = await leaf.getByRole("timer").textContent();
  await expect(leaf.getByRole("timer")).not.toHaveText(before ?? "");
  expect((await embed.save("Download the enclave certificate, DER")).subarray(0, 2)).toEqual(
    Buffer.from([0x30, 0x82]),
  );
});

test("a flipped bit shows the failing check, next to the checks that passed", async ({ embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await page.getByRole("button", { name: "Flip one bit and check again" }).click();
  const changed = page.getByRole("table", { name: "Checks of the changed copy" });
  await expect(changed.locator('tr[data-tone="failed"]')).toHaveCount(1);
  // Rows are in execution order: all before the failed one passed, none after it ran.
  const results = await changed.locator("tr[data-check] .check-result").allInnerTexts();
  const failed = results.findIndex((result) => result.startsWith("failed"));
  expect(results.slice(0, failed).every((result) => result.startsWith("passed"))).toBe(true);
  expect(results.slice(failed + 1).every((result) => result === "not run")).toBe(true);
  expect(failed).toBeGreaterThan(0);
  expect(results.length).toBeGreaterThan(failed + 1);
  await expect(embed.checks.locator('tr[data-tone="failed"]')).toHaveCount(0);
  await expect(embed.verdict).toHaveText("SIMULATED");
});

test("the browser verifies signatures, and the report states it", async ({ embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await expect(embed.check("document-signature")).toContainText("by the platform");
});

test("an expired verification is renewed automatically, and requests sent meanwhile succeed", async ({
  page,
}) => {
  test.setTimeout(180_000);
  const stack = await Stack.start(["--rotate-every", "10s"]);
  try {
    const embed = new EmbedPage(page, stack.url);
    await embed.open();
    await expect(embed.verdict).toHaveText("SIMULATED");
    const asked = () => stack.host.requests("/v1/attestation").length;
    const before = asked();
    await expect(embed.verdict).toHaveText("Expired", { timeout: 110_000 });
    await embed.embed("sent while the proof is renewed");
    await expect(embed.receipt).toBeVisible();
    await expect(embed.verdict).toHaveText("SIMULATED");
    expect(asked()).toBeGreaterThan(before);
  } finally {
    await stack.close();
  }
});
