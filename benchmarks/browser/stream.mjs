/**
 * Embeds very many lines in one tab of Chromium, over an attested channel: `npm run bench:stream -- --lines 100000`.
 *
 * Browser, relay and enclave share this machine's processors. Reports the duration, how often the page blocked input for more
 * than 50 ms (web.dev: long tasks), and the tab's memory; checks that every line got an embedding. Needs the built programs
 * (`CLEARSEAL_BIN_DIR`, or target/release) and the built page (web/dist).
 */
import { createRequire } from "node:module";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { longestOf, watchLongTasks } from "../../playwright/fixtures/long-tasks.mjs";
import { Fleet } from "../../testing/fleet/fleet.mjs";
import { endWithSignals, mebibytes, root } from "../../testing/fleet/processes.mjs";

endWithSignals();

const { values: options } = parseArgs({
  options: {
    lines: { type: "string", default: "100000" },
    rounds: { type: "string", default: "1" },
  },
});
const count = Number(options.lines);
/** Interval between two readings of the tab. */
const LOOK_MS = 1_000;
/** Readings without progress after which the run fails. */
const PATIENCE = 60;

const { chromium } = createRequire(join(root, "playwright/package.json"))("@playwright/test");
const fleet = await Fleet.start({ replicas: 1, page: join(root, "web", "dist") });
const browser = await chromium.launch({
  executablePath: process.env.CLEARSEAL_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
try {
  const [{ enclave, proxy, port }] = fleet.replicas;
  const rounds = [];
  for (let round = 0; round < Number(options.rounds); round += 1) {
    rounds.push(await embed(`http://127.0.0.1:${port}/`));
    process.stderr.write(`${JSON.stringify(rounds.at(-1))}\n`);
  }
  const report = {
    machine: `${cpus()[0].model}, ${availableParallelism()} processors`,
    chromium: browser.version(),
    lines: count,
    rounds,
    mebibytes: { enclave: mebibytes(enclave.pid), proxy: mebibytes(proxy.pid) },
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
} finally {
  await browser.close();
  await fleet.close();
}

/** Embeds all lines in one tab. */
async function embed(url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(url);
  await page.locator("section.seal h2", { hasText: "SIMULATED" }).waitFor();
  const longTasks = await watchLongTasks(page);
  const text = Array.from({ length: count }, (_, at) => `line ${at}`).join("\n");
  const file = { name: "lines.txt", mimeType: "text/plain", buffer: Buffer.from(text) };
  await page.getByLabel("Add files").setInputFiles(file);
  const submit = page.getByRole("button", { name: /^Embed/ });
  await submit.click({ timeout: 60_000 });
  const begun = performance.now();
  let heapBytes = 0;
  const shown = count.toLocaleString("en");
  const progress = page.locator(".embed-text");
  let progressText = "";
  for (let unchanged = 0; !progressText.includes(`${shown} of ${shown} items embedded`); ) {
    const before = progressText;
    progressText = await progress.innerText();
    unchanged = progressText === before ? unchanged + 1 : 0;
    if (unchanged > PATIENCE) throw new Error(`the page stopped: ${progressText}`);
    heapBytes = Math.max(heapBytes, await page.evaluate(() => performance.memory.usedJSHeapSize));
    await page.waitForTimeout(LOOK_MS);
  }
  const seconds = (performance.now() - begun) / 1_000;
  const tasks = await longTasks();
  await context.close();
  return {
    seconds: Math.round(seconds),
    perSecond: Math.round(count / seconds),
    longTasks: tasks.length,
    longestMs: longestOf(tasks),
    tasks: tasks.map(({ at, duration }) => `${Math.round(duration)} ms at ${(at / 1_000).toFixed(1)} s`),
    heapMebibytes: Math.round(heapBytes / 2 ** 20),
  };
}
