/** A map as pixels: one look-up a pixel into an ImageData, whatever the number of cells. */

import { MASKED } from "./record.js";
import { lookUp, pixelOf } from "./colours.js";

const PERIOD = 6; // pixels from one stripe of the hatching to the next

/**
 * One head, where a cell of the result is the largest weight (in size) of `down` x `across` weights.
 * A cell is masked only if all of it is.
 */
function pooled(record, head, down, across) {
  const name = `${head} ${down} ${across}`;
  if (down === 1 && across === 1)
    return record.stored.subarray(head * record.cells, (head + 1) * record.cells);
  if (!record.pools.has(name)) record.pools.set(name, pool(record, head, down, across));
  return record.pools.get(name);
}

function pool(record, head, down, across) {
  const part = record.stored.subarray(head * record.cells, (head + 1) * record.cells);
  const [rows, columns] = [Math.ceil(record.queries / down), Math.ceil(record.keys / across)];
  const result = new Uint16Array(rows * columns).fill(MASKED);
  const zero = record.kind.diverging ? 32767 : 0;
  const columnOf = Uint32Array.from({ length: record.keys }, (_, key) => Math.floor(key / across));
  for (let query = 0, at = 0; query < record.queries; query += 1) {
    const row = Math.floor(query / down) * columns;
    for (let key = 0; key < record.keys; key += 1, at += 1) {
      const stored = part[at];
      const place = row + columnOf[key];
      const before = result[place];
      if (stored !== MASKED && (before === MASKED || Math.abs(stored - zero) > Math.abs(before - zero))) {
        result[place] = stored;
      }
    }
  }
  return result;
}

/**
 * How many pixels a cell takes and how many weights a cell stands for, so that a map fits a box.
 * @returns {{width: number, height: number, down: number, across: number, cellWidth: number, cellHeight: number}}
 */
export function gridFor(queries, keys, width, height, largest = 96) {
  const [across, down] = [Math.max(1, Math.ceil(keys / width)), Math.max(1, Math.ceil(queries / height))];
  const [columns, rows] = [Math.ceil(keys / across), Math.ceil(queries / down)];
  let cellWidth = Math.max(1, Math.min(largest, Math.floor(width / columns)));
  let cellHeight = Math.max(1, Math.min(largest, Math.floor(height / rows)));
  cellWidth = Math.min(cellWidth, Math.max(14, Math.round(cellHeight * 1.6))); // nearly square, but no flat map a thread
  cellHeight = Math.min(cellHeight, Math.max(14, Math.round(cellWidth * 1.4)));
  return { width: columns * cellWidth, height: rows * cellHeight, down, across, cellWidth, cellHeight };
}

/** A small map: cells of whole pixels, which the page then shows at exactly `size` on the longer side. */
export function miniature(queries, keys, size) {
  const [across, down] = [Math.ceil(keys / (2 * size)), Math.ceil(queries / (2 * size))];
  const [columns, rows] = [Math.ceil(keys / across), Math.ceil(queries / down)];
  const cell = Math.max(1, Math.ceil(size / Math.max(columns, rows)));
  const zoom = size / (cell * Math.max(columns, rows));
  const shown = [columns, rows].map((count) => Math.max(12, Math.round(count * cell * zoom)));
  return { width: shown[0], height: shown[1], down, across, cellWidth: cell, cellHeight: cell };
}

/**
 * Paint one head at `ratio` device pixels a pixel.
 * @returns {HTMLCanvasElement}
 */
export function paint(record, head, grid, theme, scale, ratio = 1) {
  const [cellWidth, cellHeight] = [grid.cellWidth * ratio, grid.cellHeight * ratio].map((size) =>
    Math.max(1, Math.round(size)),
  );
  const cells = pooled(record, head, grid.down, grid.across);
  const [columns, rows] = [Math.ceil(record.keys / grid.across), Math.ceil(record.queries / grid.down)];
  const [width, height] = [columns * cellWidth, rows * cellHeight];
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const table = lookUp(theme, scale, record.kind);
  const [ground, stripe] = theme.hatch.map(pixelOf);
  const line = pixelOf(theme.faint);
  const ruled = cellWidth >= 12 * ratio && cellHeight >= 12 * ratio;
  const thick = Math.max(1, Math.round(ratio));
  for (let row = 0; row < rows; row += 1) {
    const top = row * cellHeight;
    for (let column = 0; column < columns; column += 1) {
      const stored = cells[row * columns + column];
      const left = column * cellWidth;
      if (stored !== MASKED) {
        const start = top * width + left;
        pixels.fill(table[stored], start, start + cellWidth);
        continue;
      }
      for (let y = top; y < top + cellHeight; y += 1) {
        for (let x = left; x < left + cellWidth; x += 1) {
          pixels[y * width + x] = (x + y) % (PERIOD * thick) < 1.5 * thick ? stripe : ground;
        }
      }
    }
    fillDown(pixels, cells, row, { columns, width, cellWidth, cellHeight });
    if (ruled && row > 0)
      for (let y = 0; y < thick; y += 1) pixels.fill(line, (top + y) * width, (top + y + 1) * width);
  }
  if (ruled) {
    for (let column = 1; column < columns; column += 1) {
      for (let y = 0; y < height; y += 1)
        pixels.fill(line, y * width + column * cellWidth, y * width + column * cellWidth + thick);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Copy the first line of pixels of the painted cells down to the rest of their row. */
function fillDown(pixels, cells, row, { columns, width, cellWidth, cellHeight }) {
  const top = row * cellHeight;
  const first = row * columns;
  const whole = !cells.subarray(first, first + columns).includes(MASKED);
  for (let y = 1; y < cellHeight; y += 1) {
    const target = (top + y) * width;
    if (whole) {
      pixels.copyWithin(target, top * width, (top + 1) * width);
      continue;
    }
    for (let column = 0; column < columns; column += 1) {
      if (cells[first + column] === MASKED) continue;
      const left = column * cellWidth;
      pixels.copyWithin(target + left, top * width + left, top * width + left + cellWidth);
    }
  }
}
