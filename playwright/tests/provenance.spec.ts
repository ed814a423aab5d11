import type { Page } from "@playwright/test";
import { expect, type Stack, test } from "../fixtures/stack.ts";
import type { AuditPage } from "../pages/audit.ts";
import type { EmbedPage } from "../pages/embed.ts";
import { PolicyControl } from "../pages/policy.ts";

const CHOSEN = "Checked under a policy that you chose";
const EVIDENCE = "Checked under a policy that came with the evidence";
const NOT_USED = "The evidence includes a policy, which is not used:";
const ATTACKER = "policy of the attacker";

interface Fixture {
  readonly audit: AuditPage;
  readonly page: Page;
  /** One bundle, on one line. */
  readonly bundle: string;
  /** A policy that accepts the bundle. */
  readonly policy: string;
}

/** The service's own policy under another name, which accepts every receipt of this enclave. */
async function ownPolicy(stack: Stack, name: string): Promise<string> {
  const served = (await (await fetch(`${stack.url}/v1/development-policy`)).json()) as object;
  return JSON.stringify({ ...served, name });
}

/** The same for an image that does not exist, which accepts nothing. */
async function strictPolicy(stack: Stack): Promise<string> {
  const policy = JSON.parse(await ownPolicy(stack, "another image")) as {
    releases: { pcrs: Record<string, string> }[];
  };
  for (const release of policy.releases) release.pcrs["0"] = "11".repeat(48);
  return JSON.stringify(policy);
}

async function bundleOf(embed: EmbedPage): Promise<string> {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("one line");
  await expect(embed.receipt).toBeVisible();
  return (await embed.save("Download bundle")).toString("utf8").replace(/\n\s*/g, "");
}

/** Every input of an audit. Each shows the bundle's verdict. */
const INTAKES: readonly { what: string; smuggle: (scene: Fixture) => Promise<void> }[] = [
  {
    what: "pasted before the bundle",
    smuggle: async ({ audit, bundle, policy }) => {
      await audit.paste(`${policy}\n${bundle}`);
    },
  },
  {
    what: "dropped as a file with the bundle",
    smuggle: async ({ audit, bundle, policy }) => {
      await audit.drop([
        { name: "bundle.json", content: bundle },
        { name: "policy.json", content: policy },
      ]);
    },
  },
  {
    what: "dropped on the page with a pointer",
    smuggle: async ({ audit, page, bundle, policy }) => {
      await page.locator(".audit-intake").evaluate(
        (intake, contents) => {
          const data = new DataTransfer();
          for (const [index, content] of contents.entries()) {
            data.items.add(new File([content], `${index}.json`));
          }
          intake.dispatchEvent(
            new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }),
          );
        },
        [policy, bundle],
      );
      await expect(audit.sheet).toBeVisible();
    },
  },
  {
    what: "in the first line of a JSONL file",
    smuggle: async ({ audit, bundle, policy }) => {
      await audit.drop([{ name: "receipts.jsonl", content: `${policy}\n${bundle}\n` }]);
    },
  },
];

for (const { what, smuggle } of INTAKES) {
  test(`a policy ${what} is evidence, and is not used once another was chosen`, async ({
    audit,
    embed,
    page,
    stack,
  }) => {
    const bundle = await bundleOf(embed);
    const policy = await ownPolicy(stack, ATTACKER);
    const control = new PolicyControl(page);
    await audit.open();
    await smuggle({ audit, page, bundle, policy });
    await expect(audit.verdict).toHaveText("SIMULATED");
    await expect(audit.provenance).toContainText(`${EVIDENCE}: ${ATTACKER}`);
    await expect(audit.context).toContainText("no verdict is better than SIMULATED");
    await expect(control.region).toContainText("No trust policy is built into this page");
    await expect(control.stop).toHaveCount(0);
    await expect(page.locator('[data-face="verified"], [data-origin="chosen"]')).toHaveCount(0);

    await control.choose("mine.json", await strictPolicy(stack));
    await expect(audit.verdict).toHaveText("Refused");
    await expect(audit.code).toHaveText("PCR_MISMATCH");
    await expect(audit.provenance).toContainText(`${CHOSEN}: another image`);
    await expect(audit.context).toContainText(`${NOT_USED} ${ATTACKER}`);

    // Again with a chosen policy, which stays in use.
    await audit.clear();
    await smuggle({ audit, page, bundle, policy });
    await expect(audit.verdict).toHaveText("Refused");
    await expect(audit.provenance).toContainText(CHOSEN);
    await expect(audit.context).toContainText(`${NOT_USED} ${ATTACKER}`);
    await expect(control.region).toContainText("mine.json, a policy that you chose");

    await control.stop.click();
    await expect(audit.verdict).toHaveText("SIMULATED");
    await expect(audit.provenance).toContainText(EVIDENCE);
  });
}

