/** Long inputs: heads as tiles, with the largest weights of each query; see `tiles.py`. */

import { Attention, MASKED, UNIT } from "./record.js";

const NONE = 65535; // as a key: there are no more weights

const unit = (code) => (code / UNIT) * (code / UNIT);
const codeOf = (weight) => Math.round(Math.sqrt(Math.min(1, Math.max(0, weight))) * UNIT);

/** How stored numbers encode weights: as their square roots. */
const ROOTS = { name: "roots", diverging: false, top: UNIT, value: unit };

/** A record of a long input. */
class Tiled extends Attention {
  /**
   * @param {object} header the record's header, with `tiles`
   * @param {ArrayBuffer} body the decompressed body
   */
  constructor(header, body) {
    super(header, null);
    const { side, kept, heads, of } = header.tiles;
    Object.assign(this, { side, kept, of, numbers: heads, kind: ROOTS, body });
    [this.down, this.across] = [Math.ceil(this.queries / side), Math.ceil(this.keys / side)];
    const tiles = this.down * this.across;
    const size = 4 * tiles + this.queries * (12 + 4 * kept);
    if (body.byteLength !== size * this.heads) {
      throw new Error(`a record of ${this.heads} heads in tiles with ${body.byteLength} bytes`);
    }
    this.parts = heads.map((_, head) => {
      let at = head * size;
      const take = (Type, count) => {
        const found = new Type(body, at, count);
        at += found.byteLength;
        return found;
      };
      return {
        means: take(Uint16Array, tiles),
        tops: take(Uint16Array, tiles),
        measures: take(Float32Array, 2 * this.queries),
        spans: take(Uint16Array, 2 * this.queries),
        keys: take(Uint16Array, kept * this.queries),
        weights: take(Uint16Array, kept * this.queries),
        rest: null, // see `#rest`
      };
    });
  }

  get size() {
    return this.body.byteLength + 20000;
  }

  get masked() {
    this.hatched ??= this.parts.some(({ spans }) =>
      spans.some((end, at) => (at % 2 ? end < this.keys : end > 0)),
    );
    return this.hatched;
  }

  headNumber(head) {
    return (this.header.heads ?? this.numbers)[head] + 1;
  }

