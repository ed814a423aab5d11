/** A network between two programs that can be slow, silent or cut. */

import { once } from "node:events";
import { connect, createServer } from "node:net";

export class Wire {
  #to;
  #server;
  #sockets = new Set();
  #cut = false;
  #silent = false;
  /** Bytes per second in each direction of a connection; 0: unlimited. */
  rate = 0;

  /** @param {number} to port on 127.0.0.1 */
  constructor(to) {
    this.#to = to;
    this.#server = createServer((client) => this.#join(client));
  }

  async listen(port = 0) {
    this.#server.listen(port, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = this.#server.address().port;
    return this.port;
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** Ends every connection, and each new one immediately. */
  cut() {
    this.#cut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Forwards nothing, without ending connections. */
  silence() {
    this.#silent = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** Restores normal operation. */
  mend() {
    this.#cut = false;
    this.#silent = false;
    this.rate = 0;
    for (const socket of this.#sockets) socket.resume();
  }

  #join(client) {
    if (this.#cut) {
      client.destroy();
      return;
    }
    const server = connect(this.#to, "127.0.0.1");
    this.#carry(client, server);
    this.#carry(server, client);
    if (this.#silent) {
      client.pause();
      server.pause();
    }
  }

  #carry(from, to) {
    this.#sockets.add(from);
    from.setNoDelay(true);
    let free = 0;
    from.on("data", (bytes) => {
      const full = !to.write(bytes);
      let waitMs = 0;
      if (this.rate > 0) {
        const now = Date.now();
        free = Math.max(free, now) + (bytes.length / this.rate) * 1000;
        waitMs = free - now;
      }
      if (!full && waitMs < 1) return;
      from.pause();
      const go = () => {
        if (!this.#silent && !to.writableNeedDrain) from.resume();
      };
      if (full) to.once("drain", go);
      if (waitMs >= 1) setTimeout(go, waitMs);
    });
    from.on("end", () => to.end());
    // An ended connection also ends the other side.
    from.on("error", () => to.destroy());
    from.on("close", () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
