/** The part of a map that is on screen. The state holds its rows and columns as text, such as 128-256; "" is all of them. */

const LEAST = 4; // rows or columns in a link
const CLOSEST = 6; // rows or columns that one can zoom in to

/** The most queries and keys of the panels, and those of them that are visible: rows and columns, each as from and to. */
export function partOf(panels, state) {
  const [queries, keys] = ["queries", "keys"].map((side) => Math.max(...panels.map(({ record }) => record[side])));
  return { size: { queries, keys }, part: { rows: range(state.rows, queries), columns: range(state.columns, keys) } };
}

function range(text, size) {
  const [from, to] = text ? text.split("-").map(Number) : [0, size];
  const count = Math.max(Math.min(LEAST, size), Math.min(size, to) - Math.max(0, from));
  const start = Math.max(0, Math.min(from, size - count));
  return [start, start + count];
}

function rangeText(start, count, size) {
  const from = Math.max(0, Math.min(start, size - count));
  return count >= size ? "" : `${from}-${from + count}`;
}

/** The state's rows and columns after zooming by a factor around a cell; by default around the chosen one, or the middle. */
export function zoomed({ part, size: { queries, keys } }, factor, cell, chosen) {
  const side = ([from, to], size, at) => {
    const about = at >= 0 ? at : (from + to) / 2;
    const count = Math.max(CLOSEST, Math.min(size, Math.round((to - from) * factor)));
    const start = Math.round(about - (count * (about - from)) / (to - from));
    return rangeText(at >= 0 && !cell ? Math.round(at - count / 2) : start, count, size);
  };
  const { query, key } = cell ?? chosen;
  return { rows: side(part.rows, queries, query), columns: side(part.columns, keys, key) };
}

/** The state's rows and columns after moving by some rows and columns. */
export function moved({ part, size: { queries, keys } }, rows, columns) {
  const side = ([from, to], size, by) => rangeText(from + by, to - from, size);
  return { rows: side(part.rows, queries, rows), columns: side(part.columns, keys, columns) };
}

/** The state's rows or columns that bring a query or a key into view; nothing if it is. */
export function broughtIntoView({ part, size: { queries, keys } }, side, at) {
  const [name, size] = side === "query" ? ["rows", queries] : ["columns", keys];
  const [from, to] = part[name];
  if (at >= from && at < to) return {};
  return { [name]: rangeText(Math.round(at - (to - from) / 2), to - from, size) };
}
