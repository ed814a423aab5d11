/** Constants of the build; see vite.config.ts. */
declare const __CLEARSEAL_SERVICE__: string | null;
declare const __CLEARSEAL_RELEASE__: Release | null;

/** A release: its name, and the commit that it was built from. */
export interface Release {
  readonly name: string;
  readonly commit: string;
}

/** The release of this page; null for a manual build. */
export const RELEASE: Release | null = __CLEARSEAL_RELEASE__;

/** Origin of the service, if the build names one other than the page's own. */
export const ELSEWHERE: string | null = __CLEARSEAL_SERVICE__;

/** Address of one of the service's endpoints. */
export function atService(path: `/v1/${string}`): string {
  return new URL(path, ELSEWHERE ?? location.origin).href;
}
