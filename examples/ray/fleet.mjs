/**
 * A fleet of simulated enclaves behind HAProxy, for `check.py`. Prints its address and policy as a line of JSON. Each line of standard
 * input is the number of a replica to kill and restart; the end of the input stops the fleet.
 */

import { createInterface } from "node:readline";
import { Fleet } from "../../testing/fleet/fleet.mjs";
import { endWithSignals } from "../../testing/fleet/processes.mjs";

endWithSignals();

const fleet = await Fleet.start({ replicas: Number(process.argv[2] ?? 2) });
try {
  process.stdout.write(`${JSON.stringify({ url: fleet.url, policy: await fleet.policy() })}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    const replica = fleet.replicas[Number(line)];
    await replica.kill();
    await replica.start();
  }
} finally {
  await fleet.close();
}
