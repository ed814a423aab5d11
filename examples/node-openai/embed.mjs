// OpenAI's client for Node through `clearseal proxy`.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "http://127.0.0.1:8788/v1", apiKey: "none" });

const input = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose again."];
const { data } = await client.embeddings.create({ model: "all-MiniLM-L6-v2", input });

// Vectors have length 1, so their dot product is the cosine.
const cosine = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
const [cat, kitten, rates] = data.map(({ embedding }) => embedding);
console.log(`cat and kitten: ${cosine(cat, kitten).toFixed(2)}`);
console.log(`cat and rates: ${cosine(cat, rates).toFixed(2)}`);

const refused = await client.embeddings
  .create({ model: "text-embedding-3-small", input: "x" })
  .catch((error) => error.code);
console.log(`another model: ${refused}`);
