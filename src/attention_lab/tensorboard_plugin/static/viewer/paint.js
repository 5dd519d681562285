/** Paint a map into an ImageData with one look-up per pixel, whatever the number of cells. */

import { MASKED } from "./record.js";
import { lookUp, pixelOf } from "./colours.js";

const PERIOD = 6; // pixels from one stripe of the hatching to the next
const LARGEST = 96; // most pixels of a side of a cell

const MANY = 40; // with more rows and columns, cells are square
const FINE = 6; // larger cells have a whole number of pixels

/**
 * The size of a cell in pixels and the number of weights that it stands for, so that a map fits in a box.
 * @param {number} queries
 * @param {number} keys
 * @param {number} width pixels
 * @param {number} height pixels
 * @param {function(number): number} [step] from the least number of weights in a cell to the actual number
 * @returns {{width: number, height: number, down: number, across: number, cellWidth: number, cellHeight: number}}
 */
export function gridFor(queries, keys, width, height, step = (least) => least) {
  const least = (count, room) => step(Math.max(1, Math.ceil(count / Math.max(1, room))));
  let [across, down] = [least(keys, width), least(queries, height)];
  const alike = Math.max(queries, keys) < 3 * Math.min(queries, keys);
  if (alike) across = down = Math.max(across, down);
  const [columns, rows] = [Math.ceil(keys / across), Math.ceil(queries / down)];
  const fit = (room) => Math.min(LARGEST, room < FINE ? room : Math.floor(room));
  let [cellWidth, cellHeight] = [fit(width / columns), fit(height / rows)];
  if (rows > MANY && columns > MANY) cellWidth = cellHeight = Math.min(cellWidth, cellHeight);
  cellWidth = Math.min(cellWidth, Math.max(14, Math.round(cellHeight * 1.6))); // nearly square, but a flat map is no thread
  cellHeight = Math.min(cellHeight, Math.max(14, Math.round(cellWidth * 1.4)));
  return { width: columns * cellWidth, height: rows * cellHeight, down, across, cellWidth, cellHeight };
}

/** A small map with cells of whole pixels, which the page scales to exactly `size` on the longer side. */
export function miniature(queries, keys, size, step = (least) => least) {
  const [across, down] = [step(Math.ceil(keys / (2 * size))), step(Math.ceil(queries / (2 * size)))];
  const [columns, rows] = [Math.ceil(keys / across), Math.ceil(queries / down)];
  const cell = Math.max(1, Math.ceil(size / Math.max(columns, rows)));
  const zoom = size / (cell * Math.max(columns, rows));
  const shown = [columns, rows].map((count) => Math.max(12, Math.round(count * cell * zoom)));
  return { width: shown[0], height: shown[1], down, across, cellWidth: cell, cellHeight: cell };
}

/** All queries and keys of a record. */
export const allOf = ({ queries, keys }) => ({ rows: [0, queries], columns: [0, keys] });

/**
 * Paint one head, or a part of it, at `ratio` device pixels per pixel.
 * @param {{rows: number[], columns: number[], mean: boolean}} [part] from and to, and whether cells show the mean
 * @param {HTMLCanvasElement} [canvas] the canvas to paint on; by default a new one
 * @returns {HTMLCanvasElement}
 */
export function paint(record, head, grid, theme, scale, ratio = 1, part = allOf(record), canvas = null) {
  const [cellWidth, cellHeight] = [grid.cellWidth * ratio, grid.cellHeight * ratio].map((size) =>
    Math.max(1, Math.round(size)),
  );
  const cells = record.window(head, part, grid.down, grid.across, part.mean);
  const columns = Math.ceil((part.columns[1] - part.columns[0]) / grid.across);
  const rows = Math.ceil((part.rows[1] - part.rows[0]) / grid.down);
  const [width, height] = [columns * cellWidth, rows * cellHeight];
  canvas ??= document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const pixels = scratch(width * height);
  const table = lookUp(theme, scale, record.kind);
  const thick = Math.max(1, Math.round(ratio));
  const hatching = hatchLine(theme, width, PERIOD * thick, 1.5 * thick);
  const line = pixelOf(theme.faint);
  const ruled = cellWidth >= 12 * ratio && cellHeight >= 12 * ratio;
  for (let row = 0; row < rows; row += 1) {
    const top = row * cellHeight;
    let masked = false;
    for (let column = 0, at = top * width; column < columns; column += 1) {
      const stored = cells[row * columns + column];
      if (stored === MASKED) masked = true;
      const colour = table[stored];
      for (const end = at + cellWidth; at < end; at += 1) pixels[at] = colour;
    }
    for (let y = 1; y < cellHeight; y += 1)
      pixels.copyWithin((top + y) * width, top * width, (top + 1) * width);
    if (masked) hatchRow(pixels, cells, row, hatching, { columns, width, cellWidth, cellHeight });
    if (ruled && row > 0)
      for (let y = 0; y < thick; y += 1) pixels.fill(line, (top + y) * width, (top + y + 1) * width);
  }
  if (ruled) {
    for (let column = 1; column < columns; column += 1) {
      for (let y = 0; y < height; y += 1)
        pixels.fill(line, y * width + column * cellWidth, y * width + column * cellWidth + thick);
    }
  }
  const bytes = new Uint8ClampedArray(pixels.buffer, 0, 4 * pixels.length);
  canvas.getContext("2d").putImageData(new ImageData(bytes, width, height), 0, 0);
  return canvas;
}

let room = new Uint32Array(0); // memory for the pixels of a map, reused for the next one

function scratch(count) {
  if (room.length < count) room = new Uint32Array(count);
  return room.subarray(0, count);
}

/** A line of the hatching; line y of a map is its part that begins at y modulo the period. */
function hatchLine(theme, width, period, thick) {
  const [ground, stripe] = theme.hatch.map(pixelOf);
  const pixels = new Uint32Array(width + period);
  for (let x = 0; x < pixels.length; x += 1) pixels[x] = x % period < thick ? stripe : ground;
  return { pixels, period };
}

/** Hatch the masked cells in a row; they are mostly side by side. */
function hatchRow(pixels, cells, row, hatching, { columns, width, cellWidth, cellHeight }) {
  const first = row * columns;
  for (let from = 0, to; from < columns; from = to + 1) {
    to = from;
    while (to < columns && cells[first + to] === MASKED) to += 1;
    if (to === from) continue;
    const [left, right] = [from * cellWidth, to * cellWidth];
    for (let y = row * cellHeight; y < (row + 1) * cellHeight; y += 1) {
      const phase = y % hatching.period;
      pixels.set(hatching.pixels.subarray(left + phase, right + phase), y * width + left);
    }
  }
}
