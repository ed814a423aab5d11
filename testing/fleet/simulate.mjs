/**
 * Simulates a thousand replicas: `node testing/fleet/simulate.mjs`. Clients send requests and attest as the protocol specifies;
 * replicas restart, are rolled, and the balancer loses its state. Prints when documents, balancer and logs reach their limits.
 * docs/SCALE.md explains the inputs.
 */

import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    replicas: { type: "string", default: "1000" },
    clients: { type: "string", default: "300000" },
    /** Requests of one client per second. */
    rate: { type: "string", default: "0.1" },
    /** Seconds for which a client relies on one document. */
    validity: { type: "string", default: "300" },
    /** Documents that one replica signs per second. */
    documents: { type: "string", default: "100" },
    /** Requests that one replica answers per second. */
    requests: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
  },
});
const number = (name) => {
  const value = Number(options[name]);
  if (!(value > 0)) throw new Error(`--${name} takes a number above 0`);
  return value;
};
const [replicas, clients, rate, validity] = ["replicas", "clients", "rate", "validity"].map(number);
const limits = { documents: number("documents"), requests: number("requests") };

function randomness(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

/**
 * Runs the simulation in steps of one second. `events(second, fleet)` harms the fleet. A client attests if it has no proof, its
 * proof has expired, or its request reaches another replica than the one it is sealed to; documents beyond a replica's rate wait
 * for the next second.
 */
function simulate(seconds, events) {
  const random = randomness(number("seed"));
  const fleet = {
    random,
    /** Generation of each replica's keys; it changes with each start. */
    keys: new Uint32Array(replicas),
    up: new Uint8Array(replicas).fill(1),
    /** Whether the balancer knows names given before this second. */
    knownSince: Number.NEGATIVE_INFINITY,
  };
  const owner = new Int32Array(clients).fill(-1);
  const key = new Uint32Array(clients);
  const since = new Int32Array(clients);
  for (let client = 0; client < clients; client += 1) {
    owner[client] = Math.floor(random() * replicas);
    since[client] = -Math.floor(random() * validity);
  }
  let turn = 0;
  const made = new Uint32Array(replicas);
  const asked = new Uint32Array(replicas);
  const waiting = [];
  const outcome = {
    documents: 0,
    worstSecond: 0,
    worstReplica: 0,
    longestWait: 0,
    refused: 0,
    worstRequests: 0,
  };
  const take = (client, second, asking) => {
    for (let tries = 0; tries < 3; tries += 1) {
      const replica = turn % replicas;
      turn += 1;
      if (!fleet.up[replica]) continue;
      if (made[replica] >= limits.documents) break;
      made[replica] += 1;
      owner[client] = replica;
      key[client] = fleet.keys[replica];
      since[client] = second;
      asked[replica] += 1;
      outcome.longestWait = Math.max(outcome.longestWait, second - asking);
      return true;
    }
    return false;
  };
  for (let second = 0; second < seconds; second += 1) {
    events(second, fleet);
    made.fill(0);
    asked.fill(0);
    const again = waiting.splice(0);
    for (const [client, asking] of again) {
      if (take(client, second, asking)) continue;
      // Like host-proxy: queued for 15 seconds, then refused.
      if (second - asking > 15) outcome.refused += 1;
      else waiting.push([client, asking]);
    }
    const due = clients * rate;
    for (let count = 0; count < due; count += 1) {
      const client = Math.floor(random() * clients);
      const replica = owner[client];
      const valid = second - since[client] < validity;
      const found = fleet.up[replica] && key[client] === fleet.keys[replica];
      // A name that the balancer has lost is hashed, which selects the right replica once in a thousand.
      const known = since[client] >= fleet.knownSince || random() < 1 / replicas;
      if (valid && found && known) asked[replica] += 1;
      else if (!take(client, second, second)) waiting.push([client, second]);
    }
    let sum = 0;
    for (const count of made) sum += count;
    outcome.documents += sum;
    outcome.worstSecond = Math.max(outcome.worstSecond, sum);
    outcome.worstReplica = Math.max(outcome.worstReplica, ...made);
    outcome.worstRequests = Math.max(outcome.worstRequests, ...asked);
  }
  outcome.documentsASecond = Math.round(outcome.documents / seconds);
  delete outcome.documents;
  return outcome;
}

const runs = {
  "calm, ten minutes": () => simulate(600, () => {}),
  "a tenth of the replicas dies at once": () =>
    simulate(300, (second, fleet) => {
      if (second === 60) for (let replica = 0; replica < replicas; replica += 10) fleet.up[replica] = 0;
    }),
  "half of the replicas dies at once": () =>
    simulate(300, (second, fleet) => {
      if (second === 60) for (let replica = 0; replica < replicas; replica += 2) fleet.up[replica] = 0;
    }),
  "a release is rolled, two replicas a second": () =>
    simulate(Math.ceil(replicas / 2) + 120, (second, fleet) => {
      for (const replica of [2 * (second - 60), 2 * (second - 60) + 1]) {
        if (replica >= 0 && replica < replicas) fleet.keys[replica] += 1;
      }
    }),
  "every replica is restarted at once": () =>
    simulate(300, (second, fleet) => {
      if (second === 60) for (let replica = 0; replica < replicas; replica += 1) fleet.keys[replica] += 1;
    }),
  "the balancer forgets every name": () =>
    simulate(300, (second, fleet) => {
      if (second === 60) fleet.knownSince = 60;
    }),
};
const results = Object.fromEntries(Object.entries(runs).map(([name, run]) => [name, run()]));

/** Replicas that are asked until one has the log; at most eleven. */
const found = Math.min(1, 11 / replicas);
process.stdout.write(
  `${JSON.stringify(
    {
      inputs: { replicas, clients, rate, validity, ...limits },
      requestsASecond: clients * rate,
      load: Math.round(((clients * rate) / (replicas * limits.requests)) * 100) / 100,
      runs: results,
      namesRemembered: replicas * 24 * 21,
      logFoundByAsking: Math.round(found * 1000) / 1000,
    },
    null,
    2,
  )}\n`,
);
