/** The difference of two records, over the queries and keys that they have in common. */

import { Attention, MASKED, UNIT } from "./record.js";

/** How stored numbers encode differences of weights, for colours. */
const DIFFERENCES = {
  name: "differences",
  diverging: true,
  top: UNIT / 2,
  value: (stored) => (stored - UNIT / 2) / (UNIT / 2),
};

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
    numbers(a) === numbers(b) &&
    (!tiled || (whole && a.side === b.side)) &&
    queries > 0 &&
    keys > 0 &&
    (a.keys === keys || a.header.kind !== "picture") &&
    picture(a) === picture(b);
  return {
    queries,
    keys,
    whole: can && whole,
    difference: can ? subtract(a, b, queries, keys) : null,
  };
}
