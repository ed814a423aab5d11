import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "../fixtures/stack.ts";

interface Reference {
  readonly items: readonly { readonly text: string; readonly embedding: string }[];
}

interface Export {
  readonly data: readonly { readonly text: string; readonly embedding: readonly number[] }[];
}

const reference = fileURLToPath(
  new URL("../../enclave-server/tests/reference/reference.json", import.meta.url),
);

test("a sentence becomes its embedding, with a valid receipt", async ({ embed }) => {
  const { items } = JSON.parse(await readFile(reference, "utf8")) as Reference;
  const known = items
    .filter(({ text }) => text.trim() === text && text !== "" && !/[\r\n]/.test(text))
    .slice(0, 8);
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.embed(known.map(({ text }) => text).join("\n"));
  await expect(embed.receipt).toContainText("SIMULATED");
  await expect(embed.receipt).toContainText("all-MiniLM-L6-v2");

  const saved = JSON.parse((await embed.save("JSON")).toString("utf8")) as Export;
  expect(saved.data.length).toBe(known.length);
  for (const [index, { text, embedding }] of known.entries()) {
    const item = saved.data[index];
    expect(item?.text).toBe(text);
    expect(cosine(item?.embedding ?? [], float32(embedding))).toBeGreaterThan(0.99999);
  }
});

test("the opened seal shows every check, and all required ones pass", async ({ embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  const rows = embed.checks.locator("tr[data-check]");
  await expect(rows).toHaveCount(27);
  await expect(embed.checks.locator('tr[data-tone="passed"]')).toHaveCount(26);
  await expect(embed.page.getByRole("heading", { name: "What this does not prove" })).toBeVisible();
});

test("one changed bit is refused, in the same tab", async ({ embed }) => {
  await embed.open();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await embed.openSeal();
  await embed.page.getByRole("button", { name: "Flip one bit and check again" }).click();
  await expect(embed.page.locator(".flipped")).toContainText("refused");
});

test("nothing can be sent before the verdict", async ({ embed, stack }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  stack.host.tamper("/v1/attestation", async (answer) => {
    await held;
    return answer;
  });
  await embed.open();
  await embed.text.fill("not yet");
  await expect(embed.verdict).toHaveText("Checking");
  await expect(embed.submit).toBeDisabled();
  release();
  await expect(embed.verdict).toHaveText("SIMULATED");
  await expect(embed.submit).toBeEnabled();
  expect(stack.host.requests("/v1/gateway")).toHaveLength(0);
});

function float32(base64: string): Float32Array {
  const bytes = Buffer.from(base64, "base64");
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(4 * index));
}

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  let left = 0;
  let right = 0;
  for (let index = 0; index < b.length; index += 1) {
    const [x, y] = [a[index] ?? Number.NaN, b[index] ?? Number.NaN];
    dot += x * y;
    left += x * x;
    right += y * y;
  }
  return dot / Math.sqrt(left * right);
}

test("the browser handles dropped text, and refusals stay until the next files or Clear", async ({
  embed,
}) => {
  const { page } = embed;
  await embed.open();
  await embed.text.fill("one");
  const refusals = page.locator(".refusal");
  const latin1 = { name: "latin1.txt", mimeType: "text/plain", buffer: Buffer.from([0xe9]) };
  await embed.files.setInputFiles([latin1]);
  await expect(refusals).toHaveText(/latin1\.txt was not read\. It is not UTF-8 text\./);
  const taken = await embed.text.evaluate((box) => {
    const data = new DataTransfer();
    data.setData("text/plain", "two");
    return !box.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  expect(taken).toBe(false);
  await expect(refusals).toHaveCount(1);
  await embed.files.setInputFiles([{ ...latin1, name: "other.txt" }]);
  await expect(refusals).toHaveText(/other\.txt was not read\./);
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await expect(refusals).toHaveCount(0);
});
