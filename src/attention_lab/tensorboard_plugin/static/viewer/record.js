/** The attention of one module at one step: 16-bit numbers [heads, queries, keys], and the weights they encode. */

export const MASKED = 65535;
export const UNIT = 65534;
const LONG = 40; // queries or keys
const MOST_GOLD = 100_000; // cells; outlining more would take seconds, at every change

const logs = new Float64Array(UNIT + 1); // p ln p of every stored weight; a logarithm per cell would take 10 times longer
for (let stored = 1; stored <= UNIT; stored += 1) logs[stored] = (stored / UNIT) * Math.log(stored / UNIT);

/** How stored numbers encode weights, for colours. */
const WEIGHTS = { name: "weights", diverging: false, top: UNIT, value: (stored) => stored / UNIT };

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
    ({ count: this.goldLeftOut, cells: this.gold } = goldCells(header.gold, this.queries));
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

/** [queries] lists of the correct keys, from [Q] or [Q, G] with -1 for none; empty if there are too many to outline. */
function goldCells(gold, queries) {
  const found = Array.from({ length: queries }, (_, query) =>
    [...new Set([gold?.[query] ?? -1].flat())].filter((key) => key >= 0),
  );
  const count = found.reduce((sum, keys) => sum + keys.length, 0);
  return count > MOST_GOLD ? { count, cells: found.map(() => []) } : { count: 0, cells: found };
}
