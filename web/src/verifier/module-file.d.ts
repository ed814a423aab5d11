/** The verifier's WebAssembly file, as `web/integrity.ts` describes it. */
declare module "virtual:verifier-module" {
  /** Path at the page's origin. */
  export const path: string;
  /** As in an `integrity` attribute. */
  export const integrity: string;
}
