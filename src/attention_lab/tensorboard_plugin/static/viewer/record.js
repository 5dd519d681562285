/** The attention of one module at one step: 16-bit numbers [heads, queries, keys], and the weights they encode. */

export const MASKED = 65535;
export const UNIT = 65534;
const LONG = 40; // queries or keys

const logs = new Float64Array(UNIT + 1); // p ln p of every stored weight; a logarithm per cell would take 10 times longer
for (let stored = 1; stored <= UNIT; stored += 1) logs[stored] = (stored / UNIT) * Math.log(stored / UNIT);

/** How stored numbers encode weights, for colours. */
const WEIGHTS = { name: "weights", diverging: false, top: UNIT, value: (stored) => stored / UNIT };
const DIFFERENCES = {
  name: "differences",
  diverging: true,
  top: UNIT / 2,
  value: (stored) => (stored - UNIT / 2) / (UNIT / 2),
};

/** A record from the server or the report. */
export class Attention {
  /**
   * @param {object} header the record's header
   * @param {Uint16Array|null} weights [heads, queries, keys]; null for a record that stores them in another way
   */
  constructor(header, weights) {
    [this.heads, this.queries, this.keys] = header.shape;
    if (weights && weights.length !== this.heads * this.queries * this.keys) {
      throw new Error(`a record of shape ${header.shape.join(" × ")} holds ${weights.length} weights`);
    }
    this.header = header;
    this.stored = weights;
    this.kind = WEIGHTS;
    this.cells = this.queries * this.keys;
    this.gold = goldCells(header.gold, this.queries);
    this.measured = new Map();
    this.pools = new Map(); // the maps of heads that were drawn last
    this.lowered = {}; // lower-case labels of each side, for `find`
  }

  /** Whether the reader can zoom and move. */
  get isLong() {
    return Math.max(this.queries, this.keys) >= LONG;
  }

  /** Whether anything is masked. */
  get masked() {
    this.hatched ??= this.stored.includes(MASKED);
    return this.hatched;
  }

  /** The number of a head, counted from one. */
  headNumber(head) {
    return (this.header.heads?.[head] ?? head) + 1;
  }

  /** Whether a weight is known exactly, not only as part of a mean. */
  exact() {
    return true;
  }

  /** How many weights to show in one cell if it must be at least this many. */
  step(least) {
    return least;
  }

  /**
   * A part of a head as a map of stored numbers, each of which stands for `down` x `across` weights: the largest
   * (in absolute value) or the mean. A cell is masked only if all its weights are.
   * @param {number} head
   * @param {{rows: number[], columns: number[]}} part from and to
   * @returns {Uint16Array}
   */
  window(head, part, down, across, mean = false) {
    const name = [head, ...part.rows, ...part.columns, down, across, mean].join(" ");
    const found = this.pools.get(name) ?? this.pool(head, part, down, across, mean);
    this.pools.delete(name);
    this.pools.set(name, found); // the newest is last
    if (this.pools.size > 3 * this.heads + 8) this.pools.delete(this.pools.keys().next().value);
    return found;
  }

  pool(head, { rows, columns }, down, across, mean) {
    const [high, wide] = [Math.ceil((rows[1] - rows[0]) / down), Math.ceil((columns[1] - columns[0]) / across)];
    const whole = rows[1] - rows[0] === this.queries && columns[1] - columns[0] === this.keys;
    if (whole && down === 1 && across === 1)
      return this.stored.subarray(head * this.cells, (head + 1) * this.cells);
    const result = new Uint16Array(high * wide).fill(MASKED);
    const [sums, counts] = mean ? [new Float64Array(high * wide), new Uint32Array(high * wide)] : [];
    const zero = this.kind.diverging ? UNIT / 2 : 0;
    const columnOf = Uint32Array.from({ length: columns[1] - columns[0] }, (_, key) => Math.floor(key / across));
    for (let query = rows[0]; query < rows[1]; query += 1) {
      const row = Math.floor((query - rows[0]) / down) * wide;
      const start = head * this.cells + query * this.keys + columns[0];
      for (let key = 0; key < columnOf.length; key += 1) {
        const stored = this.stored[start + key];
        if (stored === MASKED) continue;
        const place = row + columnOf[key];
        const before = result[place];
        if (before === MASKED || Math.abs(stored - zero) > Math.abs(before - zero)) result[place] = stored;
        if (mean) {
          sums[place] += stored;
          counts[place] += 1;
        }
      }
    }
    if (mean)
      for (let place = 0; place < result.length; place += 1)
        if (counts[place]) result[place] = Math.round(sums[place] / counts[place]);
    return result;
  }

