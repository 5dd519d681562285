/** The attention of a sample over its image: a tile for each symbol of the output, or for each head. */

import { make } from "../viewer/dom.js";
import { short, token, visible } from "../viewer/labels.js";
import { inkOf, overlay } from "../viewer/picture.js";

const MOST_TILES = 12;
const MOST_CELLS = 2 ** 22; // of a head whose rows are averaged
const MOST_KEYS = 2 ** 16; // each of them has a colour
const TALLEST = 132; // most pixels of the height of a tile
const COARSEST = 12; // most pixels per side of a pixel of the image
const SHARP = 3; // if they are larger than this, they have sharp edges
const GAP = 8;

/** Whether the weights of a record can be shown over its image. */
export const hasPicture = (record) =>
  Boolean(record.header.picture) && record.keys <= MOST_KEYS && !(averages(record) && record.cells > MOST_CELLS);

/**
 * @param {object} record one that `hasPicture`
 * @param {number[]} heads those to show
 * @param {number} room for the tiles beside each other, in pixels
 * @returns {HTMLElement[]} a figure for each tile
 */
export function smallPictures(record, heads, theme, room) {
  const picture = inkOf(record);
  const tiles = tilesOf(record, heads);
  const largest = tiles.map(({ weights }) => weights.reduce((most, weight) => Math.max(most, weight ?? 0), 0));
  const scale = { root: false, maximum: Math.max(...largest) || 1 };
  const beside = Math.max(1, Math.min(tiles.length, 4, Math.floor(room / Math.max(64, picture.width))));
  const width = (room - GAP * (beside - 1)) / beside - 2; // without the borders
  const zoom = Math.min(width / picture.width, TALLEST / picture.height, COARSEST);
  const drawn = reduced(picture, zoom * Math.min(2, devicePixelRatio || 1));
  return tiles.map(({ name, weights }, at) => {
    const canvas = overlay(weights, record.kind, drawn, theme, scale);
    canvas.style.width = `${Math.max(1, Math.floor(picture.width * zoom))}px`;
    if (zoom >= SHARP) canvas.style.imageRendering = "pixelated";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", visible(name, 60));
    const caption = make("figcaption", { textContent: token(visible(name, 24)) });
    return make("figure", { title: `${visible(name, 60)}, max ${short(largest[at])}` }, canvas, caption);
  });
}

/** The picture at a zoom below 1: squares of pixels as their means, as far as they divide a cell. */
function reduced(picture, zoom) {
  let side = Math.max(1, Math.min(picture.cell, Math.floor(1 / zoom)));
  while (picture.cell % side) side -= 1;
  if (side === 1) return picture;
  const [height, width, cell] = [picture.height / side, picture.width / side, picture.cell / side];
  const sums = new Float64Array(height * width);
  for (let at = 0; at < picture.bytes.length; at += 1) {
    const [row, column] = [Math.floor(at / picture.width), at % picture.width];
    sums[Math.floor(row / side) * width + Math.floor(column / side)] += picture.bytes[at];
  }
  return { ...picture, height, width, cell, bytes: Uint8Array.from(sums, (sum) => Math.round(sum / side ** 2)) };
}

/** The weights of each query; if the patches themselves are queries, of each head, as `by_head` in Python. */
function tilesOf(record, heads) {
  const headed = (head) => `head ${record.headNumber(head)}`;
  if (ofPatches(record) || (record.queries === 1 && record.heads > 1)) {
    const rows = averages(record) ? [...Array(record.queries).keys()] : [0];
    return heads.map((head) => ({ name: headed(head), weights: meanOf(rows.map((query) => record.row(head, query))) }));
  }
  const named = (head, query) => (heads.length > 1 ? `${record.query(query)}, ${headed(head)}` : record.query(query));
  const queries = [...Array(Math.min(Math.floor(MOST_TILES / heads.length), record.queries)).keys()];
  return heads.flatMap((head) => queries.map((query) => ({ name: named(head, query), weights: record.row(head, query) })));
}

/** Whether every key is a query, and any other queries are tokens, such as a class token. */
function ofPatches(record) {
  const queries = new Set(Array.from({ length: record.queries }, (_, at) => record.query(at)));
  return Array.from({ length: record.keys }, (_, at) => record.key(at)).every((key) => queries.has(key));
}

/** Whether all queries are patches: then no token tells what the model looks at, but their mean. */
const averages = (record) => ofPatches(record) && record.queries === record.keys;

/** The mean of rows, in which a masked weight is zero. */
const meanOf = (rows) =>
  rows.length > 1 ? rows[0].map((_, key) => rows.reduce((sum, row) => sum + (row[key] ?? 0), 0) / rows.length) : rows[0];
