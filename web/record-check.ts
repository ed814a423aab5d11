import { Ajv2020 } from "ajv/dist/2020.js";
import standaloneCode from "ajv/dist/standalone/index.js";
import type { Plugin } from "vite";
import { SCHEMA } from "./src/features/benchmarks/record.gen.ts";

const NAME = "virtual:record-check";

/**
 * Compiles the schema of benchmark files into functions at build time: the page's Content-Security-Policy forbids code from
 * strings.
 */
export function recordCheck(): Plugin {
  return {
    name: "record-check",
    resolveId: (source) => (source === NAME ? `\0${NAME}` : null),
    load(id) {
      if (id !== `\0${NAME}`) return null;
      const ajv = new Ajv2020({
        schemas: { file: SCHEMA },
        allowUnionTypes: true,
        code: { source: true, esm: true },
        messages: false,
      });
      const code = standaloneCode(ajv, { isFile: "file", isRecord: "file#/$defs/Record" });
      // The standalone code imports its helpers with `require`.
      const module = code.replaceAll(
        /const (\w+) = require\("([\w/]+)"\)\.default;/g,
        'import $1 from "$2";',
      );
      if (module.includes("require("))
        throw new Error("the compiled schema imports a helper in an unknown way");
      return module;
    },
  };
}
