/** Functions that `web/record-check.ts` compiles from the schema. They stop at the first fault. */
declare module "virtual:record-check" {
  interface Fault {
    /** Of JSON Schema: `type`, `maxLength`. */
    readonly keyword: string;
    /** A JSON Pointer (RFC 6901). */
    readonly instancePath: string;
    /** What the keyword asks for. */
    readonly params: Readonly<Record<string, unknown>>;
  }

  interface Check {
    (value: unknown): boolean;
    /** Of the value that was judged last. */
    errors?: readonly Fault[] | null;
  }

  export const isFile: Check;
  export const isRecord: Check;
}
