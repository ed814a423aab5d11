/** The clients with their versions, and how each language installs and starts them. */

import { execFile } from "node:child_process";
import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";

const exec = promisify(execFile);

/** A client with the name of its case, its packages, the first of which is the one whose version the table shows. */
function client(language, name, functionName, packages, more = {}) {
  const [version] = Object.values(packages);
  return { language, name, case: functionName, packages, version, ...more };
}

const python = client.bind(null, "Python");
const javascript = client.bind(null, "JavaScript");

export const CLIENTS = [
  python("openai", "openai", { openai: "3.57.0" }),
  python("openai, AzureOpenAI over TLS", "azure_openai", { openai: "3.57.0" }, { tls: true }),
  python(
    "langchain-openai",
    "langchain_openai",
    { "langchain-openai": "1.7.4" },
    {
      setting: "check_embedding_ctx_length=False",
    },
  ),
  python("langchain-ollama", "langchain_ollama", { "langchain-ollama": "1.1.0" }),
  python(
    "langchain-cohere",
    "langchain_cohere",
    { "langchain-cohere": "0.6.0" },
    {
      why: "calls the first version of Cohere's API, `/v1/embed`",
    },
  ),
  python(
    "langchain-huggingface",
    "langchain_huggingface",
    { "langchain-huggingface": "1.2.3" },
    {
      why: "refuses a URL as `model`",
    },
  ),
  python("llama-index-embeddings-openai", "llama_index_openai", { "llama-index-embeddings-openai": "0.7.0" }),
  python("llama-index-embeddings-openai-like", "llama_index_openai_like", {
    "llama-index-embeddings-openai-like": "0.4.0",
  }),
  python("llama-index-embeddings-ollama", "llama_index_ollama", {
    "llama-index-embeddings-ollama": "0.10.0",
  }),
  python("llama-index-embeddings-text-embeddings-inference", "llama_index_tei", {
    "llama-index-embeddings-text-embeddings-inference": "0.6.0",
  }),
  python("haystack-ai", "haystack", { "haystack-ai": "3.4.1" }),
  python("litellm", "litellm", { litellm: "1.110.2" }),
  python("dspy", "dspy", { "dspy[numpy]": "3.4.1" }),
  python("chromadb", "chromadb", { chromadb: "1.5.9", openai: "3.57.0" }),
  python(
    "lancedb, function openai",
    "lancedb_openai",
    { lancedb: "0.40.0", openai: "3.57.0", pandas: "3.0.3" },
    {
      why: "knows the dimension of OpenAI's models alone",
    },
  ),
  python("lancedb, function ollama", "lancedb_ollama", {
    lancedb: "0.40.0",
    ollama: "0.6.3",
    pandas: "3.0.3",
  }),
  python("pydantic-ai", "pydantic_ai", { "pydantic-ai-slim[openai]": "2.68.0" }),
  python("semantic-kernel", "semantic_kernel", { "semantic-kernel": "1.45.0" }),
  python("cohere", "cohere", { cohere: "7.3.1" }),
  python("ollama", "ollama", { ollama: "0.6.3" }),
  python("huggingface_hub", "huggingface_hub", { "huggingface-hub": "2.4.0", numpy: "2.4.6" }),

  javascript("openai", "openai", { openai: "7.59.0" }),
  javascript("openai, AzureOpenAI over TLS", "azure_openai", { openai: "7.59.0" }, { tls: true }),
  javascript("ai with @ai-sdk/openai", "ai_sdk_openai", { ai: "7.0.173", "@ai-sdk/openai": "4.0.118" }),
  javascript("ai with @ai-sdk/openai-compatible", "ai_sdk_compatible", {
    ai: "7.0.173",
    "@ai-sdk/openai-compatible": "3.0.92",
  }),
  javascript("ai with @ai-sdk/cohere", "ai_sdk_cohere", { ai: "7.0.173", "@ai-sdk/cohere": "4.0.52" }),
  javascript("@langchain/openai", "langchain_openai", {
    "@langchain/openai": "1.6.0",
    "@langchain/core": "1.4.0",
  }),
  javascript("@langchain/ollama", "langchain_ollama", {
    "@langchain/ollama": "1.3.0",
    "@langchain/core": "1.4.0",
  }),
  javascript("llamaindex", "llamaindex", { llamaindex: "0.12.1", "@llamaindex/openai": "0.4.23" }),
  javascript("genkit", "genkit", { genkit: "1.42.0", "@genkit-ai/compat-oai": "1.42.0" }),
  javascript("cohere-ai", "cohere", { "cohere-ai": "8.1.0" }),
  javascript("ollama", "ollama", { ollama: "0.6.4" }),
  javascript("@huggingface/inference", "huggingface", { "@huggingface/inference": "4.13.30" }),
  javascript("@chroma-core/openai", "chroma_openai", { "@chroma-core/openai": "0.1.10" }),

  client("Go", "openai-go", "openai", { "github.com/openai/openai-go/v3": "3.99.0" }),

  client("Java", "openai-java", "openai", { "com.openai:openai-java": "4.101.0" }),
  client("Java", "LangChain4j", "langchain4j", { "dev.langchain4j:langchain4j-open-ai": "1.19.0" }),
  client("Java", "Spring AI", "spring", { "org.springframework.ai:spring-ai-openai": "2.0.1" }),

  client("Rust", "async-openai", "openai", { "async-openai": "0.43.0" }),
];

