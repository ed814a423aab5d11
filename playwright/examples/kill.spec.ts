import { readFileSync } from "node:fs";
import { expect, test } from "@playwright/test";
import { Client, PARTS } from "../fixtures/client.ts";

/** Kills each process in turn with SIGKILL during many requests: there is no wrong answer, and right ones resume. */

const WORKERS = 32;
const texts = Array.from({ length: 16 }, (_, index) => `text ${index} about ${index % 2 ? "cats" : "rates"}`);

async function embed(client: Client, input: string | string[]): Promise<string[] | null> {
  const answer = await fetch(`${client.proxy}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "all-MiniLM-L6-v2", input, encoding_format: "base64" }),
  });
  const body = (await answer.json()) as { data?: { embedding: string }[]; error?: { code: string } };
  // Every failure has a code.
  if (!answer.ok) expect(body.error?.code).toMatch(/^[A-Z_]+$/);
  return body.data?.map(({ embedding }) => embedding) ?? null;
}

test("each process is killed under load, and no answer is wrong", async () => {
  const client = await Client.start();
  try {
    const rows = (await embed(client, texts)) ?? [];
    const wanted = new Map(texts.map((text, index) => [text, rows[index]]));
    let [right, failed, wrong, over] = [0, 0, 0, false];
    const worker = async (first: number) => {
      for (let turn = first; !over; turn += 7) {
        const text = texts[turn % texts.length] ?? "";
        const row = await embed(client, text).catch(() => null);
        if (row === null) {
          failed += 1;
          await new Promise((resolve) => setTimeout(resolve, 20));
        } else if (row[0] === wanted.get(text)) right += 1;
        else wrong += 1;
      }
    };
    const workers = Array.from({ length: WORKERS }, (_, first) => worker(first));
    const more = async () => {
      const before = right;
      await expect.poll(() => right, { timeout: 60_000 }).toBeGreaterThan(before + 2 * WORKERS);
    };
    await more();
    for (const part of PARTS) {
      const before = failed;
      await client.kill(part);
      // Under load, some request must fail.
      await expect.poll(() => failed).toBeGreaterThan(before);
      client.begin(part);
      await more();
    }
    over = true;
    await Promise.all(workers);
    expect(wrong).toBe(0);
    // Each right answer wrote a whole line; an interrupted answer may have written one too.
    const lines = readFileSync(client.receipts, "utf8").trimEnd().split("\n");
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty("receipt");
    expect(lines.length).toBeGreaterThan(right);
  } finally {
    await client.close();
  }
});
