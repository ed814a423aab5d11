/** A channel without cryptography and a socket without a network, to test only the stream's decisions. */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Replaces the module's channel: each message of the host is the name of an event. */
export function fakeChannel(seen) {
  const words = [];
  let ended = false;
  let frames = 0;
  seen.opened += 1;
  const failed = (code, transient, stale) => ({
    status: "failed",
    code,
    message: "m",
    remedy: "r",
    transient,
    stale,
  });
  const event = (outcome, more = {}) => ({
    outcome: () => outcome,
    takeBytes: () => more.bytes,
    takeAnswer: () => more.answer,
    free: () => {},
  });
  return {
    hello: () => encoder.encode("hello"),
    feed: (bytes) => words.push(...decoder.decode(bytes).split("\n").filter(Boolean)),
    next() {
      const word = ended ? undefined : words.shift();
      if (word === undefined) return undefined;
      frames += 1;
      if (word === "beat") return this.next();
      const [what, ...rest] = word.split(" ");
      if (what === "open") return event({ status: "opened" }, { bytes: encoder.encode("key") });
      if (what === "answer") return event({ status: "answered" }, { answer: answer(...rest.map(Number)) });
      if (what === "refuse") return event({ status: "answered" }, { answer: answer(400, 0, 0, rest[0]) });
      ended = true;
      if (what === "close") return event({ status: "closed" });
      return event(failed(what, rest.includes("transient"), rest.includes("stale")));
    },
    framesOpened: () => frames,
    connectionEnded() {
      if (ended) return undefined;
      ended = true;
      return event(failed("CHANNEL_CUT_OFF", true, false));
    },
    seal: (_method, _path, _headers, content) => ({
      takeBytes: () => content,
      refusal: () => undefined,
      free: () => {},
    }),
    close: () => ({ takeBytes: () => encoder.encode("bye"), refusal: () => undefined, free: () => {} }),
    free: () => {
      seen.freed += 1;
    },
  };

  /** One number a text: its place, so that a test sees which text a vector is of. `inputCode`: why the enclave refuses an input. */
  function answer(httpStatus, first, rows, inputCode) {
    const body = new Uint8Array(rows * 9);
    new Float32Array(body.buffer, 0, rows).set(Array.from({ length: rows }, (_, at) => first + at));
    const error = { message: "So.", param: inputCode ? "input" : null, code: inputCode ?? "WHY" };
    return {
      outcome: () => ({ status: "answered", httpStatus, headers: [], receipt: { verdict: "verified" } }),
      body: () => (httpStatus < 300 ? body : encoder.encode(JSON.stringify({ error }))),
      bundle: () => "bundle",
      request: () => encoder.encode("request"),
      tensors: () => ({ rows, dimension: 1, values: 0, tokens: rows * 4, truncated: rows * 8 }),
      free: () => {},
    };
  }
}

/**
 * A WebSocket whose host is `script(connection)`, called for each connection with its number from 1; it gives a function that takes
 * each request's texts and says what comes back, "cut", or nothing.
 */
export function fakeSockets(script) {
  const seen = { urls: [], requests: [], most: 0, sockets: [] };
  class FakeSocket {
    bufferedAmount = 0;
    #answer;
    #waiting = 0;
    #closed = false;

    constructor(url) {
      seen.urls.push(url);
      seen.sockets.push(this);
      this.#answer = script(seen.urls.length, this);
      setTimeout(() => {
        if (this.#answer === null) this.cut();
        else this.onopen?.();
      }, 0);
    }

    send(bytes) {
      if (this.#closed) throw new Error("sent after the close");
      const text = decoder.decode(bytes);
      if (text === "hello") return this.say("open");
      if (text === "key" || text === "bye") return;
      const { input } = JSON.parse(text);
      seen.requests.push(input);
      this.#waiting += 1;
      seen.most = Math.max(seen.most, this.#waiting);
      const reply = this.#answer(input, seen.requests.length);
      setTimeout(() => {
        this.#waiting -= 1;
        if (reply === "cut") this.cut();
        else if (reply) this.#hear(reply);
      }, 0);
    }

    say(word) {
      setTimeout(() => this.#hear(word), 0);
    }

    #hear(word) {
      this.onmessage?.({ data: encoder.encode(`${word}\n`).buffer });
    }

    cut() {
      this.#closed = true;
      this.onclose?.();
    }

    close() {
      this.#closed = true;
    }
  }
  return { FakeSocket, seen };
}

/** Answers a request like an enclave. Each text of these tests is its own index. */
export const embedded = (input) => `answer 200 ${input[0]} ${input.length}`;
