/** Attention drawn over the input picture, one panel per query (1502.03044, figure 2). */

import { colourOf, css, pixelOf, partOf } from "./colours.js";
import { fitted, short } from "./labels.js";
import { widthOf } from "./pen.js";

const CAPTION = 24;
const HEADING = 26;
const GAP = 16;
const DEEPEST = 0.6; // part of the colour map that is used: the picture's ink must stay darker than any paper
const MOST = 60; // most panels
const LARGEST = 24; // most screen pixels per side of a pixel of the picture
const COARSE = 3; // if they are larger than this, the picture's pixels are drawn with sharp edges

const inks = new WeakMap();

/** The picture's ink, 0..255, from the header's base64. */
export function inkOf(record) {
  if (!inks.has(record)) {
    const { height, width, cell, ink, by_row: byRow = false } = record.header.picture;
    const bytes = Uint8Array.from(atob(ink), (character) => character.charCodeAt(0));
    if (bytes.length !== height * width || height % cell || width % cell)
      throw new Error("a picture that does not consist of whole cells");
    inks.set(record, { height, width, cell, bytes, byRow, rows: height / cell, columns: width / cell });
  }
  return inks.get(record);
}

/** The number of a cell: row by row, or down each column. */
const keyAt = ({ byRow, rows, columns }, row, column) => (byRow ? row * columns + column : column * rows + row);

/** The row and the column of a cell. */
const placeOf = ({ byRow, rows, columns }, key) =>
  byRow ? [Math.floor(key / columns), key % columns] : [key % rows, Math.floor(key / rows)];

/** The page of tiles that has a query; the first one if none is chosen. */
export const pageOf = (query) => Math.floor(Math.max(0, query) / MOST);

/** Lay out one panel: a tile for each query, of the page with the chosen one. */
export function arrange(scene, panel, box) {
  const picture = inkOf(panel.record);
  const { queries } = panel.record;
  const first = MOST * Math.min(pageOf(scene.query), Math.floor((queries - 1) / MOST));
  const count = Math.min(queries, MOST); // room for a full page, so that all pages have tiles of the same size
  let best = null;
  for (let across = 1; across <= Math.max(1, count); across += 1) {
    const wide = (box.width - (across - 1) * GAP) / across;
    const down = Math.ceil(count / across);
    const high = (box.height - HEADING) / down - CAPTION - 6;
    const zoom = Math.min(wide / picture.width, high / picture.height, LARGEST);
    if (!best || zoom > best.zoom) best = { across, zoom, down };
  }
  const zoom = Math.max(best.zoom, Math.min(1, 90 / picture.width)); // legible even if the page must scroll
  const [width, height] = [picture.width * zoom, picture.height * zoom];
  const across = Math.max(1, Math.min(count, Math.floor((box.width + GAP) / (width + GAP))));
  const tiles = Array.from({ length: Math.min(count, queries - first) }, (_, at) => ({
    query: first + at,
    x: box.x + (at % across) * (width + GAP),
    y: box.y + HEADING + CAPTION + Math.floor(at / across) * (height + CAPTION + 6),
  }));
  const rows = Math.ceil(count / across);
  return {
    panel,
    picture,
    tiles,
    x: box.x,
    y: box.y,
    tileWidth: width,
    tileHeight: height,
    room: box.width,
    width: across * (width + GAP) - GAP,
    height: HEADING + rows * (height + CAPTION + 6) + 4,
  };
}