test("the policy of the samples is evidence too", async ({ audit, page, stack }) => {
  const control = new PolicyControl(page);
  await audit.open();
  await audit.sample("a valid receipt");
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.provenance).toContainText(`${EVIDENCE}: samples of the audit page`);
  await control.choose("mine.json", await ownPolicy(stack, "this service"));
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.provenance).toContainText(`${CHOSEN}: this service`);
  await expect(audit.context).toContainText(NOT_USED);
});

test("no address can choose a policy", async ({ audit, embed, page, stack }) => {
  const policy = await ownPolicy(stack, ATTACKER);
  const encoded = Buffer.from(policy).toString("base64url");
  const control = new PolicyControl(page);
  await audit.open(`#receipt=${encoded}`);
  await expect(audit.verdict).toHaveText("Refused");
  await expect(audit.code).toHaveText("NOT_RECOGNISED");
  await expect(control.region).toContainText("No trust policy is built into this page");
  const addresses = [`?policy=${encoded}`, `#policy=${encoded}`, `#receipt=00&policy=${encoded}`];
  for (const address of addresses) {
    await audit.open(address);
    await expect(control.region).toContainText("No trust policy is built into this page");
    await embed.open(`/${address}`);
    await expect(embed.verdict).toHaveText("SIMULATED");
    await expect(embed.provenance).toContainText(EVIDENCE);
    await expect(embed.provenance).not.toContainText(ATTACKER);
  }
});

test("a policy among imported receipts is rejected, and one inside a bundle is ignored", async ({
  audit,
  embed,
  page,
  stack,
}) => {
  const bundle = await bundleOf(embed);
  const policy = await ownPolicy(stack, ATTACKER);
  const importing = page.getByLabel("Import receipts");
  const import_ = (content: string) =>
    importing.setInputFiles({
      name: "receipts.jsonl",
      mimeType: "application/jsonl",
      buffer: Buffer.from(content),
    });
  page.on("dialog", (dialog) => void dialog.accept());
  await page.reload();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await import_(`${policy}\n${bundle}\n`);
  await expect(page.locator(".history-problem")).toContainText("Nothing was imported");
  const inside = { ...(JSON.parse(bundle) as object), policy: JSON.parse(policy) as object };
  await import_(`${JSON.stringify(inside)}\n`);
  await page.getByRole("button", { name: "Audit all" }).click();
  await expect(audit.sheet).toBeVisible();
  await expect(page.getByText(ATTACKER)).toHaveCount(0);
  await expect(page.locator('[data-face="verified"], [data-origin="chosen"]')).toHaveCount(0);
});