  /** The number of a query's stored weights before a key, which is the index of the key's own if it is stored. */
  #place({ keys }, query, key) {
    let [low, high] = [query * this.kept, (query + 1) * this.kept];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle] < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  exact(head, query, key) {
    const part = this.parts[head];
    const at = this.#place(part, query, key);
    return at < (query + 1) * this.kept && part.keys[at] === key;
  }

  at(head, query, key) {
    const part = this.parts[head];
    if (key < part.spans[2 * query] || key >= part.spans[2 * query + 1]) return null;
    const at = this.#place(part, query, key);
    if (at < (query + 1) * this.kept && part.keys[at] === key) return unit(part.weights[at]);
    return this.#rest(part).weights[Math.floor(query / this.side) * this.across + Math.floor(key / this.side)];
  }

  /**
   * For each tile, the number of its cells, and the mean of the weights that are not among the largest of their
   * queries, also as a code.
   */
  #rest(part) {
    if (part.rest) return part.rest;
    const { side, across, kept } = this;
    const cells = new Uint32Array(part.means.length);
    const weights = new Float64Array(part.means.length);
    const counter = new CellCounter([0, this.keys], side);
    const [listed, sums] = [new Uint32Array(across), new Float64Array(across)];
    for (let row = 0, from = 0; row < this.down; row += 1, from += side) {
      const to = Math.min(from + side, this.queries);
      const counts = counter.count(part.spans, from, to);
      listed.fill(0);
      sums.fill(0);
      for (let at = from * kept; at < to * kept; at += 1) {
        if (part.keys[at] === NONE) continue;
        const tile = (part.keys[at] / side) | 0;
        listed[tile] += 1;
        sums[tile] += unit(part.weights[at]);
      }
      for (let tile = 0, at = row * across; tile < across; tile += 1, at += 1) {
        const others = counts[tile] - listed[tile];
        cells[at] = counts[tile];
        if (others > 0) weights[at] = Math.max(0, (unit(part.means[at]) * counts[tile] - sums[tile]) / others);
      }
    }
    const codes = new Uint16Array(weights.length);
    for (let tile = 0; tile < codes.length; tile += 1) codes[tile] = codeOf(weights[tile]);
    part.rest = { cells, weights, codes };
    return part.rest;
  }

  row(head, query) {
    const part = this.parts[head];
    const rest = this.#rest(part).weights;
    const [first, last] = [part.spans[2 * query], part.spans[2 * query + 1]];
    const start = Math.floor(query / this.side) * this.across;
    const weights = new Array(this.keys).fill(null);
    for (let key = first; key < last; key += 1) weights[key] = rest[start + Math.floor(key / this.side)];
    for (let at = query * this.kept; at < (query + 1) * this.kept && part.keys[at] !== NONE; at += 1)
      weights[part.keys[at]] = unit(part.weights[at]);
    return weights;
  }

  facts(head, query) {
    const { measures, spans } = this.parts[head];
    const [entropy, sum] = measures.subarray(2 * query, 2 * query + 2);
    return { sum, entropy, attended: spans[2 * query + 1] - spans[2 * query] };
  }

  *entries(head, { rows: [from, to], columns: [first, last] }, threshold) {
    const { keys, weights } = this.parts[head];
    const least = codeOf(threshold);
    for (let query = from; query < to; query += 1) {
      for (let at = query * this.kept; at < (query + 1) * this.kept && keys[at] !== NONE; at += 1) {
        const key = keys[at];
        if (weights[at] > 0 && weights[at] >= least && key >= first && key < last)
          yield { query, key, weight: unit(weights[at]) };
      }
    }
  }

  measure(head) {
    if (!this.measured.has(head)) {
      const { tops, measures } = this.parts[head];
      let [largest, entropy] = [0, 0];
      for (const top of tops) if (top !== MASKED && top > largest) largest = top;
      for (let query = 0; query < this.queries; query += 1) entropy += measures[2 * query];
      this.measured.set(head, { largest: unit(largest), entropy: entropy / this.queries });
    }
    return this.measured.get(head);
  }

  /** Tiles are halved and doubled, so that no cell of a map consists of parts of several tiles. */
  step(least) {
    return 2 ** Math.ceil(Math.log2(least));
  }

  pool(head, part, down, across, mean) {
    return down >= this.side && across >= this.side
      ? this.#ofTiles(head, part, down, across, mean)
      : this.#ofCells(head, part, down, across, mean);
  }

  /** A map in which each cell consists of whole tiles. */
  #ofTiles(head, { rows, columns }, down, across, mean) {
    const { side } = this;
    const { means, tops } = this.parts[head];
    const cells = mean ? this.#rest(this.parts[head]).cells : null;
    const [high, wide] = [Math.ceil((rows[1] - rows[0]) / down), Math.ceil((columns[1] - columns[0]) / across)];
    const result = new Uint16Array(high * wide).fill(MASKED);
    const [sums, counts] = [new Float64Array(high * wide), new Float64Array(high * wide)];
    const [top, bottom] = [Math.floor(rows[0] / side), Math.ceil(rows[1] / side)];
    const [left, right] = [Math.floor(columns[0] / side), Math.ceil(columns[1] / side)];
    for (let row = top; row < bottom; row += 1) {
      const start = Math.floor(((row - top) * side) / down) * wide;
      for (let column = left; column < right; column += 1) {
        const tile = row * this.across + column;
        if (tops[tile] === MASKED) continue;
        const place = start + Math.floor(((column - left) * side) / across);
        if (result[place] === MASKED || tops[tile] > result[place]) result[place] = tops[tile];
        if (!mean) continue;
        sums[place] += unit(means[tile]) * cells[tile];
        counts[place] += cells[tile];
      }
    }
    if (mean)
      for (let place = 0; place < result.length; place += 1)
        if (counts[place]) result[place] = codeOf(sums[place] / counts[place]);
    return result;
  }

  /** A map in which each cell is part of a tile: made from the known weights, and the mean of the others. */
  #ofCells(head, { rows, columns: [left, right] }, down, across, mean) {
    const part = this.parts[head];
    const { keys, weights, spans } = part;
    const rest = this.#rest(part);
    const wide = Math.ceil((right - left) / across);
    const result = new Uint16Array(Math.ceil((rows[1] - rows[0]) / down) * wide);
    const counter = new CellCounter([left, right], across);
    const [columnOf, tileOf] = [new Uint16Array(right - left), new Uint16Array(wide)];
    for (let key = 0; key < columnOf.length; key += 1) columnOf[key] = key / across;
    for (let column = 0; column < wide; column += 1) tileOf[column] = (left + column * across) / this.side;
    const [listed, sums, largest] = [new Uint32Array(wide), new Float64Array(wide), new Uint16Array(wide)];
    for (let from = rows[0], place = 0; from < rows[1]; from += down, place += wide) {
      const to = Math.min(from + down, rows[1]);
      const counts = counter.count(spans, from, to);
      [listed, sums, largest].forEach((one) => one.fill(0));
      for (let query = from; query < to; query += 1) {
        const end = (query + 1) * this.kept;
        for (let at = this.#place(part, query, left); at < end && keys[at] < right; at += 1) {
          const column = columnOf[keys[at] - left];
          listed[column] += 1;
          if (mean) sums[column] += unit(weights[at]);
          else if (weights[at] > largest[column]) largest[column] = weights[at];
        }
      }
      const start = Math.floor(from / this.side) * this.across;
      for (let column = 0; column < wide; column += 1) {
        const tile = start + tileOf[column];
        const others = counts[column] - listed[column];
        if (!counts[column]) result[place + column] = MASKED;
        else if (mean)
          result[place + column] = codeOf(
            (sums[column] + rest.weights[tile] * Math.max(0, others)) / counts[column],
          );
        else
          result[place + column] = others > 0 ? Math.max(largest[column], rest.codes[tile]) : largest[column];
      }
    }
    return result;
  }
}

