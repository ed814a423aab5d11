import { test as base, expect } from "@playwright/test";
import { Fleet, measured, otherRelease } from "../../testing/fleet/fleet.mjs";
import { root } from "../fixtures/processes.ts";
import { EmbedPage } from "../pages/embed.ts";
import { PolicyControl } from "../pages/policy.ts";

/** An open page while replicas stop and start. `testing/fleet/fleet.test.mjs` tests other clients. */
const test = base.extend<{ fleet: Fleet; embed: EmbedPage }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the fixture's dependencies from this pattern.
  fleet: async ({}, use) => {
    const fleet = await Fleet.start({ replicas: 2, page: `${root}web/dist` });
    await use(fleet);
    await fleet.close();
  },
  embed: async ({ page, fleet }, use) => {
    await use(new EmbedPage(page, fleet.url));
  },
});

/** Embeds `lines` lines, and waits for the result. */
async function embedLines(embed: EmbedPage, what: string, lines = 2): Promise<void> {
  await embed.embed(Array.from({ length: lines }, (_, line) => `${what} ${line}`).join("\n"));
  // Requests to a stopped replica time out after some seconds and are sent again.
  await expect(embed.progress).toContainText(`${lines} of ${lines}`, { timeout: 90_000 });
  await expect(embed.verdict).toHaveText("SIMULATED");
}

test("a page keeps working while each replica is killed and restarted", async ({ embed, fleet }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embedLines(embed, "calm");
  for (const replica of fleet.replicas) {
    await replica.kill();
    await embedLines(embed, `without ${replica.name}`);
    await replica.start();
    await embedLines(embed, `with ${replica.name} again`);
  }
});

test("many lines are embedded while the enclave that embeds them is stopped", async ({ embed, fleet }) => {
  test.setTimeout(180_000);
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const all = embedLines(embed, "line", 512);
  for (const replica of fleet.replicas) {
    await embed.page.waitForTimeout(500);
    replica.enclave.signal("SIGSTOP");
    // Longer than the balancer needs to detect it.
    await embed.page.waitForTimeout(7_000);
    replica.enclave.signal("SIGCONT");
    await replica.ready();
  }
  await all;
});

test("a rolling release does not interrupt an open page whose policy accepts both releases", async ({
  embed,
  fleet,
  page,
}) => {
  const next = otherRelease(fleet.folder);
  const policy = await fleet.policy([await measured(next, fleet)]);
  expect(policy.releases).toHaveLength(2);
  await embed.open();
  await embed.openSeal();
  await new PolicyControl(page).choose("fleet.json", JSON.stringify(policy));
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embedLines(embed, "before");
  for (const replica of fleet.replicas) {
    await replica.roll(next, 1_000);
    await embedLines(embed, `${replica.name} has rolled`);
  }
  expect((await fleet.policy()).releases).toHaveLength(1);
});
