/** Functions that `web/record-check.ts` compiles from the schema. They stop at the first error. */
declare module "virtual:record-check" {
  interface Fault {
    /** JSON Schema keyword: `type`, `maxLength`. */
    readonly keyword: string;
    /** A JSON Pointer (RFC 6901). */
    readonly instancePath: string;
    /** Parameters of the keyword. */
    readonly params: Readonly<Record<string, unknown>>;
  }

  interface Check {
    (value: unknown): boolean;
    /** Errors of the last checked value. */
    errors?: readonly Fault[] | null;
  }

  export const isFile: Check;
  export const isRecord: Check;
}
