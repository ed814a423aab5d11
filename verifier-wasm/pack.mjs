// Runs before `npm pack` and `npm publish`: checks that the package is built and embeds no policy, and copies the licences.
import { copyFileSync, existsSync } from "node:fs";

for (const built of ["dist/index.js", "pkg/clearseal_verifier_bg.wasm"]) {
  if (!existsSync(new URL(built, import.meta.url))) {
    throw new Error(`${built} is missing; build it with: cargo xtask wasm`);
  }
}
const { buildInfo, initialise } = await import("./dist/index.js");
await initialise();
const { policy } = buildInfo();
if (policy !== null) {
  throw new Error(
    `this build embeds the policy ${policy}, which everyone who installs it would trust; build without a policy: cargo xtask wasm`,
  );
}
for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../${licence}`, import.meta.url), new URL(licence, import.meta.url));
}
