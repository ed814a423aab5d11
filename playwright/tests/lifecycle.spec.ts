import { expect, test } from "../fixtures/stack.ts";

test("an enclave that restarts between two requests is re-verified and answers", async ({ embed, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed("before");
  await expect(embed.receipt).toBeVisible();
  const documents = () => stack.host.requests("/v1/attestation").length;
  const before = documents();

  await stack.restartEnclave();
  await embed.embed("after the restart\nstill the same page");
  await expect(embed.progress).toContainText("2 of 2");
  await expect(embed.verdict).toHaveText("SIMULATED");
  expect(documents()).toBe(before + 1);
});

test("a stopped enclave is reported, the text stays, and the page recovers", async ({ embed, stack }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await stack.stopEnclave();
  await embed.embed("kept");
  await expect(embed.progress).toContainText(/fail|could not|not embedded/i);
  await expect(embed.text).toHaveValue("kept");
  await embed.verifyAgain();
  await expect(embed.verdict).toHaveText("Unreachable");
  await expect(embed.submit).toBeDisabled();
  await stack.restartEnclave();
  await embed.verifyAgain();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.submit.click();
  await expect(embed.receipt).toBeVisible();
});

test("the verdict disappears when the verifier dies", async ({ embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  const [worker] = embed.page.workers();
  await worker?.evaluate(() => self.close());
  await expect(embed.seal).not.toHaveAttribute("data-face", /verified|simulated/);
  await embed.text.fill("still here");
  await expect(embed.submit).toBeDisabled();
});
