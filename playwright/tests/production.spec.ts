import { join } from "node:path";
import { root } from "../fixtures/processes.ts";
import { expect, Stack, test } from "../fixtures/stack.ts";
import { AuditPage } from "../pages/audit.ts";
import { EmbedPage } from "../pages/embed.ts";
import { PolicyControl } from "../pages/policy.ts";

/** A page with a built-in production policy. The task runner builds it and sets its folder. */
const web = process.env.CLEARSEAL_PRODUCTION_WEB ?? join(root, "target", "clearseal", "production-web");

test("a page with a built-in policy refuses an enclave under a development root, and sends nothing", async ({
  page,
}) => {
  const stack = await Stack.start([], web);
  try {
    const embed = new EmbedPage(page, stack.url);
    await embed.open();
    await expect(embed.verdict).toHaveText("Refused");
    await expect(embed.seal).toHaveAttribute("data-face", "refused");
    await embed.openSeal();
    await expect(embed.check("root")).toHaveAttribute("data-tone", "failed");
    await embed.text.fill("not for this enclave");
    await expect(embed.submit).toBeDisabled();
    expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
    // The page did not request the server's own policy.
    expect(stack.host.requests("/v1/development-policy")).toHaveLength(0);

    const { valid } = (await (await page.request.get(`${stack.url}/samples.json`)).json()) as {
      valid: string;
    };
    const audit = new AuditPage(page, stack.url);
    await audit.open();
    await audit.paste(valid);
    await expect(audit.verdict).toHaveText("Refused");
    expect(stack.host.requests("/v1/development-policy")).toHaveLength(0);
  } finally {
    await stack.close();
  }
});

test("only a chosen policy replaces a built-in one, and the page states it", async ({ page }) => {
  const stack = await Stack.start([], web);
  try {
    const embed = new EmbedPage(page, stack.url);
    const audit = new AuditPage(page, stack.url);
    const control = new PolicyControl(page);
    const served = await (await fetch(`${stack.url}/v1/development-policy`)).text();
    const samples = (await (await page.request.get(`${stack.url}/samples.json`)).json()) as {
      valid: string;
      policy: string;
    };

    // The policy that came with the receipt would accept it, but is not used.
    await audit.open();
    await audit.drop([
      { name: "policy.json", content: samples.policy },
      { name: "bundle.json", content: samples.valid },
    ]);
    await expect(audit.verdict).toHaveText("Refused");
    await expect(audit.provenance).toContainText("Checked under the policy built into this page");
    await expect(audit.context).toContainText("The evidence includes a policy, which is not used:");
    await expect(control.region).toContainText("production, for a test, the policy built into this page");
    await control.choose("samples.json", samples.policy);
    await expect(audit.verdict).toHaveText("SIMULATED");
    await expect(audit.provenance).toContainText("Checked under a policy that you chose");
    await expect(audit.provenance).toContainText("It replaces the policy built into this page.");
    await control.useBuiltIn.click();
    await expect(audit.verdict).toHaveText("Refused");

    // Even under a chosen policy, a simulated enclave is refused.
    await embed.open();
    await expect(embed.verdict).toHaveText("Refused");
    await embed.openSeal();
    await expect(embed.provenance).toContainText("Checked under the policy built into this page");
    await control.choose("mine.json", served);
    await expect(embed.code).toHaveText("SIMULATION_REFUSED");
    await expect(embed.verdict).toHaveText("Refused");
    await expect(embed.provenance).toContainText("Checked under a policy that you chose");
    await expect(embed.provenance).toContainText("It replaces the policy built into this page.");
    await expect(control.region).toContainText(
      "It replaces the policy built into this page, production, for a test.",
    );
    await embed.text.fill("not for this enclave");
    await expect(embed.submit).toBeDisabled();
    await control.useBuiltIn.click();
    await expect(embed.provenance).toContainText("Checked under the policy built into this page");
    expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
  } finally {
    await stack.close();
  }
});
