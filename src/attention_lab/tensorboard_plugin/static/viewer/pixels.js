/** Labels that are rows of pixels, drawn as the picture that they form. */

import { pixelRow } from "./labels.js";

const MOST = 128; // most rows of a picture

/**
 * The picture whose rows are the labels.
 * @param {number} count
 * @param {function(number): string} label
 * @returns {number[][]|null} from 0 (paper) to 1 (ink), in rows of equal length; null if the labels are anything else
 */
export function pictureOf(count, label) {
  if (count < 2 || count > MOST) return null;
  const rows = Array.from({ length: count }, (_, at) => pixelRow(label(at)));
  // Besides the rows, there may be the model's own tokens, such as [readout], which are not rows.
  const width = rows.find(Boolean)?.length ?? 0;
  return width > 0 && rows.filter((row) => row?.length === width).length > count / 2
    ? rows.map((row) => (row?.length === width ? row : null))
    : null;
}

/** Whether all words of a text are rows of pixels. */
export function isPicture(text) {
  const words = text.split(" ").slice(0, MOST);
  return words.length > 1 && words.every((word) => pixelRow(word));
}

/**
 * Draw rows of pixels, one below another.
 * @param {object} pen
 * @param {(number[]|null)[]} rows
 * @param {{x: number, y: number, width: number, height: number}} box
 * @param {object} theme
 * @param {number} [chosen] the chosen row; if there is one, the others are faint
 */
export function drawPicture(pen, rows, { x, y, width, height }, theme, chosen = -1) {
  const high = height / rows.length;
  rows.forEach((row, down) => {
    if (!row) return;
    const wide = width / row.length;
    row.forEach((ink, across) => {
      const alpha = chosen < 0 || chosen === down ? ink : 0.28 * ink;
      const corner = [x + across * wide, y + down * high];
      if (alpha > 0.02) pen.path(rectangle(...corner, wide + 0.2, high + 0.2), { fill: theme.ink, alpha });
    });
  });
  pen.rect(x - 0.5, y - 0.5, width + 1, height + 1, { stroke: theme.line });
  if (chosen >= 0) pen.rect(x - 1, y + chosen * high, width + 2, high, { stroke: theme.accent, line: 1.2 });
}

const rectangle = (x, y, width, height) => [
  [x, y],
  [x + width, y],
  [x + width, y + height],
  [x, y + height],
];
