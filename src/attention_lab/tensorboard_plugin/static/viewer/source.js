/** Records, fetched when they are needed and kept while there is room. */

import { makeRecord } from "./tiles.js";

const ROOM = 96 * 2 ** 20; // bytes
const MOST = 2 ** 30; // bytes of the records on screen; with much more, the browser stops the page
const AT_ONCE = 6; // records that are fetched at a time, which are as many as a browser asks of one server

const nameOf = ({ run, tag, step, time }) => JSON.stringify([run, tag, step, time]);

/** Keeps the records that were used last, never fetches one twice at the same time, and few at a time. */
export class Shelf {
  /** @param {{record: function(string, string, number): Promise}} source */
  constructor(source) {
    this.source = source;
    this.kept = new Map(); // oldest first
    this.bytes = 0;
    this.busy = 0; // records that are being fetched
    this.waiting = []; // those that are to be fetched next, in order
  }

  /**
   * @param {{run: string, tag: string, step: number, time: number}} place
   * @returns {Promise<Attention>}
   */
  get(place) {
    const name = nameOf(place);
    const found = this.kept.get(name) ?? { record: this.#fetch(place, name), size: 0 };
    this.kept.delete(name);
    this.kept.set(name, found);
    return found.record;
  }

  /** A place for a record, still `open` until it is fetched; then `done` resolves, and there is a `record` or a `problem`. */
  slot(place) {
    const slot = { record: null, problem: "", place, open: true };
    slot.done = this.get(place)
      .then(
        (record) => {
          slot.record = record;
        },
        (error) => {
          slot.problem = error.message;
        },
      )
      .finally(() => {
        slot.open = false;
      });
    return slot;
  }

  /** Give up all records that are still waiting, except some, so that these need not wait for what nobody wants. */
  only(places, reason = "it is no longer needed") {
    const wanted = new Set(places.map(nameOf));
    const dropped = this.waiting.filter(({ name }) => !wanted.has(name));
    this.waiting = this.waiting.filter(({ name }) => wanted.has(name));
    dropped.forEach(({ drop }) => drop(new Error(reason)));
  }

  /**
   * Give up the records that are still waiting once those that have arrived take too many bytes.
   * @param {object[]} slots those of a view
   * @param {function(): boolean} current whether this view is still the one that is wanted
   */
  limit(slots, current, most = MOST) {
    let bytes = 0;
    for (const slot of slots)
      slot.done.then(() => {
        bytes += slot.record?.size ?? 0;
        if (bytes > most && current()) this.only([], "left out: the others fill the memory; choose it with the keys { and }");
      });
  }

  async #fetch(place, name) {
    try {
      const record = makeRecord(await this.#inTurn(place, name));
      const found = this.kept.get(name);
      if (found) this.#make(found, record.size);
      return record;
    } catch (error) {
      this.kept.delete(name); // so that it is fetched again
      throw error;
    }
  }

  async #inTurn({ run, tag, step }, name) {
    if (this.busy < AT_ONCE) this.busy += 1;
    else await new Promise((go, drop) => this.waiting.push({ name, go, drop }));
    try {
      return await this.source.record(run, tag, step);
    } finally {
      const next = this.waiting.shift();
      if (next) next.go();
      else this.busy -= 1;
    }
  }

  /** Add the size of a new record, and drop the oldest ones if there is no room for it. */
  #make(found, size) {
    found.size = size;
    this.bytes += size;
    for (const [name, old] of this.kept) {
      if (this.bytes <= ROOM || old === found) break;
      this.kept.delete(name);
      this.bytes -= old.size;
    }
  }
}

/**
 * The records of a server.
 * @param {string|URL} base the URL below which `tags` and `record` are
 */
export function serverSource(base) {
  const ask = async (path) => {
    const response = await fetch(new URL(path, base), { credentials: "same-origin" }).catch(() => {
      throw new Error("TensorBoard does not answer. Is it still running?");
    });
    if (response.ok) return response;
    const said = await response.json().catch(() => ({}));
    throw new Error(said.error ?? `the server answered ${response.status}`);
  };
  return {
    tags: async () => (await ask("tags")).json(),
    record: async (run, tag, step) => {
      const query = new URLSearchParams({ run, tag, step });
      return unpack(await (await ask(`record?${query}`)).arrayBuffer());
    },
  };
}

/** Unpack a record, which consists of the header's length in four bytes, the header, and a body of weights or tiles. */
export async function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const body = buffer.slice(4 + length);
  if (header.tiles) return { header, body: await inflated(body) };
  return { header, weights: new Uint16Array(body) };
}

/** Decompress bytes. */
export async function inflated(bytes) {
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(plain).arrayBuffer();
}
