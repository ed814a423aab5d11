import { flip } from "../fixtures/evidence.ts";
import type { FrameTamper } from "../fixtures/frames.ts";
import { logLongTasks } from "../fixtures/long-tasks.mjs";
import { expect, test } from "../fixtures/stack.ts";
import type { EmbedPage } from "../pages/embed.ts";

// Thousands of lines take long on a busy machine.
test.setTimeout(120_000);

const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`);

/** Adds a file of these lines to the open page. */
async function addLines(embed: EmbedPage, texts: readonly string[], name = "lines.txt"): Promise<void> {
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.files.setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(texts.join("\n")) });
  await expect(embed.submit).toBeEnabled();
}

/** Float32 rows of a file in NumPy's format. */
function rowsOf(npy: Buffer, width: number): Float32Array[] {
  const start = 10 + npy.readUInt16LE(8);
  const rows = (npy.length - start) / (width * 4);
  return Array.from({ length: rows }, (_, row) =>
    Float32Array.from({ length: width }, (_, at) => npy.readFloatLE(start + (row * width + at) * 4)),
  );
}

test("thousands of lines are embedded over a channel, in order and with receipts, and the page stays responsive", async ({
  embed,
  page,
  stack,
}) => {
  const texts = [...lines(1_999), "word ".repeat(400)];
  await embed.open();
  const report = await logLongTasks(page);
  await addLines(embed, texts);
  await embed.submit.click();
  await expect(embed.progress).toContainText("items per second");
  await expect(embed.progress).toContainText("2,000 of 2,000 items embedded", { timeout: 90_000 });
  await report("2,000 lines");

  expect(stack.host.channels).toBe(1);
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
  // The page reports the simulation, and which text was cut.
  await expect(embed.receipt).toContainText("SIMULATED");
  await expect(page.locator(".cut-note").last()).toContainText("1 of 2,000 texts");
  await expect(page.locator(".cut-note").last()).toContainText("item 2,000".replace(",", ""));

  // The vectors equal those of sealed requests, in order.
  const all = rowsOf(await embed.save(".npy"), 384);
  expect(all).toHaveLength(2_000);
  await embed.page.getByRole("button", { name: "Clear", exact: true }).click();
  const some = [0, 255, 256, 1_998];
  await embed.embed(some.map((at) => texts[at] ?? "").join("\n"));
  await expect(embed.progress).toContainText("4 of 4 items embedded");
  const sealed = rowsOf(await embed.save(".npy"), 384);
  for (const [row, at] of some.entries()) {
    expect(cosine(sealed[row] ?? [], all[at] ?? []), `line ${at}`).toBeGreaterThan(0.9999);
  }
});

test("a receipt of a channel opens to the text and the vectors that it commits to", async ({
  embed,
  page,
  audit,
}) => {
  await embed.open();
  await addLines(embed, lines(300));
  await embed.submit.click();
  await expect(embed.progress).toContainText("300 of 300 items embedded", { timeout: 60_000 });
  await page.getByLabel(/my text and the vectors/).check();
  const bundle = (await embed.save("Download bundle")).toString("utf8");
  expect(Object.keys(JSON.parse(bundle) as object)).toEqual(
    expect.arrayContaining(["receipt", "document", "manifest", "request", "response"]),
  );
  await audit.open();
  await audit.paste(bundle);
  await expect(audit.verdict).toHaveText("SIMULATED");
});

test("embedded items stay after cancelling, and the rest can be sent later", async ({ embed, page }) => {
  await embed.open();
  await addLines(embed, lines(3_000));
  await embed.submit.click();
  await expect(embed.progress).toContainText("items per second", { timeout: 60_000 });
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(embed.progress).toContainText("Cancelled.");
  await expect(embed.progress).toContainText("your text is still here");
  await expect(page.getByRole("button", { name: /^Send the remaining/ })).toBeEnabled();
});

test("a cut connection neither loses nor duplicates items", async ({ embed, page, stack }) => {
  // The third answer of each connection never arrives.
  stack.host.tamperFrames((frame, { place }) => (place === 3 ? "cut" : [frame]));
  const texts = lines(1_500);
  await embed.open();
  await addLines(embed, texts);
  await embed.submit.click();
  await expect(embed.progress).toContainText("1,500 of 1,500 items embedded", { timeout: 90_000 });
  expect(stack.host.channels).toBeGreaterThanOrEqual(3);
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
  const saved = JSON.parse((await embed.save("JSON")).toString("utf8")) as { data: { text: string }[] };
  expect(saved.data.map(({ text }) => text)).toEqual(texts);
  // One receipt per answer, without receipts of lost answers.
  await expect(page.getByLabel("Choose a receipt").locator("option")).toHaveCount(6);
});

/** Attacks of a hostile host on a channel, with the expected code. */
const ATTACKS: readonly {
  what: string;
  code: string;
  tamper: () => FrameTamper;
  /** Items of 600, in three requests, that are not embedded; answers before the attack are kept. */
  left?: number;
  channels?: number;
}[] = [
  {
    what: "flips a bit of an answer",
    code: "CHANNEL_FORGED",
    tamper:
      () =>
      (frame, { place }) => [place === 1 ? flip(frame, -20) : frame],
  },
  {
    what: "flips a bit of the server hello",
    code: "ENDORSEMENT_SIGNATURE",
    tamper:
      () =>
      (frame, { place }) => [place === 0 ? flip(frame, -3) : frame],
  },
  {
    what: "drops an answer",
    code: "CHANNEL_SEQUENCE",
    tamper:
      () =>
      (frame, { place }) =>
        place === 1 ? [] : [frame],
  },
  {
    what: "repeats an answer",
    code: "CHANNEL_SEQUENCE",
    tamper:
      () =>
      (frame, { place }) =>
        place === 1 ? [frame, frame] : [frame],
    left: 344,
  },
  {
    what: "splices in an answer of an earlier session",
    code: "CHANNEL_FORGED",
    tamper: () => {
      let earlier: Buffer | null = null;
      return (frame, { place }) => {
        if (place !== 1) return [frame];
        if (earlier) return [earlier];
        earlier = Buffer.from(frame);
        return "cut";
      };
    },
    channels: 2,
  },
  {
    what: "declares a frame of four gigabytes",
    code: "CHANNEL_TOO_LARGE",
    tamper:
      () =>
      (frame, { place }) => {
        if (place !== 1) return [frame];
        const header = Buffer.from(frame.subarray(0, 16));
        header.writeUInt32BE(0xffff_ffff, 0);
        return [header];
      },
  },
  {
    what: "sends plain bytes after the handshake",
    code: "CHANNEL_UNEXPECTED",
    tamper:
      () =>
      (frame, { place }) => [place === 1 ? Buffer.alloc(64, 0x41) : frame],
  },
];

for (const { what, code, tamper, left = 600, channels = 1 } of ATTACKS) {
  test(`a host that ${what} is refused with ${code}, and nothing is sent as sealed requests`, async ({
    embed,
    stack,
  }) => {
    stack.host.tamperFrames(tamper());
    await embed.open();
    await addLines(embed, lines(600));
    await embed.submit.click();
    await expect(embed.progress.locator(".stopped")).toContainText(code, { timeout: 60_000 });
    await expect(embed.progress.locator(".stopped")).toContainText(`${left} items were not embedded`);
    expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
    // The page did not retry as after a network error.
    expect(stack.host.channels).toBe(channels);
  });
}

test("a replaced enclave is verified before it receives the rest", async ({ embed, stack }) => {
  await embed.open();
  await addLines(embed, lines(600));
  await stack.restartEnclave();
  await embed.submit.click();
  await expect(embed.progress).toContainText("600 of 600 items embedded", { timeout: 90_000 });
  expect(stack.host.requests("/v1/attestation").length).toBeGreaterThanOrEqual(2);
});

test("a host that blocks channels receives sealed requests", async ({ embed, stack }) => {
  stack.host.refuseChannels = true;
  await embed.open();
  await addLines(embed, lines(300));
  await embed.submit.click();
  await expect(embed.progress).toContainText("300 of 300 items embedded", { timeout: 90_000 });
  expect(stack.host.requests("/v1/gateway").length).toBeGreaterThan(0);
});

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  let left = 0;
  let right = 0;
  for (let at = 0; at < b.length; at += 1) {
    const [x, y] = [a[at] ?? Number.NaN, b[at] ?? Number.NaN];
    dot += x * y;
    left += x * x;
    right += y * y;
  }
  return dot / Math.sqrt(left * right);
}
