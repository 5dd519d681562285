/** Long inputs: heads in tiles, with the largest weights of each query; see `tiles.py`. */

import { Attention, MASKED, UNIT } from "./record.js";

const NONE = 65535; // in the place of a key: there is no further weight

const unit = (code) => (code / UNIT) ** 2;
const codeOf = (weight) => Math.round(Math.sqrt(Math.min(1, Math.max(0, weight))) * UNIT);

/** How stored numbers are weights: as their square roots. */
const ROOTS = { name: "roots", diverging: false, top: UNIT, value: unit };

/** One record of a long input. */
export class Tiled extends Attention {
  /**
   * @param {object} header the record's header, with `tiles`
   * @param {ArrayBuffer} body unpacked
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
        rest: null, // of each tile, once they are asked for
        cells: null,
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

  /** The number of a query's weights that lie before a key, which is where the key's own would be. */
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
    return this.#rest(part)[Math.floor(query / this.side) * this.across + Math.floor(key / this.side)];
  }

  /** Of each tile the mean of the weights that are not among the largest of their queries. */
  #rest(part) {
    if (part.rest) return part.rest;
    const { side, across } = this;
    const [cells, listed, sums] = [0, 1, 2].map(() => new Float64Array(part.means.length));
    for (let query = 0; query < this.queries; query += 1) {
      const start = Math.floor(query / side) * across;
      const [first, last] = [part.spans[2 * query], part.spans[2 * query + 1]];
      for (let tile = Math.floor(first / side); tile * side < last; tile += 1)
        cells[start + tile] += Math.min(last, (tile + 1) * side) - Math.max(first, tile * side);
      for (let at = query * this.kept; at < (query + 1) * this.kept && part.keys[at] !== NONE; at += 1) {
        const tile = start + Math.floor(part.keys[at] / side);
        listed[tile] += 1;
        sums[tile] += unit(part.weights[at]);
      }
    }
    part.cells = cells;
    part.rest = cells.map((count, tile) => {
      const others = count - listed[tile];
      return others > 0 ? Math.max(0, (unit(part.means[tile]) * count - sums[tile]) / others) : 0;
    });
    return part.rest;
  }

  row(head, query) {
    const part = this.parts[head];
    const rest = this.#rest(part);
    const [first, last] = [part.spans[2 * query], part.spans[2 * query + 1]];
    const start = Math.floor(query / this.side) * this.across;
    const weights = new Array(this.keys).fill(null);
    for (let key = first; key < last; key += 1) weights[key] = rest[start + Math.floor(key / this.side)];
    for (let at = query * this.kept; at < (query + 1) * this.kept && part.keys[at] !== NONE; at += 1)
      weights[part.keys[at]] = unit(part.weights[at]);
    const [entropy, sum] = part.measures.subarray(2 * query, 2 * query + 2);
    return { weights, sum, entropy, attended: last - first };
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

  /** Tiles are halved and doubled, so that no cell of a map is of parts of them. */
  step(least) {
    return 2 ** Math.ceil(Math.log2(least));
  }

  pool(head, part, down, across, mean) {
    return down >= this.side && across >= this.side
      ? this.#ofTiles(head, part, down, across, mean)
      : this.#ofCells(head, part, down, across, mean);
  }

  /** A map of which each cell is several whole tiles. */
  #ofTiles(head, { rows, columns }, down, across, mean) {
    const { side } = this;
    const { means, tops } = this.parts[head];
    this.#rest(this.parts[head]);
    const { cells } = this.parts[head];
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
        sums[place] += unit(means[tile]) * cells[tile];
        counts[place] += cells[tile];
      }
    }
    if (mean)
      for (let place = 0; place < result.length; place += 1)
        if (counts[place]) result[place] = codeOf(sums[place] / counts[place]);
    return result;
  }

  /** A map of which each cell is a part of a tile: the weights that are known, and of the others their mean. */
  #ofCells(head, { rows, columns }, down, across, mean) {
    const part = this.parts[head];
    const rest = this.#rest(part);
    const wide = Math.ceil((columns[1] - columns[0]) / across);
    const result = new Uint16Array(Math.ceil((rows[1] - rows[0]) / down) * wide);
    const [cells, listed, sums, largest] = [0, 1, 2, 3].map(() => new Float64Array(wide));
    for (let from = rows[0], place = 0; from < rows[1]; from += down, place += wide) {
      [cells, listed, sums, largest].forEach((one) => one.fill(0));
      for (let query = from; query < Math.min(from + down, rows[1]); query += 1)
        this.#addQuery(part, query, columns, across, { cells, listed, sums, largest });
      const start = Math.floor(from / this.side) * this.across;
      for (let column = 0; column < wide; column += 1) {
        if (!cells[column]) {
          result[place + column] = MASKED;
          continue;
        }
        const base = rest[start + Math.floor((columns[0] + column * across) / this.side)];
        const others = cells[column] - listed[column];
        const weight = mean
          ? (sums[column] + base * Math.max(0, others)) / cells[column]
          : Math.max(largest[column], others > 0 ? base : 0);
        result[place + column] = codeOf(weight);
      }
    }
    return result;
  }

  #addQuery(part, query, [left, right], across, { cells, listed, sums, largest }) {
    const [first, last] = [Math.max(left, part.spans[2 * query]), Math.min(right, part.spans[2 * query + 1])];
    for (let column = Math.floor((first - left) / across); left + column * across < last; column += 1) {
      const start = left + column * across;
      cells[column] += Math.min(last, start + across) - Math.max(first, start);
    }
    const end = (query + 1) * this.kept;
    for (let at = this.#place(part, query, left); at < end && part.keys[at] < right; at += 1) {
      const column = Math.floor((part.keys[at] - left) / across);
      const weight = unit(part.weights[at]);
      listed[column] += 1;
      sums[column] += weight;
      if (weight > largest[column]) largest[column] = weight;
    }
  }
}

/** A record of either kind from what a server or a page has of it. */
export function makeRecord({ header, weights, body }) {
  return body ? new Tiled(header, body) : new Attention(header, weights);
}
