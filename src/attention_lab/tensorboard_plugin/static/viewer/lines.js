/** Alignment lines: queries on the left, keys on the right, a line for every weight above the threshold. */

import { colourOf, css, partOf } from "./colours.js";
import { every, fitted, short, token } from "./labels.js";
import { widthOf } from "./pen.js";
import { drawPicture, pictureOf } from "./pixels.js";

const CAPTION = 52;
const SIZE = 12;
const LEAST = 13;
const LONGEST_SIDE = 160; // most queries or keys that are drawn
const MOST = 20000; // most lines; more would be indistinguishable
const EDGE = 20; // pixels from the labels to the lines, where a label's frame is
const TALLEST = 40; // most pixels from one label to the next
const LONGEST = 900; // most pixels of a line
const STRIP = 110; // pixels of a label that is a row of pixels

/** Lay out one panel. */
export function arrange(scene, panel, box) {
  const { record } = panel;
  const shown = ([from, to], size) => {
    const end = Math.min(to, size);
    return [Math.max(0, Math.min(from, end - 1)), Math.min(end, from + LONGEST_SIDE)];
  };
  const part = {
    rows: shown(scene.part.rows, record.queries),
    columns: shown(scene.part.columns, record.keys),
  };
  const [queries, keys] = [part.rows[1] - part.rows[0], part.columns[1] - part.columns[0]];
  const most = Math.max(queries, keys, 1);
  const pitch = Math.min(TALLEST, (box.height - CAPTION - 12) / most);
  const side = ([from, to], label) => {
    let room = 20;
    for (let at = from; at < to && room < 150; at += 1) room = Math.max(room, widthOf(token(label(at)), SIZE, 600));
    return Math.min(room, 150, box.width / 4);
  };
  const pictures = [
    pictureOf(record.queries, (at) => record.query(at)),
    pictureOf(record.keys, (at) => record.key(at)),
  ];
  const [queryRoom, keyRoom] = [
    pictures[0] ? STRIP : side(part.rows, (at) => record.query(at)),
    pictures[1] ? STRIP : side(part.columns, (at) => record.key(at)),
  ];
  const height = pitch * most;
  const start = box.x + Math.max(queryRoom, 36) + EDGE;
  const [left, right] = [start, Math.min(box.x + box.width - keyRoom - EDGE, start + LONGEST)];
  return {
    panel,
    part,
    counts: { queries, keys },
    pitch,
    queryRoom,
    keyRoom,
    pictures,
    left,
    right,
    x: box.x,
    y: box.y + CAPTION,
    room: box.width,
    width: right + keyRoom + EDGE - box.x,
    height: CAPTION + height + 12,
    inner: height,
  };
}

const offset = (part, count) => part.y + (part.inner - count * part.pitch) / 2;
const queryAt = (part, query) =>
  offset(part, part.counts.queries) + (query - part.part.rows[0] + 0.5) * part.pitch;
const keyAt = (part, key) =>
  offset(part, part.counts.keys) + (key - part.part.columns[0] + 0.5) * part.pitch;

/** Draw a panel without the cursor. */
export function draw(pen, scene, part) {
  const { panel, left, right } = part;
  const { record } = panel;
  const { theme } = scene;
  const found = linesAbove(panel, part.part, scene.threshold);
  for (const line of found) stroke(pen, scene, part, line, 1);
  labels(pen, part, theme);
  const title = fitted((text) => widthOf(text, 13, 600), panel.title, part.room - 20);
  pen.text(title, part.x, part.y - 40, { size: 13, weight: 600, fill: theme.ink });
  const { queries, keys } = part.counts;
  const all = queries * keys;
  const some =
    queries < record.queries || keys < record.keys
      ? `queries ${part.part.rows[0] + 1}–${part.part.rows[1]}, keys ${part.part.columns[0] + 1}–${part.part.columns[1]} · `
      : "";
  const facts = `${some}${found.length.toLocaleString("en")} of ${all.toLocaleString("en")} weights from ${short(scene.threshold)}`;
  pen.text("query", left - 14, part.y - 17, { size: 11, fill: theme.quiet, align: "right" });
  pen.text("key", right + 14, part.y - 17, { size: 11, fill: theme.quiet });
  const room = right - left;
  const fits = fitted((text) => widthOf(text, 11), facts, room);
  pen.text(fits, (left + right) / 2, part.y - 17, { size: 11, fill: theme.quiet, align: "center" });
}

