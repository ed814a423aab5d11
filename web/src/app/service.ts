/** What the build says; see vite.config.ts. */
declare const __CLEARSEAL_SERVICE__: string | null;
declare const __CLEARSEAL_RELEASE__: Release | null;

/** A release: its name, and the commit that everything in it was built from. */
export interface Release {
  readonly name: string;
  readonly commit: string;
}

/** The release that this page is part of, unless it was built by hand. */
export const RELEASE: Release | null = __CLEARSEAL_RELEASE__;

/** Origin of the service where the build names another one than the page's own. */
export const ELSEWHERE: string | null = __CLEARSEAL_SERVICE__;

/** Address of one of the service's endpoints. */
export function atService(path: `/v1/${string}`): string {
  return new URL(path, ELSEWHERE ?? location.origin).href;
}
