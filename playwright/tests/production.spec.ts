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

    const { valid } = (await (await page.request.get(`${stack.url}/samples.json`)).json()) as {
      valid: string;
    };
    const audit = new AuditPage(page, stack.url);
    await audit.open();
    await audit.paste(valid);
    await expect(audit.verdict).toHaveText("Refused");
  } finally {
    await stack.close();
  }
});
