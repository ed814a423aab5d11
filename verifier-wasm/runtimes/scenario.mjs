/** Runs in every runtime: connects, fetches, streams and verifies a vector. Returns "ok" or the error of each step. */
import { connect, initialise, verifyVector } from "@clearseal/verifier";

const TEXTS = 600;

export async function run({ url, row, proof, policy }, module) {
  const results = {};
  const step = async (name, work) => {
    try {
      results[name] = (await work()) ? "ok" : "wrong answer";
    } catch (error) {
      results[name] = `${error.code ?? error.name}: ${error.message}`;
    }
  };
  let session;
  await step("connect", async () => {
    if (module) await initialise(module);
    const connection = await connect(url, { allowSimulated: true });
    session = connection.session;
    const { problem, report } = connection;
    if (!session) throw Object.assign(new Error(problem?.detail ?? report.message), problem ?? report);
    return connection.status === "simulated";
  });
  await step("fetch", async () => {
    const response = await session.fetch("/v1/embeddings", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: session.report.manifest.modelId, input: ["one", "two"] }),
    });
    const { data } = await response.json();
    return data.length === 2 && data[0].embedding.length === 384;
  });
  await step("stream", async () => {
    let count = 0;
    const texts = Array.from({ length: TEXTS }, (_, at) => `line ${at}`);
    for await (const batch of session.stream(texts, { patienceMs: 10_000, attempts: 1 })) {
      if (batch.status === "embedded" && batch.values.length === batch.count * 384) count += batch.count;
    }
    return count === TEXTS;
  });
  await step("verifyVector", async () => {
    if (module) await initialise(module);
    const { receipt } = verifyVector(row, proof, null, policy);
    const changed = verifyVector(row.replace("cat", "dog"), proof, null, policy);
    return receipt.verdict === "simulated" && changed.receipt.code === "RESPONSE_HASH_MISMATCH";
  });
  session?.close();
  return results;
}
