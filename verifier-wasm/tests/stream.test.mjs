import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { connectWith } from "../dist/client.js";
import { StreamError } from "../dist/types.js";
import { evidence, fakeFetch, fakeVerifier, ORIGIN } from "./fakes.mjs";
import { embedded, fakeSockets } from "./stream-fakes.mjs";

const places = (count) => Array.from({ length: count }, (_, at) => String(at));

async function connected(script, { verdicts = ["trusted"], options = {} } = {}) {
  const { verifier, seen } = fakeVerifier({ verdicts });
  const { FakeSocket, seen: sockets } = fakeSockets(script);
  const network = fakeFetch({ "/v1/attestation": evidence });
  const connection = await connectWith(verifier, ORIGIN, {
    fetch: network.fetch,
    policy: "mine",
    webSocket: FakeSocket,
    ...options,
  });
  return { session: connection.session, sockets, seen, network };
}

/** Fails if `promise` takes longer than a test may. */
async function soon(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it still waits")), 2_000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Yields these, and then stays pending until it is closed. */
function silentAfter(...texts) {
  let fail;
  const silence = new Promise((_, reject) => {
    fail = reject;
  });
  async function* source() {
    yield* texts;
    await silence;
  }
  return { source: source(), fail };
}

/** Checks that every text has exactly one vector, in order. `from`: index of the first. */
async function collect(streamed, most = Number.POSITIVE_INFINITY, from = 0) {
  const values = [];
  const batches = [];
  for await (const batch of streamed) {
    batches.push(batch);
    if (batch.status === "embedded") {
      assert.equal(batch.first, from + values.length);
      values.push(...batch.values);
    }
    if (batches.length >= most) break;
  }
  return { values, batches };
}

/** Result of every text, in order: its value, or the code of its refusal. Each text is in exactly one batch. */
async function outcomes(streamed) {
  const all = [];
  for await (const { status, first, count, values, code } of streamed) {
    assert.equal(first, all.length);
    if (status === "embedded") all.push(...values);
    else all.push(...Array.from({ length: count }, () => code));
  }
  return all;
}

async function refused(streamed) {
  try {
    for await (const _ of streamed);
  } catch (error) {
    return error;
  }
  assert.fail("the stream came to an end");
}

test("every text is answered once and in order, and each batch has its receipt", async () => {
  const { session, sockets } = await connected(() => embedded);
  const progress = [];
  const { values, batches } = await collect(
    session.stream(places(1_000), { batchItems: 64, onProgress: (one) => progress.push(one) }),
  );
  assert.deepEqual(values, places(1_000).map(Number));
  assert.equal(batches.length, 16);
  assert.ok(batches.every(({ receipt, bundle }) => receipt.verdict === "verified" && bundle === "bundle"));
  assert.deepEqual(sockets.urls, ["wss://host.example/v1/channel?enclave=hint-1"]);
  assert.deepEqual(progress.at(-1), { items: 1_000, batches: 16, connections: 1 });
  assert.ok(sockets.most <= 4, `${sockets.most} were under way`);
});

test("texts are read as needed, also from an endless source", async () => {
  let read = 0;
  async function* source() {
    for (;;) yield String(read++);
  }
  const { session } = await connected(() => embedded);
  const { values } = await collect(session.stream(source(), { batchItems: 8, window: 2 }), 3);
  assert.equal(values.length, 24);
  // Batches that were taken, are ready or in flight, and one that was read ahead.
  assert.ok(read <= 8 * (3 + 2 + 2 + 1) + 1, `${read} were read`);
});

test("a reader that takes nothing stops the sending", async () => {
  const { session, sockets } = await connected(() => embedded);
  const streamed = session.stream(places(10_000), { batchItems: 10, window: 3 });
  await streamed.next();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.ok(sockets.requests.length <= 1 + 3 + 3, `${sockets.requests.length} were sent`);
  await streamed.return();
});

test("a slow reader costs at most one more connection", async () => {
  const { session } = await connected(() => embedded);
  const streamed = session.stream(places(60), { batchItems: 5, window: 2, patienceMs: 20, attempts: 1 });
  const values = [...(await streamed.next()).value.values];
  // Many times longer than the timeout times the attempts.
  await new Promise((resolve) => setTimeout(resolve, 300));
  values.push(...(await collect(streamed, Number.POSITIVE_INFINITY, 5)).values);
  assert.deepEqual(values, places(60).map(Number));
});

test("sending waits for a full socket", async () => {
  const { session, sockets } = await connected((_, socket) => {
    socket.bufferedAmount = 2 ** 20;
    return embedded;
  });
  const streamed = collect(session.stream(places(10), { batchItems: 10 }));
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(sockets.requests.length, 0);
  sockets.sockets[0].bufferedAmount = 0;
  assert.equal((await streamed).values.length, 10);
});

for (const every of [1, 2, 3, 5]) {
  test(`a connection that is cut after every ${every} requests loses and duplicates nothing`, async () => {
    const { session, sockets } = await connected(() => {
      let requests = 0;
      return (input) => {
        requests += 1;
        return requests > every ? "cut" : embedded(input);
      };
    });
    const { values } = await collect(session.stream(places(200), { batchItems: 10 }));
    assert.deepEqual(values, places(200).map(Number));
    assert.ok(sockets.urls.length > 1);
  });
}

test("a network failure is reported after the permitted attempts", async () => {
  const { session, sockets } = await connected(() => null);
  const error = await refused(session.stream(["0"], { attempts: 3 }));
  assert.ok(error instanceof StreamError);
  assert.equal(error.code, "CHANNEL_NO_CONNECTION");
  assert.equal(error.transient, true);
  assert.equal(sockets.urls.length, 4);
});

for (const code of ["CHANNEL_FORGED", "CHANNEL_SEQUENCE", "ENDORSEMENT_SIGNATURE"]) {
  test(`${code} ends the stream at once, without a retry`, async () => {
    const { session, sockets } = await connected(
      () => (_, number) => (number === 2 ? code : "answer 200 0 1"),
    );
    const streamed = session.stream(places(5), { batchItems: 1, window: 2 });
    const error = await refused(streamed);
    assert.equal(error.code, code);
    assert.equal(error.transient, false);
    assert.equal(sockets.urls.length, 1);
  });
}

test("an enclave with new keys is verified again, and gets the unanswered requests", async () => {
  const { session, sockets, seen } = await connected(
    (connection) => (input) => (connection === 1 ? "CHANNEL_STALE stale" : embedded(input)),
  );
  const { values } = await collect(session.stream(places(30), { batchItems: 10 }));
  assert.deepEqual(values, places(30).map(Number));
  assert.equal(seen.judged.length, 2);
  assert.match(sockets.urls[1], /enclave=hint-2$/);
});

test("an enclave that is refused when it is verified again gets nothing more", async () => {
  const { session, sockets } = await connected(() => () => "CHANNEL_STALE stale", {
    verdicts: ["trusted", "PCR_MISMATCH"],
  });
  const error = await refused(session.stream(places(30), { batchItems: 10 }));
  assert.equal(error.code, "PCR_MISMATCH");
  assert.equal(error.transient, false);
  assert.equal(error.report.code, "PCR_MISMATCH");
  assert.equal(sockets.urls.length, 1);
  assert.equal((await refused(session.stream(["0"]))).code, "SESSION_CLOSED");
});

test("a busy enclave is asked again over another connection", async () => {
  const { session } = await connected(
    (connection) => (input) => (connection < 3 ? "answer 503 0 0" : embedded(input)),
  );
  const { values } = await collect(session.stream(places(20), { batchItems: 10 }));
  assert.deepEqual(values, places(20).map(Number));
});

test("a request that the enclave rejects is reported, and the stream continues", async () => {
  const { session } = await connected(
    () => (input, number) => (number === 2 ? `answer 400 ${input[0]} 0` : embedded(input)),
  );
  const batches = [];
  for await (const batch of session.stream(places(30), { batchItems: 10 })) batches.push(batch);
  assert.deepEqual(
    batches.map(({ status, first }) => [status, first]),
    [
      ["embedded", 0],
      ["rejected", 10],
      ["embedded", 20],
    ],
  );
  assert.equal(batches[1].code, "WHY");
  assert.equal(batches[1].httpStatus, 400);
});

/** Like an enclave, refuses a whole request for one empty or bad text in it. Every other text is its own index. */
const strict = (input) => {
  if (input.includes("")) return "refuse INPUT_EMPTY";
  return input.includes("bad") ? "refuse TEXT_TOO_LONG" : embedded(input);
};

test("an empty text fails alone, and its neighbours need no second request", async () => {
  const { session, sockets } = await connected(() => strict);
  const texts = places(300);
  const expected = places(300).map(Number);
  for (const at of [0, 99, 100, 299]) {
    texts[at] = "";
    expected[at] = "INPUT_EMPTY";
  }
  const progress = [];
  const streamed = session.stream(texts, { onProgress: (one) => progress.push(one) });
  assert.deepEqual(await outcomes(streamed), expected);
  assert.equal(sockets.requests.flat().length, 300);
  assert.equal(progress.at(-1).items, 300);
});

for (const bad of [[0], [3], [299], [7, 8, 200], places(300).map(Number)]) {
  test(`${bad.length} texts from ${bad[0]} on that the enclave refuses fail alone`, async () => {
    const { session, sockets } = await connected(() => strict);
    const texts = places(300);
    const expected = places(300).map(Number);
    for (const at of bad) {
      texts[at] = "bad";
      expected[at] = "TEXT_TOO_LONG";
    }
    assert.deepEqual(await outcomes(session.stream(texts, { batchItems: 100 })), expected);
    assert.ok(sockets.most <= 4, `${sockets.most} were under way`);
  });
}

test("a refused text is found even if connections are cut, and nothing is lost or duplicated", async () => {
  const { session, sockets } = await connected(() => {
    let requests = 0;
    return (input) => {
      requests += 1;
      return requests > 3 ? "cut" : strict(input);
    };
  });
  const texts = places(100);
  texts[41] = "bad";
  const all = await outcomes(session.stream(texts, { batchItems: 20, window: 2 }));
  assert.deepEqual(
    all,
    places(100).map((at) => (at === "41" ? "TEXT_TOO_LONG" : Number(at))),
  );
  assert.ok(sockets.urls.length > 1);
});

test("a text that is too long for a channel is not sent, and its neighbours are", async () => {
  const { session, sockets } = await connected(() => (input) => embedded(input));
  const texts = ["0", "x".repeat(600 * 1024), "2", "3"];
  const batches = [];
  for await (const batch of session.stream(texts)) batches.push(batch);
  assert.deepEqual(
    batches.map(({ status, first, count }) => [status, first, count]),
    [
      ["embedded", 0, 1],
      ["rejected", 1, 1],
      ["embedded", 2, 2],
    ],
  );
  assert.equal(batches[1].code, "TEXT_TOO_LONG");
  assert.match(batches[1].detail, /614400 bytes/);
  assert.deepEqual(sockets.requests, [["0"], ["2", "3"]]);

  const alone = await connected(() => embedded);
  assert.deepEqual(await outcomes(alone.session.stream([texts[1]])), ["TEXT_TOO_LONG"]);
  assert.equal(alone.sockets.urls.length, 0);
});

test("an answer for fewer texts than were sent is refused", async () => {
  const { session } = await connected(() => () => "answer 200 0 3");
  assert.equal((await refused(session.stream(places(4)))).code, "MALFORMED_ANSWER");
});

test("the stream reconnects to a server that closes between requests", async () => {
  const { session } = await connected((connection, socket) => (input) => {
    if (connection === 1) setTimeout(() => socket.say("close"), 5);
    return embedded(input);
  });
  async function* slow() {
    yield "0";
    await new Promise((resolve) => setTimeout(resolve, 50));
    yield "1";
  }
  const { values } = await collect(session.stream(slow(), { batchItems: 1 }));
  assert.deepEqual(values, [0, 1]);
});

test("a socket that does not say how much it holds takes every text", async () => {
  // workerd and happy-dom have no `bufferedAmount`.
  const { session } = await connected((_, socket) => {
    delete socket.bufferedAmount;
    return embedded;
  });
  const { values } = await soon(collect(session.stream(places(100), { batchItems: 10 })));
  assert.deepEqual(values, places(100).map(Number));
});

test("a silent connection times out", async () => {
  const { session } = await connected(() => () => null);
  const error = await refused(session.stream(["0"], { patienceMs: 20, attempts: 1 }));
  assert.equal(error.code, "CHANNEL_SILENT");
  assert.match(error.remedy, /host or the enclave/);
});

test("a socket that never opens, or sends nothing, is named as a cause of the silence, with its runtime", async () => {
  const sockets = [
    [(socket) => Object.assign(socket, { bufferedAmount: 2 ** 20 }), /1048576 bytes/],
    [
      (socket) => Object.defineProperty(socket, "onopen", { set: () => {}, get: () => undefined }),
      /did not open/,
    ],
  ];
  for (const [broken, message] of sockets) {
    const { session } = await connected((_, socket) => {
      broken(socket);
      return embedded;
    });
    const error = await refused(session.stream(["0"], { patienceMs: 20, attempts: 1 }));
    assert.equal(error.code, "CHANNEL_SILENT");
    assert.match(error.message, message);
    assert.match(error.remedy, /webSocket.*this runtime/);
    const runtime = globalThis.navigator?.userAgent;
    if (runtime) assert.ok(error.remedy.includes(runtime));
    assert.equal(error.transient, true);
  }
});

test("bytes are taken from every realm and in every view, and another form is the runtime's", async () => {
  const views = [
    (buffer) => runInNewContext("(bytes) => new Uint8Array(bytes).buffer")([...new Uint8Array(buffer)]),
    (buffer) => new Uint8Array(buffer),
    (buffer) => Buffer.concat([Buffer.from("--"), Buffer.from(buffer)]).subarray(2),
  ];
  for (const view of views) {
    const { session, sockets } = await connected((_, socket) => {
      Object.defineProperty(socket, "onmessage", {
        set(listener) {
          this.heard = listener && (({ data }) => listener({ data: view(data) }));
        },
        get() {
          return this.heard;
        },
        configurable: true,
      });
      return embedded;
    });
    assert.deepEqual((await soon(collect(session.stream(["0"])))).values, [0]);
    assert.equal(sockets.urls.length, 1);
  }
  for (const [data, code] of [
    ["text", "CHANNEL_MALFORMED"],
    [new Blob(["bytes"]), "RUNTIME_LACKS"],
  ]) {
    const { session } = await connected((_, socket) => () => {
      setTimeout(() => socket.onmessage?.({ data }), 0);
      return null;
    });
    assert.equal((await refused(session.stream(["0"]))).code, code);
  }
});

test("heartbeats reset the timeout, and unauthenticated bytes do not", async () => {
  for (const [noise, code] of [
    [new ArrayBuffer(0), "CHANNEL_SILENT"],
    [new Uint8Array([10]).buffer, "CHANNEL_SILENT"],
    [new TextEncoder().encode("beat\n").buffer, undefined],
  ]) {
    let noisy;
    const { session } = await connected((_, socket) => (input) => {
      noisy ??= setInterval(() => socket.onmessage?.({ data: noise }), 10);
      setTimeout(() => socket.say(embedded(input)), 400);
      return null;
    });
    const outcome = collect(session.stream(["0"], { patienceMs: 100, attempts: 0 }));
    const error = await outcome.then(
      () => undefined,
      (cause) => cause,
    );
    clearInterval(noisy);
    assert.equal(error?.code, code);
  }
});

test("cancelling ends the stream and frees everything", async () => {
  const { session, sockets } = await connected(() => () => null);
  const controller = new AbortController();
  const streamed = session.stream(places(10), { signal: controller.signal });
  setTimeout(() => controller.abort(), 30);
  assert.equal((await refused(streamed)).code, "ABORTED");
  assert.throws(() => sockets.sockets[0].send(new Uint8Array()));
  const late = session.stream(["0"], { signal: AbortSignal.abort() });
  assert.equal((await refused(late)).code, "ABORTED");
  assert.equal(sockets.urls.length, 1);
});

test("cancelling does not wait for a source that has nothing to yield", async () => {
  const { session, sockets } = await connected(() => embedded);
  const { source, fail } = silentAfter();
  const controller = new AbortController();
  const streamed = session.stream(source, { signal: controller.signal });
  setTimeout(() => controller.abort(), 30);
  assert.equal((await soon(refused(streamed))).code, "ABORTED");
  assert.equal(sockets.urls.length, 0);
  // A later failure of the source must not become an unhandled rejection.
  fail(new RangeError("too late"));
  await new Promise((resolve) => setTimeout(resolve, 10));
});

test("cancelling does not wait for a new check", async () => {
  // For replaced keys, and for an expired proof.
  for (const now of [500, 2_000]) {
    const { verifier } = fakeVerifier({ lives: [1_000] });
    const { FakeSocket } = fakeSockets(() => () => "CHANNEL_STALE stale");
    const network = fakeFetch({ "/v1/attestation": [evidence(), () => new Promise(() => {})] });
    const options = { fetch: network.fetch, policy: "mine", webSocket: FakeSocket, now: () => now };
    const { session } = await connectWith(verifier, ORIGIN, options);
    const controller = new AbortController();
    const streamed = session.stream(places(10), { signal: controller.signal });
    setTimeout(() => controller.abort(), 30);
    assert.equal((await soon(refused(streamed))).code, "ABORTED");
    assert.equal(network.to("/v1/attestation").length, 2, `at ${now} it waited for a check`);
  }
});

test("a reader that leaves does not wait for the source", async () => {
  const { session, sockets } = await connected(() => embedded);
  const { source } = silentAfter("0", "1");
  const { values } = await soon(collect(session.stream(source, { batchItems: 1 }), 1));
  assert.deepEqual(values, [0]);
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.throws(() => sockets.sockets[0].send(new Uint8Array()));
});

test("a refusal does not wait for the source", async () => {
  const { session } = await connected(() => () => "CHANNEL_FORGED");
  const { source } = silentAfter("0", "1");
  const error = await soon(refused(session.stream(source, { batchItems: 1 })));
  assert.equal(error.code, "CHANNEL_FORGED");
});

test("a source that fails when it is closed does not keep the reader from leaving", async () => {
  const { session } = await connected(() => embedded);
  let [place, released] = [0, false];
  const iterator = {
    next: async () => ({ done: false, value: String(place++) }),
    return: async () => {
      released = true;
      throw new RangeError("the file is gone");
    },
  };
  const source = { [Symbol.asyncIterator]: () => iterator };
  const { values } = await soon(collect(session.stream(source, { batchItems: 1 }), 2));
  assert.deepEqual(values, [0, 1]);
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(released);
});

test("a source that fails ends the stream with its own error", async () => {
  const { session } = await connected(() => embedded);
  async function* broken() {
    yield "0";
    throw new RangeError("the file is gone");
  }
  assert.match((await refused(session.stream(broken(), { batchItems: 1 }))).message, /the file is gone/);
});

test("nothing to embed opens no connection", async () => {
  const { session, sockets } = await connected(() => embedded);
  assert.deepEqual((await collect(session.stream([]))).values, []);
  assert.equal(sockets.urls.length, 0);
});

test("long texts lead to small requests, for every encoding", async () => {
  const { session, sockets } = await connected(() => (input) => `answer 200 0 ${input.length}`);
  const long = "\u0001ü".repeat(20_000);
  for await (const _ of session.stream(Array.from({ length: 12 }, () => long)));
  for (const request of sockets.requests) {
    assert.ok(Buffer.byteLength(JSON.stringify(request)) <= 384 * 1024 + 1_024);
  }
  assert.equal(sockets.requests.flat().length, 12);
});

test("a missing WebSocket is reported", async () => {
  const { session } = await connected(() => embedded, { options: { webSocket: null } });
  const had = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  assert.ok(session, "a session needs none");
  if (!had) assert.equal((await refused(session.stream(["0"]))).code, "NO_WEBSOCKET");
});

test("a lone surrogate becomes U+FFFD, and fails no other text", async () => {
  const { session, sockets } = await connected(() => (input) => `answer 200 0 ${input.length}`);
  const { values } = await collect(session.stream(["a\ud83d", "\ude00b", "\ud83d\ude00", "ä"]));
  assert.equal(values.length, 4);
  assert.deepEqual(sockets.requests, [["a\ufffd", "\ufffdb", "\ud83d\ude00", "ä"]]);
  session.close();
});
