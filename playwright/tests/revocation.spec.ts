import { serveLists } from "../fixtures/revocation.ts";
import { expect, test } from "../fixtures/stack.ts";

test("refuses a certificate that a list of its CA revokes, and sends nothing", async ({ embed, stack }) => {
  await serveLists(stack, "revoking");
  await embed.open();
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("CERTIFICATE_REVOKED");
  await embed.openSeal();
  const row = embed.check("revocation");
  await expect(row).toHaveAttribute("data-tone", "failed");
  await expect(row).toContainText("instance");
  await expect(row).toContainText("CERTIFICATE_REVOKED");
  await embed.text.fill("a line");
  await expect(embed.submit).toBeDisabled();
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
});

test("shows the date of the lists that revoke nothing of the chain", async ({ embed, stack }) => {
  await serveLists(stack, "current");
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  const row = embed.check("revocation");
  await expect(row).toHaveAttribute("data-tone", "passed");
  // Their CAs published them an hour before they were asked for.
  const text = (await row.textContent()) ?? "";
  const [, made = ""] = /Not revoked: regional, zonal, instance; per CRL of (\S+),/.exec(text) ?? [];
  const age = Date.now() - Date.parse(made);
  expect(age).toBeGreaterThan(3_500_000);
  expect(age).toBeLessThan(3_700_000);
});