/** `install` returns the command that runs the case named by `CLIENT_INPUT`. */
export const LANGUAGES = {
  Python: {
    async install(folder, { packages }) {
      const interpreter = join(folder, "venv", "bin", "python");
      if (!existsSync(interpreter)) {
        await exec("python3", ["-m", "venv", join(folder, "venv")]);
        const pinned = Object.entries(packages).map(([name, version]) => `${name}==${version}`);
        await exec(interpreter, [
          "-m",
          "pip",
          "install",
          "--quiet",
          "--disable-pip-version-check",
          ...pinned,
        ]);
      }
      return [interpreter, copyCases(folder, "cases.py")];
    },
  },
  JavaScript: {
    async install(folder, { packages }) {
      if (!existsSync(join(folder, "node_modules"))) {
        const manifest = { private: true, type: "module", dependencies: packages };
        writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
        await exec("npm", ["install", "--no-audit", "--no-fund"], { cwd: folder });
      }
      return [process.execPath, copyCases(folder, "cases.mjs")];
    },
  },
  Go: {
    async install(folder, { packages }) {
      const go = existsSync("/usr/local/go/bin/go") ? "/usr/local/go/bin/go" : "go";
      copyCases(folder, "cases.go");
      const modules = Object.entries(packages).map(([name, version]) => `${name}@v${version}`);
      if (!existsSync(join(folder, "go.mod"))) await exec(go, ["mod", "init", "cases"], { cwd: folder });
      await exec(go, ["get", ...modules], { cwd: folder });
      await exec(go, ["build", "-o", "cases", "."], { cwd: folder });
      return [join(folder, "cases")];
    },
  },
  Java: {
    async install(folder, { case: name, packages }) {
      writeFileSync(join(folder, "pom.xml"), pom(packages));
      await exec("mvn", ["--batch-mode", "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars"], {
        cwd: folder,
        maxBuffer: 64 * 1024 * 1024,
      });
      return ["java", "-cp", join(folder, "jars", "*"), copyCases(folder, `java/${name}.java`)];
    },
  },
  Rust: {
    async install(folder, { packages }) {
      const dependencies = Object.entries(packages).map(
        ([name, version]) => `${name} = { version = "=${version}", features = ["embedding"] }`,
      );
      const manifest = [
        ...["[package]", 'name = "cases"', 'version = "0.0.0"', 'edition = "2024"', "[workspace]"],
        ...[
          "[dependencies]",
          ...dependencies,
          'serde_json = "1"',
          'tokio = { version = "1", features = ["full"] }',
        ],
        ...["[[bin]]", 'name = "cases"', 'path = "cases.rs"'],
      ];
      writeFileSync(join(folder, "Cargo.toml"), manifest.join("\n"));
      copyCases(folder, "cases.rs");
      await exec("cargo", ["build", "--quiet"], { cwd: folder, maxBuffer: 64 * 1024 * 1024 });
      return [join(folder, "target", "debug", "cases")];
    },
  },
};

function pom(packages) {
  const dependencies = Object.entries(packages).map(([name, version]) => {
    const [group, artifact] = name.split(":");
    return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`;
  });
  return `<project><modelVersion>4.0.0</modelVersion><groupId>cases</groupId><artifactId>cases</artifactId><version>0</version>
<dependencies>${dependencies.join("")}</dependencies></project>`;
}

/** Next to its packages, where the language looks for them. */
function copyCases(folder, file) {
  const copy = join(folder, basename(file));
  copyFileSync(new URL(file, import.meta.url), copy);
  return copy;
}
