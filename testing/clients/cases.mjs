/** One function per JavaScript client. Each returns the vectors of the texts. */

const input = JSON.parse(process.env.CLIENT_INPUT);
const { address, model, texts } = input;
const apiKey = "none";
const baseURL = `${address}/v1`;

const cases = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL, apiKey });
    const { data } = await client.embeddings.create({ model, input: texts });
    return data.map(({ embedding }) => embedding);
  },

  async azure_openai() {
    const { AzureOpenAI } = await import("openai");
    const client = new AzureOpenAI({ endpoint: address, apiKey, apiVersion: "2024-10-21" });
    const { data } = await client.embeddings.create({ model, input: texts });
    return data.map(({ embedding }) => embedding);
  },

  async ai_sdk_openai() {
    const [{ embedMany }, { createOpenAI }] = await Promise.all([import("ai"), import("@ai-sdk/openai")]);
    const provider = createOpenAI({ baseURL, apiKey });
    return (await embedMany({ model: provider.embedding(model), values: texts })).embeddings;
  },

  async ai_sdk_compatible() {
    const [{ embedMany }, { createOpenAICompatible }] = await Promise.all([
      import("ai"),
      import("@ai-sdk/openai-compatible"),
    ]);
    const provider = createOpenAICompatible({ name: "clearseal", baseURL, apiKey });
    return (await embedMany({ model: provider.embeddingModel(model), values: texts })).embeddings;
  },

  async ai_sdk_cohere() {
    const [{ embedMany }, { createCohere }] = await Promise.all([import("ai"), import("@ai-sdk/cohere")]);
    const provider = createCohere({ baseURL: `${address}/v2`, apiKey });
    return (await embedMany({ model: provider.embedding(model), values: texts })).embeddings;
  },

  async langchain_openai() {
    const { OpenAIEmbeddings } = await import("@langchain/openai");
    return new OpenAIEmbeddings({ model, apiKey, configuration: { baseURL } }).embedDocuments(texts);
  },

  async langchain_ollama() {
    const { OllamaEmbeddings } = await import("@langchain/ollama");
    return new OllamaEmbeddings({ model, baseUrl: address }).embedDocuments(texts);
  },

  async llamaindex() {
    const { OpenAIEmbedding } = await import("@llamaindex/openai");
    return new OpenAIEmbedding({ model, apiKey, baseURL }).getTextEmbeddings(texts);
  },

  async genkit() {
    const [{ genkit }, { openAI }] = await Promise.all([
      import("genkit"),
      import("@genkit-ai/compat-oai/openai"),
    ]);
    const ai = genkit({ plugins: [openAI({ apiKey, baseURL })] });
    const embedder = openAI.embedder(model);
    const answers = await Promise.all(texts.map((content) => ai.embed({ embedder, content })));
    return answers.map(([{ embedding }]) => embedding);
  },

  async cohere() {
    const { CohereClientV2 } = await import("cohere-ai");
    const client = new CohereClientV2({ token: apiKey, environment: address });
    const answer = await client.embed({
      model,
      texts,
      inputType: "search_document",
      embeddingTypes: ["float"],
    });
    return answer.embeddings.float;
  },

  async ollama() {
    const { Ollama } = await import("ollama");
    return (await new Ollama({ host: address }).embed({ model, input: texts })).embeddings;
  },

  async huggingface() {
    const { InferenceClient } = await import("@huggingface/inference");
    const client = new InferenceClient(apiKey, { endpointUrl: address });
    const rows = [];
    for (const inputs of texts) rows.push((await client.featureExtraction({ inputs })).flat());
    return rows;
  },

  async chroma_openai() {
    const { OpenAIEmbeddingFunction } = await import("@chroma-core/openai");
    return new OpenAIEmbeddingFunction({ modelName: model, apiKey, apiBase: baseURL }).generate(texts);
  },
};

const vectors = await cases[input.case]();
process.stdout.write(`\n${JSON.stringify(vectors.map((vector) => Array.from(vector)))}\n`);
