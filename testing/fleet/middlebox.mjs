/** A middlebox as in company networks: forwards everything, but replaces errors with its own page. */

import { once } from "node:events";
import { Agent, request as ask, createServer } from "node:http";
import { connect } from "node:net";

export class Middlebox {
  #to;
  #server;
  #agent = new Agent({ keepAlive: true });
  #sockets = new Set();
  /** Whether unsuccessful answers become 422 with a page. */
  rewriting = false;
  /** Number of rewritten answers. */
  rewritten = 0;
  /** Requests by path. */
  seen = new Map();

  /** @param {string} to */
  constructor(to) {
    this.#to = new URL(to);
    this.#server = createServer((request, response) => this.#relay(request, response));
    this.#server.on("upgrade", (request, socket, head) => this.#join(request, socket, head));
  }

  async listen() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#agent.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #count(request) {
    const path = new URL(request.url, this.#to).pathname;
    this.seen.set(path, (this.seen.get(path) ?? 0) + 1);
    return path;
  }

  #relay(request, response) {
    const path = this.#count(request);
    const { hostname, port } = this.#to;
    const onward = ask(
      {
        hostname,
        port,
        method: request.method,
        path: request.url,
        headers: request.headers,
        agent: this.#agent,
      },
      (answer) => {
        if (this.rewriting && path === "/v1/gateway" && answer.statusCode !== 200) {
          this.rewritten += 1;
          answer.resume();
          response.writeHead(422, { "content-type": "text/html" });
          response.end("<h1>The request could not be processed</h1>");
          return;
        }
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        answer.on("error", () => response.destroy());
      },
    );
    // A cut connection is passed on as a cut.
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.on("error", () => onward.destroy());
    request.pipe(onward);
  }

  #join(request, socket, head) {
    this.#count(request);
    const onward = connect(Number(this.#to.port), this.#to.hostname);
    const fields = [];
    for (let at = 0; at < request.rawHeaders.length; at += 2) {
      fields.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}\r\n`);
    }
    onward.write(`${request.method} ${request.url} HTTP/1.1\r\n${fields.join("")}\r\n`);
    onward.write(head);
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ]) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }
}