/** Draw the lines of the cursor's query, or of its key, over a veil that fades the others. */
export function mark(pen, scene, part, { query, key }) {
  const { record } = part.panel;
  const { theme } = scene;
  if (query < 0 && key < 0) return;
  const top = part.y - 2;
  const veil = theme.dark ? "rgba(16,21,29,0.8)" : "rgba(255,255,255,0.82)";
  pen.rect(part.left - 3, top, part.right - part.left + 6, part.inner + 4, { fill: veil });
  const mine = (line) => (query >= 0 ? line.query === query : line.key === key);
  for (const line of linesAbove(part.panel, part.part, scene.threshold))
    if (mine(line)) stroke(pen, scene, part, line, 1.6);
  const frame = (left, middle) =>
    pen.rect(left, middle - part.pitch / 2, STRIP, part.pitch, { stroke: theme.accent, line: 2 });
  if (part.pictures[0]?.[query]) frame(part.left - 14 - STRIP, queryAt(part, query));
  else if (query >= part.part.rows[0] && query < part.part.rows[1]) {
    tag(
      pen,
      { label: record.query(query), room: part.queryRoom, x: part.left - 14, y: queryAt(part, query), align: "right" },
      theme,
    );
  }
  if (part.pictures[1]?.[key]) frame(part.right + 14, keyAt(part, key));
  else if (key >= part.part.columns[0] && key < part.part.columns[1]) {
    tag(pen, { label: record.key(key), room: part.keyRoom, x: part.right + 14, y: keyAt(part, key), align: "left" }, theme);
  }
}

/** @returns {{query: number, key: number}|null} the label at a point: a query (key: -1) or a key (query: -1) */
export function point(part, x, y) {
  const middle = (part.left + part.right) / 2;
  const count = x < middle ? part.counts.queries : part.counts.keys;
  const number = Math.floor((y - offset(part, count)) / part.pitch);
  if (number < 0 || number >= count || x < part.x || x > part.x + part.room) return null;
  return x < middle
    ? { query: part.part.rows[0] + number, key: -1 }
    : { query: -1, key: part.part.columns[0] + number };
}

const kept = new WeakMap(); // the last lines found in a record, since every move of the cursor needs them again

/** The weights above the threshold, the smallest first, so that the largest are drawn on top. */
function linesAbove({ record, head }, part, threshold) {
  const name = [head, threshold, ...part.rows, ...part.columns].join(" ");
  const last = kept.get(record);
  if (last?.name === name) return last.found;
  const found = [...record.entries(head, part, threshold)].sort((a, b) => a.weight - b.weight).slice(-MOST);
  kept.set(record, { name, found });
  return found;
}

function stroke(pen, scene, part, { query, key, weight }, strength) {
  const { theme, scale } = scene;
  const share = Math.max(0, partOf(weight, scale));
  const [from, to] = [queryAt(part, query), keyAt(part, key)];
  const bend = (part.right - part.left) * 0.42;
  const colour = css(colourOf(theme, 0.5 + 0.34 * share));
  const points = [
    [part.left, from],
    [part.left + bend, from, part.right - bend, to, part.right, to],
  ];
  pen.path(points, {
    stroke: colour,
    line: Math.min(0.6 + 3.2 * share * strength, Math.max(0.8, 0.8 * part.pitch * strength)),
    alpha: Math.min(1, 0.22 + 0.78 * share),
  });
}

/** Draw labels that are rows of pixels one below another, so that they form the picture. */
function drawRows(pen, part, theme) {
  const [queries, keys] = part.pictures;
  const high = (count) => ({ y: offset(part, count), width: STRIP, height: count * part.pitch });
  if (queries) drawPicture(pen, queries, { x: part.left - 14 - STRIP, ...high(part.counts.queries) }, theme);
  if (keys) drawPicture(pen, keys, { x: part.right + 14, ...high(part.counts.keys) }, theme);
}

function labels(pen, part, theme) {
  const { record } = part.panel;
  const step = every(part.pitch, LEAST);
  const fit = (label, room) => fitted((text) => widthOf(text, SIZE), label, room);
  drawRows(pen, part, theme);
  const [queryPicture, keyPicture] = part.pictures;
  const { rows, columns } = part.part;
  for (let query = rows[0]; query < rows[1]; query += step) {
    if (!queryPicture?.[query]) pen.text(fit(record.query(query), part.queryRoom), part.left - 14, queryAt(part, query), {
      size: SIZE,
      fill: theme.ink,
      align: "right",
    });
    pen.circle(part.left - 6, queryAt(part, query), 1.8, { fill: theme.quiet });
  }
  for (let key = columns[0]; key < columns[1]; key += step) {
    if (!keyPicture?.[key]) pen.text(fit(record.key(key), part.keyRoom), part.right + 14, keyAt(part, key), {
      size: SIZE,
      fill: theme.ink,
    });
    pen.circle(part.right + 6, keyAt(part, key), 1.8, { fill: theme.quiet });
  }
}

function tag(pen, { label, room, x, y, align }, theme) {
  const text = fitted((one) => widthOf(one, SIZE, 600), label, room);
  const width = widthOf(text, SIZE, 600);
  pen.rect(align === "right" ? x - width - 5 : x - 5, y - 9, width + 10, 18, {
    fill: theme.tag,
    stroke: theme.accent,
    radius: 3,
  });
  pen.text(text, x, y, { size: SIZE, weight: 600, fill: theme.ink, align });
}
