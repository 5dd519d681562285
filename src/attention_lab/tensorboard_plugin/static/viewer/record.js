/** Attention of one module at one step: [heads, queries, keys] of stored 16-bit numbers, and what they mean. */

export const MASKED = 65535;
const UNIT = 65534;

const logs = new Float64Array(UNIT + 1); // p ln p of every stored weight: a logarithm a cell would cost 10 times more
for (let stored = 1; stored <= UNIT; stored += 1) logs[stored] = (stored / UNIT) * Math.log(stored / UNIT);

/** How stored numbers are weights, for colours. */
const WEIGHTS = { diverging: false, top: UNIT, value: (stored) => stored / UNIT };
const DIFFERENCES = { diverging: true, top: UNIT / 2, value: (stored) => (stored - UNIT / 2) / (UNIT / 2) };

/** One record, as the server or the report gives it. */
export class Attention {
  /**
   * @param {object} header the record's header
   * @param {Uint16Array} weights [heads, queries, keys]
   */
  constructor(header, weights) {
    [this.heads, this.queries, this.keys] = header.shape;
    if (weights.length !== this.heads * this.queries * this.keys) {
      throw new Error(`a record of shape ${header.shape.join(" × ")} holds ${weights.length} weights`);
    }
    this.header = header;
    this.stored = weights;
    this.kind = WEIGHTS;
    this.cells = this.queries * this.keys;
    this.gold = goldCells(header.gold, this.queries);
    this.measured = new Map();
    this.pools = new Map(); // of heads: their maps in fewer cells, as small maps show them
  }

  /** Bytes that it takes, about. */
  get size() {
    return this.stored.byteLength + 20000;
  }

  query(number) {
    return this.header.queries?.[number] ?? String(number + 1);
  }

  key(number) {
    return this.header.keys?.[number] ?? String(number + 1);
  }

  /** @returns {number|null} the weight, null where masked */
  at(head, query, key) {
    const stored = this.stored[head * this.cells + query * this.keys + key];
    return stored === MASKED ? null : this.kind.value(stored);
  }

  /** @returns {{weights: (number|null)[], sum: number, entropy: number, attended: number}} of one query */
  row(head, query) {
    const start = head * this.cells + query * this.keys;
    const weights = [];
    let [sum, entropy, attended] = [0, 0, 0];
    for (const stored of this.stored.subarray(start, start + this.keys)) {
      weights.push(stored === MASKED ? null : this.kind.value(stored));
      if (stored === MASKED) continue;
      attended += 1;
      sum += this.kind.value(stored);
      if (!this.kind.diverging) entropy -= logs[stored];
    }
    return { weights, sum, entropy, attended };
  }

  /** @returns {{sum: number, largest: number, from: number}} of one key: what all queries give it, and which gives most */
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

  /** @returns {{largest: number, entropy: number}} largest weight (in size), mean entropy of the rows in nats */
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

/** What B gives more than A, cell by cell. */
export class Difference extends Attention {
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

/**
 * What two records can be compared on: the first queries and keys whose labels are the same in both.
 * @returns {{queries: number, keys: number, whole: boolean, difference: Difference|null}} null where that is nothing
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
  const can =
    a.heads === b.heads && queries > 0 && keys > 0 && (a.keys === keys || a.header.kind !== "picture") &&
    picture(a) === picture(b);
  return {
    queries,
    keys,
    whole: can && whole,
    difference: can ? new Difference(cropped(a, queries, keys), cropped(b, queries, keys)) : null,
  };
}

/** [queries] lists of the right keys, from [Q] or [Q, G] with -1 for none. */
function goldCells(gold, queries) {
  return Array.from({ length: queries }, (_, query) =>
    [gold?.[query] ?? -1].flat().filter((key) => key >= 0),
  );
}
