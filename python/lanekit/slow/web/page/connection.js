// Websockets that come back, and acknowledge what was dealt with: the reader sets the pace.

const FIRST_WAIT = 250;
const LONGEST_WAIT = 4000;

/** Where the daemon's answers to this page begin. */
export function address(path, query = {}) {
  const url = new URL(path, location.href);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/**
 * A websocket to one path, opened again whenever it ends.
 *
 * `query()` is asked at each opening, so that a stream goes on at its newest cursor. `onMessage` gets a
 * decoded object, or an ArrayBuffer, and may return a promise: the message is acknowledged when
 * that is settled. `onState` hears "open" and "closed", the latter with the daemon's reason.
 */
export class Connection {
  constructor(path, { query = () => ({}), onMessage, onState = () => {} }) {
    this._path = path;
    this._query = query;
    this._onMessage = onMessage;
    this._onState = onState;
    this._wait = FIRST_WAIT;
    this._closed = false;
    this._open();
  }

  /** Send an object, if there is anybody to send it to. */
  send(message) {
    if (this._socket?.readyState === WebSocket.OPEN) this._socket.send(JSON.stringify(message));
  }

  /** End it, for good. */
  close() {
    this._closed = true;
    clearTimeout(this._timer);
    this._socket?.close();
  }

  _open() {
    const url = address(this._path, this._query());
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this._socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      if (!this._closed) this._onState("open", "");
    });
    socket.addEventListener("message", async (event) => {
      this._wait = FIRST_WAIT;
      const message = typeof event.data === "string" ? JSON.parse(event.data) : event.data;
      try {
        if (!this._closed) await this._onMessage(message);
      } finally {
        if (socket.readyState === WebSocket.OPEN) socket.send("ack");
      }
    });
    socket.addEventListener("close", (event) => {
      if (this._closed) return;
      this._onState("closed", event.reason);
      this._timer = setTimeout(() => this._open(), this._wait);
      this._wait = Math.min(LONGEST_WAIT, this._wait * 1.7);
    });
  }
}
