// OpenAI's client for Node without a proxy: `session.fetch` encrypts each request to the verified enclave in this process.
import { connect } from "@clearseal/verifier";
import OpenAI from "openai";

const url = "http://127.0.0.1:8787";
// For development. In production, pass `{ policy }` and expect the status "trusted".
const connection = await connect(url, { allowSimulated: true });
if (connection.status !== "simulated") {
  throw new Error(`expected the simulated enclave of npm start: ${connection.status}`);
}
const { session } = connection;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", fetch: session.fetch });
const { data } = await client.embeddings.create({
  model: "all-MiniLM-L6-v2",
  input: ["only the enclave", "reads these"],
});
console.log(`${data.length} vectors of ${data[0].embedding.length} numbers`);
session.close();