  /** The weights that reach a threshold, within a part of a head. */
  *entries(head, { rows: [from, to], columns: [first, last] }, threshold) {
    for (let query = from; query < to; query += 1) {
      for (let key = first; key < last; key += 1) {
        const weight = this.at(head, query, key);
        if (weight !== null && weight > 0 && weight >= threshold) yield { query, key, weight };
      }
    }
  }

  /** Approximate size in bytes. */
  get size() {
    return this.stored.byteLength + 20000;
  }

  query(number) {
    return this.header.queries?.[number] ?? String(number + 1);
  }

  key(number) {
    return this.header.keys?.[number] ?? String(number + 1);
  }

  /** @returns {number[]} the queries or keys whose labels contain a text, ignoring case */
  find(side, text) {
    if (!text) return [];
    this.lowered[side] ??= Array.from({ length: side === "query" ? this.queries : this.keys }, (_, at) =>
      this[side](at).toLowerCase(),
    );
    const wanted = text.toLowerCase();
    return this.lowered[side].flatMap((label, at) => (label.includes(wanted) ? [at] : []));
  }

  /** @returns {number|null} the weight; null if masked */
  at(head, query, key) {
    const stored = this.stored[head * this.cells + query * this.keys + key];
    return stored === MASKED ? null : this.kind.value(stored);
  }

  /**
   * The cell with the largest weight (in absolute value) among some queries and keys; the first if none has any.
   * @returns {{query: number, key: number}}
   */
  largestIn(head, [from, to], [first, last]) {
    let [found, largest] = [{ query: from, key: first }, 0];
    for (let query = from; query < to; query += 1) {
      for (let key = first; key < last; key += 1) {
        const size = Math.abs(this.at(head, query, key) ?? 0);
        if (size > largest) [found, largest] = [{ query, key }, size];
      }
    }
    return found;
  }

  /** @returns {(number|null)[]} the weights of one query; null if masked */
  row(head, query) {
    const start = head * this.cells + query * this.keys;
    const stored = this.stored.subarray(start, start + this.keys);
    return Array.from(stored, (one) => (one === MASKED ? null : this.kind.value(one)));
  }

  /** @returns {{sum: number, entropy: number, attended: number}} of the weights of one query */
  facts(head, query) {
    const start = head * this.cells + query * this.keys;
    let [sum, entropy, attended] = [0, 0, 0];
    for (const stored of this.stored.subarray(start, start + this.keys)) {
      if (stored === MASKED) continue;
      attended += 1;
      sum += this.kind.value(stored);
      if (!this.kind.diverging) entropy -= logs[stored];
    }
    return { sum, entropy, attended };
  }

  /** @returns {{sum: number, largest: number, from: number}} of one key: its total weight, and which query gives most */
  column(head, key) {
    let [sum, largest, from] = [0, 0, -1];
    for (let query = 0; query < this.queries; query += 1) {
      const weight = this.at(head, query, key);
      if (weight === null) continue;
      sum += weight;
      if (weight > largest) [largest, from] = [weight, query];
    }
    return { sum, largest, from };
  }

  /** @returns {{largest: number, entropy: number}} largest absolute weight, and mean entropy of the rows in nats */
  measure(head) {
    if (!this.measured.has(head)) this.measured.set(head, this.#measure(head));
    return this.measured.get(head);
  }

  #measure(head) {
    const part = this.stored.subarray(head * this.cells, (head + 1) * this.cells);
    const zero = this.kind.diverging ? UNIT / 2 : 0;
    let [largest, entropy] = [0, 0];
    for (let at = 0; at < part.length; at += 1) {
      const stored = part[at];
      if (stored === MASKED) continue;
      const size = stored > zero ? stored - zero : zero - stored;
      if (size > largest) largest = size;
      entropy -= logs[stored];
    }
    return {
      largest: largest / this.kind.top,
      entropy: this.kind.diverging ? NaN : entropy / Math.max(1, this.queries),
    };
  }

  /** The largest weight of all heads. */
  get largest() {
    let largest = 0;
    for (let head = 0; head < this.heads; head += 1) largest = Math.max(largest, this.measure(head).largest);
    return largest;
  }
}

/** The difference B − A, cell by cell. */
class Difference extends Attention {
  constructor(a, b) {
    const stored = new Uint16Array(a.stored.length);
    for (let at = 0; at < stored.length; at += 1) {
      const [first, second] = [a.stored[at], b.stored[at]];
      stored[at] = first === MASKED || second === MASKED ? MASKED : Math.round((second - first + UNIT) / 2);
    }
    super(a.header, stored);
    this.kind = DIFFERENCES;
    this.pair = [a, b];
  }

