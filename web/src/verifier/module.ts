import { integrity, path } from "virtual:verifier-module";
import { fetchPinned } from "../ui/pinned";

/** Fetches the verifier's WebAssembly. The browser refuses other bytes than those of this build. */
export function fetchModule(): Promise<Response> {
  // A worker that starts from a Blob has no base for a relative address.
  return fetchPinned(new URL(path, self.location.origin).href, integrity);
}
