import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { binaries } from "../fixtures/processes.ts";
import { expect, test } from "../fixtures/stack.ts";

test("a row of an index is proved to be computed from its text, and altered rows are refused", async ({
  audit,
  page,
  stack,
}) => {
  const folder = mkdtempSync(join(tmpdir(), "clearseal-proofs-"));
  try {
    const proofs = join(folder, "proofs.jsonl");
    const embed = promisify(execFile)(join(binaries, "clearseal"), [
      "embed",
      ...["--url", stack.url, "--accept-simulated", "--proofs", proofs],
    ]);
    embed.child.stdin?.end("the first text\na second text\na third one\n");
    const rows = (await embed).stdout.trimEnd().split("\n");
    const [evidence, , second, third] = readFileSync(proofs, "utf8").trimEnd().split("\n");
    const row = rows[1] ?? "";

    await audit.open();
    await page.getByText("Check one vector of an index").click();
    const fill = async (text: string, ...lines: readonly (string | undefined)[]) => {
      await page.getByLabel("Row: the line of JSON").fill(text);
      await page.getByLabel("Proof: the line of evidence").fill(lines.join("\n"));
      await page.getByRole("button", { name: "Check the vector" }).click();
    };
    const result = page.getByRole("region", { name: "Result of the vector check" });

    await fill(row, evidence, second);
    await expect(result).toHaveAttribute("data-face", "simulated");
    await expect(result).toContainText(
      "SIMULATED. This vector is item 2 of its answer, computed from 5 tokens",
    );
    await expect(result).toContainText("all-MiniLM-L6-v2");

    const { text, embedding } = JSON.parse(row) as { text: string; embedding: number[] };
    const altered: readonly [string, string, readonly (string | undefined)[]][] = [
      ["RESPONSE_HASH_MISMATCH", JSON.stringify({ text: `${text}.`, embedding }), [evidence, second]],
      [
        "RESPONSE_HASH_MISMATCH",
        JSON.stringify({ text, embedding: [...embedding].reverse() }),
        [evidence, second],
      ],
      ["RESPONSE_HASH_MISMATCH", row, [evidence, third]],
      ["ROW_DIFFERS", JSON.stringify({ ...JSON.parse(row), truncated: true }), [evidence, second]],
      ["PROOF_INCOMPLETE", row, [second]],
      ["PROOF_SEVERAL", row, [evidence, second, third]],
      ["ROW_MALFORMED", "a line of text", [evidence, second]],
    ];
    for (const [code, changed, lines] of altered) {
      await fill(changed, ...lines);
      await expect(result).toHaveAttribute("data-face", "refused");
      await expect(result.locator(".seal-code")).toHaveText(code);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