  at(head, query, key) {
    const [first, second] = this.pair.map((one) => one.at(head, query, key));
    return first === null || second === null ? null : second - first; // exact; the stored half-steps are for colours
  }
}

/** The difference B − A of records in tiles: that of their maps, tile by tile. */
class TiledDifference extends Attention {
  constructor(a, b) {
    super(a.header, null);
    this.kind = DIFFERENCES;
    this.pair = [a, b];
  }

  get masked() {
    return this.pair.some(({ masked }) => masked);
  }

  headNumber(head) {
    return this.pair[0].headNumber(head);
  }

  exact(...cell) {
    return this.pair.every((one) => one.exact(...cell));
  }

  step(least) {
    return this.pair[0].step(least);
  }

  at(head, query, key) {
    const [first, second] = this.pair.map((one) => one.at(head, query, key));
    return first === null || second === null ? null : second - first;
  }

  row(head, query) {
    const [first, second] = this.pair.map((one) => one.row(head, query));
    return first.map((weight, key) => (weight === null || second[key] === null ? null : second[key] - weight));
  }

  pool(head, part, down, across, mean) {
    const [first, second] = this.pair.map((one) => one.window(head, part, down, across, mean));
    const { value } = this.pair[0].kind;
    return first.map((stored, at) =>
      stored === MASKED || second[at] === MASKED
        ? MASKED
        : Math.round(((value(second[at]) - value(stored) + 1) / 2) * UNIT),
    );
  }

  measure(head) {
    if (!this.measured.has(head)) {
      const all = { rows: [0, this.queries], columns: [0, this.keys] };
      const tiles = this.window(head, all, this.pair[0].side, this.pair[0].side);
      let largest = 0;
      for (const stored of tiles)
        if (stored !== MASKED) largest = Math.max(largest, Math.abs(DIFFERENCES.value(stored)));
      this.measured.set(head, { largest, entropy: NaN });
    }
    return this.measured.get(head);
  }
}

/** The first rows and columns of a record. */
function cropped(record, queries, keys) {
  if (queries === record.queries && keys === record.keys) return record;
  const { header, heads } = record;
  const stored = new Uint16Array(heads * queries * keys);
  for (let head = 0, at = 0; head < heads; head += 1) {
    for (let query = 0; query < queries; query += 1, at += keys) {
      const start = head * record.cells + query * record.keys;
      stored.set(record.stored.subarray(start, start + keys), at);
    }
  }
  const gold = header.gold?.slice(0, queries).map((row) => [row].flat().map((key) => (key < keys ? key : -1)));
  return new Attention({ ...header, shape: [heads, queries, keys], gold }, stored);
}

function subtract(a, b, queries, keys) {
  if (!a.stored) return new TiledDifference(a, b);
  return new Difference(cropped(a, queries, keys), cropped(b, queries, keys));
}

/**
 * The part on which two records can be compared: the first queries and keys, whose labels are the same in both.
 * @returns {{queries: number, keys: number, whole: boolean, difference: Difference|null}} null if there is none
 */
export function compare(a, b) {
  const same = (side) => {
    const most = Math.min(a[side === "query" ? "queries" : "keys"], b[side === "query" ? "queries" : "keys"]);
    let count = 0;
    while (count < most && a[side](count) === b[side](count)) count += 1;
    return count;
  };
  const [queries, keys] = [same("query"), same("key")];
  const whole = [a, b].every((one) => one.queries === queries && one.keys === keys);
  const picture = (one) => JSON.stringify(one.header.picture);
  const tiled = !a.stored || !b.stored;
  const numbers = (one) => Array.from({ length: one.heads }, (_, head) => one.headNumber(head)).join();
  const can =
    numbers(a) === numbers(b) && (!tiled || (whole && a.side === b.side)) && queries > 0 && keys > 0 && (a.keys === keys || a.header.kind !== "picture") &&
    picture(a) === picture(b);
  return {
    queries,
    keys,
    whole: can && whole,
    difference: can ? subtract(a, b, queries, keys) : null,
  };
}

/** [queries] lists of the correct keys, from [Q] or [Q, G] with -1 for none. */
function goldCells(gold, queries) {
  return Array.from({ length: queries }, (_, query) =>
    [gold?.[query] ?? -1].flat().filter((key) => key >= 0),
  );
}