/** Draw a panel without the cursor. */
export function draw(pen, scene, part) {
  const { panel, tiles, tileWidth, tileHeight, picture } = part;
  const { theme } = scene;
  const { queries } = panel.record;
  const page = `queries ${tiles[0].query + 1} to ${tiles.at(-1).query + 1} of ${queries}; ↓ and ↑ choose one`;
  const title = `${panel.title}${queries > tiles.length ? ` (${page})` : ""}`;
  pen.text(
    fitted((text) => widthOf(text, 13, 600), title, part.room),
    part.x,
    part.y + 12,
    { size: 13, weight: 600, fill: theme.ink },
  );
  for (const { query, x, y } of tiles) {
    const scale = panel.difference ? scene.difference : scene.scale;
    const smooth = tileWidth / picture.width < COARSE;
    const row = panel.record.row(panel.head, query);
    const canvas = overlay(row, panel.record.kind, picture, theme, scale);
    pen.image(canvas, x, y, tileWidth, tileHeight, smooth);
    pen.rect(x - 0.5, y - 0.5, tileWidth + 1, tileHeight + 1, { stroke: theme.line });
    const gold = panel.record.gold[query];
    for (const key of gold) cellBox(pen, part, { x, y }, key, { stroke: theme.gold, line: 2 });
    const largest = `max ${short(row.reduce((most, weight) => Math.max(most, Math.abs(weight ?? 0)), 0))}`;
    const room = tileWidth - widthOf(largest, 10.5) - 8;
    const name = fitted((text) => widthOf(text, 14, 600), panel.record.query(query), tileWidth);
    pen.text(name, x, y - 12, { size: 14, weight: 600, fill: theme.ink });
    if (room > widthOf(name, 14, 600))
      pen.text(largest, x + tileWidth, y - 12, { size: 10.5, fill: theme.quiet, align: "right" });
  }
}

/** Draw the cursor: the tile of its query, and its cell in every tile. */
export function mark(pen, scene, part, { query, key }) {
  const { theme } = scene;
  for (const tile of part.tiles) {
    if (tile.query === query) {
      pen.rect(tile.x - 2, tile.y - 2, part.tileWidth + 4, part.tileHeight + 4, {
        stroke: theme.accent,
        line: 2,
      });
    }
    if (key >= 0) cellBox(pen, part, tile, key, { stroke: theme.accent, line: tile.query === query ? 2 : 1 });
  }
}

/** @returns {{query: number, key: number}|null} the cell at a point */
export function point(part, x, y) {
  const { picture, tileWidth, tileHeight } = part;
  const tile = part.tiles.find(
    (one) => x >= one.x && x < one.x + tileWidth && y >= one.y && y < one.y + tileHeight,
  );
  if (!tile) return null;
  const column = Math.floor(((x - tile.x) / tileWidth) * picture.columns);
  const row = Math.floor(((y - tile.y) / tileHeight) * picture.rows);
  return { query: tile.query, key: keyAt(picture, row, column) };
}

function cellBox(pen, { picture, tileWidth, tileHeight }, { x, y }, key, style) {
  const [wide, high] = [tileWidth / picture.columns, tileHeight / picture.rows];
  const [row, column] = placeOf(picture, key);
  pen.rect(x + column * wide + 1, y + row * high + 1, wide - 2, high - 2, style);
}

/**
 * A canvas with the picture, and the weights of its cells as the colours of its paper.
 * @param {(number|null)[]} weights of each cell
 */
export function overlay(weights, kind, picture, theme, scale) {
  const { height, width, cell, bytes } = picture;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const pen = theme.dark ? [236, 240, 245] : [27, 34, 44];
  const papers = weights.map((weight) => {
    const part = weight === null ? 0 : partOf(weight, scale);
    const paper = colourOf(theme, part * DEEPEST, kind.diverging);
    const share = 0.4 + 0.6 * Math.sqrt(Math.abs(part)); // ink fades where weights are small
    return { paper, ink: pen.map((channel, at) => paper[at] + share * (channel - paper[at])) };
  });
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      const { paper, ink } = papers[keyAt(picture, Math.floor(y / cell), Math.floor(x / cell))];
      const much = bytes[at] / 255;
      pixels[at] = pixelOf(
        paper.map((channel, number) => Math.round(channel + much * (ink[number] - channel))),
      );
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The css colour of a weight over a picture, for the colour bar. */
export const barColour = (theme, part, diverging) => css(colourOf(theme, part * DEEPEST, diverging));
