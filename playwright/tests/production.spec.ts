import { join } from "node:path";
import { root } from "../fixtures/processes.ts";
import { expect, Stack, test } from "../fixtures/stack.ts";
import { AuditPage } from "../pages/audit.ts";
import { EmbedPage } from "../pages/embed.ts";

/** A page whose verifier carries a production policy; the task runner builds it beside the usual one, and says where. */
const web = process.env.CLEARSEAL_PRODUCTION_WEB ?? join(root, "target", "clearseal", "production-web");

test("a page with a policy of its own refuses an enclave under a development root, and sends nothing", async ({
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
    // What the server says of itself was not even asked for.
    expect(stack.host.requests("/v1/development-policy")).toHaveLength(0);

    const { valid, policy } = (await (await page.request.get(`${stack.url}/samples.json`)).json()) as {
      valid: string;
      policy: string;
    };
    const audit = new AuditPage(page, stack.url);
    await audit.open();
    await audit.paste(valid);
    await expect(audit.verdict).toHaveText("Refused");

    // A policy that comes along with the receipt takes the place of none, whatever it is packed in.
    const line = (json: string) => JSON.stringify(JSON.parse(json));
    for (const smuggled of [`${line(policy)}\n${line(valid)}`, `[${policy},${valid}]`]) {
      await audit.clear();
      await audit.paste(smuggled);
      await expect(page.getByText("came with the evidence")).toContainText("It is not used");
      await expect(audit.verdict).toHaveText("Refused");
    }

    // Chosen with the control for it, it judges, and is said to be chosen; a development root still proves nothing.
    await page
      .getByLabel("Choose a trust policy")
      .setInputFiles({ name: "mine.json", mimeType: "application/json", buffer: Buffer.from(policy) });
    await expect(page.getByText("you chose")).toContainText("replaces any that is built into this page");
    await expect(audit.verdict).toHaveText("SIMULATED");
    await page.getByRole("button", { name: "Stop using it" }).click();
    await expect(audit.verdict).toHaveText("Refused");
  } finally {
    await stack.close();
  }
});