/** Counts the cells of some queries in each block of keys, in a time that does not depend on their number. */
class CellCounter {
  /**
   * @param {number[]} columns the first key, and the one after the last
   * @param {number} across keys per block
   */
  constructor([left, right], across) {
    const blocks = Math.ceil((right - left) / across);
    Object.assign(this, { left, right, across, counts: new Int32Array(blocks + 1), ends: new Int32Array(blocks + 1) });
  }

  /**
   * A query's cells in a block are those before its last key minus those before its first key. Each of these two ends
   * adds a remainder to its own block, and complete blocks before it.
   * @returns {Int32Array} the cells of each block, until the next call
   */
  count(spans, from, to) {
    const { left, right, across, counts, ends } = this;
    counts.fill(0);
    ends.fill(0);
    for (let query = from; query < to; query += 1) {
      const first = Math.max(left, spans[2 * query]) - left;
      const last = Math.min(right, spans[2 * query + 1]) - left;
      if (last <= first) continue;
      const [start, end] = [(first / across) | 0, (last / across) | 0];
      counts[start] -= first - start * across;
      counts[end] += last - end * across;
      ends[start] -= 1;
      ends[end] += 1;
    }
    for (let block = counts.length - 2, whole = 0; block >= 0; block -= 1) {
      whole += ends[block + 1];
      counts[block] += whole * across;
    }
    return counts;
  }
}

/** Make a record of either kind from the data of a server or a page. */
export function makeRecord({ header, weights, body }) {
  return body ? new Tiled(header, body) : new Attention(header, weights);
}
