/** What the build says; see vite.config.ts. */
declare const __CLEARSEAL_SERVICE__: string | null;

/** Origin of the service where the build names another one than the page's own. */
export const ELSEWHERE: string | null = __CLEARSEAL_SERVICE__;

/** Address of one of the service's endpoints. */
export function atService(path: `/v1/${string}`): string {
  return new URL(path, ELSEWHERE ?? location.origin).href;
}