test("a policy dropped or pasted into the text is text", async ({ embed, page, stack }) => {
  const policy = await ownPolicy(stack, ATTACKER);
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await page.locator(".text-input").evaluate((target, content) => {
    const data = new DataTransfer();
    data.items.add(new File([content], "policy.txt"));
    target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, policy);
  await expect(page.locator(".text-input .file")).toHaveCount(1);
  await embed.text.fill(policy);
  await expect(embed.provenance).toContainText(EVIDENCE);
  await expect(embed.provenance).not.toContainText(ATTACKER);
  await expect(embed.seal).toHaveAttribute("data-origin", "evidence");
});

test("the control chooses a policy, which every page shows until the tab closes", async ({
  audit,
  embed,
  page,
  stack,
}) => {
  const control = new PolicyControl(page);
  const asked = () => stack.host.requests("/v1/development-policy").length;
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.provenance).toContainText(`${EVIDENCE}: development`);
  await expect(control.region).toHaveCount(0);
  await embed.openSeal();
  await expect(control.region).toContainText("No trust policy is built into this page");

  const before = asked();
  await control.choose("mine.json", await ownPolicy(stack, "this service"));
  await expect(embed.provenance).toContainText(`${CHOSEN}: this service`);
  // A development root proves nothing, under any policy.
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.seal).toHaveAttribute("data-origin", "chosen");
  await expect(embed.seal.locator(".ring-notch")).toHaveCount(1);
  // The additional request is the test's own: the page no longer requests the service's policy.
  expect(asked()).toBe(before + 1);
  await embed.page.getByRole("tab", { name: "Evidence" }).click();
  await expect(embed.seal.locator(".facts").first()).toContainText("under a policy that you chose");
  await embed.embed("one line");
  await expect(embed.receipt).toBeVisible();

  // The choice also applies on the other page.
  await page.getByRole("button", { name: "Audit this" }).click();
  await expect(audit.verdict).toHaveText("SIMULATED");
  await expect(audit.provenance).toContainText(`${CHOSEN}: this service`);
  await expect(control.region).toContainText("mine.json, a policy that you chose");
  await page.getByRole("link", { name: "Embed", exact: true }).click();
  // A policy in use is visible although the seal is closed.
  await expect(control.region).toContainText("mine.json, a policy that you chose");

  await control.choose("strict.json", await strictPolicy(stack));
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("PCR_MISMATCH");
  await expect(embed.submit).toBeDisabled();

  page.on("dialog", (dialog) => void dialog.accept());
  await page.reload();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.provenance).toContainText(EVIDENCE);
  await expect(control.region).toHaveCount(0);
});

test("an invalid file keeps the current policy, and an unreadable policy refuses", async ({
  embed,
  page,
  stack,
}) => {
  const control = new PolicyControl(page);
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await control.choose("mine.json", await ownPolicy(stack, "this service"));
  await expect(embed.provenance).toContainText(CHOSEN);
  for (const [content, why] of [
    ["no JSON", "not JSON text"],
    [`"${"a".repeat(64 * 1024)}"`, "at most 64 KiB"],
  ] as const) {
    await control.choose("other.json", content);
    await expect(control.region.getByRole("alert")).toContainText(why);
    await expect(control.region).toContainText("mine.json, a policy that you chose");
    await expect(embed.provenance).toContainText(CHOSEN);
  }
  await control.choose("empty.json", "{}");
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("POLICY_UNREADABLE");
  await control.stop.click();
  await expect(embed.verdict).toHaveText("SIMULATED");
});

test("without any policy, the refusal offers to choose one", async ({ embed, page, stack }) => {
  const policy = await ownPolicy(stack, "this service");
  stack.host.tamper("/v1/development-policy", (answer) => ({ ...answer, status: 404 }));
  const control = new PolicyControl(page);
  await embed.open();
  await expect(embed.verdict).toHaveText("Refused");
  await expect(embed.code).toHaveText("NO_POLICY");
  await control.choose("other.json", "no JSON");
  await expect(control.region.getByRole("alert")).toContainText("not JSON text");
  await expect(control.region.getByRole("button")).toBeFocused();
  await control.choose("mine.json", policy);
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.provenance).toContainText(CHOSEN);
});

test("nothing mentions hardware under a development root", async ({ audit, embed, page }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await page.getByRole("tab", { name: "Measurements" }).click();
  await expect(page.getByRole("tabpanel")).toContainText("Values that the simulated document names");
  await expect(page.getByRole("tabpanel")).not.toContainText("hardware");
  await audit.open();
  await audit.sample("a valid receipt");
  await audit.tab("Measurements");
  await expect(page.getByRole("tabpanel")).toContainText("Values that the simulated document names");
  await expect(page.getByRole("tabpanel")).not.toContainText("hardware");
});
