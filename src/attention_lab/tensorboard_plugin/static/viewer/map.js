/** The enlarged map: queries down, keys across, both with labels. */

import { colourOf, inkOn, partOf } from "./colours.js";
import { every, fitted, short, token } from "./labels.js";
import { gridFor, paint } from "./paint.js";
import { widthOf } from "./pen.js";
import { drawPicture, pictureOf } from "./pixels.js";

const CAPTION = [30, 48]; // pixels above the cells for a caption of one or two lines
const EDGE = 8; // the same without a caption
const AXIS = 20; // pixels for the name of an axis
const SPACE = 7; // pixels between a label and the cells
const SIZE = 12;
const MOST_ROOM = 132; // most pixels for a label
const LEAST = 12; // least pixels between two labels
const THUMB = 46; // side in pixels of the picture that a label is a row of
const NUMBERS = [40, 24]; // least width and height of a cell that shows its weight as a number
const NARROW = 420; // in a narrower panel, in pixels, the caption takes two lines

/** Pixels needed for the labels of a side, up to `most`. */
function roomFor(labels, count, most) {
  const step = Math.max(1, Math.floor(count / 150));
  let room = 12;
  for (let at = 0; at < count && room < most; at += step)
    room = Math.max(room, widthOf(token(labels(at)), SIZE));
  return Math.min(room, most);
}

/** Pixels available for a key's label on one line. */
const slotOf = ({ cellWidth, across }) => (cellWidth / across) * every(cellWidth / across, LEAST) - 4;

/** The slot of each key's label; none if most of them are wider, so that all read upwards. */
function slotFor(grid, label, [from, to]) {
  const step = Math.max(every(grid.cellWidth / grid.across, LEAST), Math.ceil((to - from) / 150));
  const slot = slotOf(grid);
  const shown = Array.from({ length: Math.ceil((to - from) / step) }, (_, at) => label(from + at * step));
  return 2 * shown.filter((one) => turnedIn(slot, one)).length > shown.length ? 0 : slot;
}

/** Whether a label is turned to read upwards; a single letter never is. */
function turnedIn(slot, label) {
  const text = token(label);
  return Array.from(text).length > 1 && widthOf(text, SIZE) > slot;
}

/**
 * Lay out one panel.
 * @param {object} scene what is shown; a bare scene has no captions
 * @param {object} panel {record, head, ...}
 * @param {{x: number, y: number, width: number, height: number}} box
 */
export function arrange(scene, panel, box) {
  const { record } = panel;
  const two = scene.panels.length > 1 || box.width < NARROW;
  const above = scene.bare ? EDGE : CAPTION[two ? 1 : 0];
  const queryPicture = pictureOf(record.queries, (at) => record.query(at));
  const keyPicture = pictureOf(record.keys, (at) => record.key(at));
  const most = Math.min(MOST_ROOM, Math.max(48, box.width * (box.width < NARROW ? 0.2 : 0.26)));
  const queryRoom = queryPicture ? THUMB : roomFor((at) => record.query(at), record.queries, most);
  const keyRoom = keyPicture ? THUMB : roomFor((at) => record.key(at), record.keys, most);
  const left = AXIS + queryRoom + SPACE;
  let below = SIZE + SPACE + AXIS;
  const cut = ([from, to], size) => [Math.min(from, size - 1), Math.min(to, size)];
  const wanted = {
    rows: cut(scene.part.rows, record.queries),
    columns: cut(scene.part.columns, record.keys),
  };
  const inside = (under) => {
    const counts = [wanted.rows, wanted.columns].map(([from, to]) => to - from);
    const room = [box.width - left - 4, box.height - above - under];
    return gridFor(...counts, ...room, (least) => record.step(least));
  };
  let grid = inside(below);
  if (keyPicture || keyRoom > slotOf(grid)) {
    below = keyRoom + SPACE + AXIS;
    grid = inside(below);
  }
  // A cell for several weights begins at the same place as on the entire map.
  const start = ([from, to], by) => [Math.floor(from / by) * by, to];
  const rows = start(wanted.rows, grid.down);
  const columns = start(wanted.columns, grid.across);
  grid.width = Math.ceil((columns[1] - columns[0]) / grid.across) * grid.cellWidth;
  grid.height = Math.ceil((rows[1] - rows[0]) / grid.down) * grid.cellHeight;
  return {
    panel,
    grid,
    part: { rows, columns, mean: scene.mean },
    slot: slotFor(grid, (at) => record.key(at), columns),
    queryRoom,
    keyRoom,
    queryPicture,
    keyPicture,
    x: box.x + left,
    above,
    y: box.y + above,
    room: box.width,
    height: above + grid.height + below,
    width: left + grid.width,
    captionWidth: (two ? 0 : left) + captionWidth(scene, panel, grid, two),
    below,
  };
}

/** Write the weights as numbers, if cells have room for them. */
function numbers(pen, scene, { panel, grid, part, x, y }, scale) {
  if (grid.cellWidth < NUMBERS[0] || grid.cellHeight < NUMBERS[1] || grid.down * grid.across > 1) return;
  const { record, head, difference } = panel;
  const [top, left] = [part.rows[0], part.columns[0]];
  for (let query = top; query < part.rows[1]; query += 1) {
    for (let key = left; key < part.columns[1]; key += 1) {
      const weight = record.at(head, query, key);
      if (weight === null || Math.abs(weight) < 0.005) continue;
      const colour = colourOf(scene.theme, partOf(weight, scale), difference);
      const [centre, middle] = [
        x + (key - left + 0.5) * grid.cellWidth,
        y + (query - top + 0.5) * grid.cellHeight,
      ];
      const text = `${difference && weight > 0 ? "+" : ""}${weight.toFixed(2)}`.replace("-", "−");
      pen.text(text, centre, middle, { size: 11, align: "center", fill: inkOn(colour) });
    }
  }
}

/** The parts of a caption: title and facts. */
function captionOf({ panels, mean }, { record, head, difference, title, step }, grid) {
  const { largest, entropy } = record.measure(head);
  const facts = [`${difference ? "largest change" : "max"} ${short(largest)}`];
  const trained = panels.some((one) => one.step); // the weights of a notebook have no step but 0
  if (!difference && panels.length > 1 && trained) facts.unshift(`step ${step.toLocaleString("en")}`);
  if (!difference) facts.push(`entropy ${entropy.toFixed(2)}`);
  if (grid.down > 1 || grid.across > 1) facts.push(`${mean ? "mean" : "largest"} of ${grid.down} × ${grid.across} per cell`);
  return { title, facts: facts.join(" · ") };
}

function captionWidth(scene, panel, grid, two) {
  const { title, facts } = captionOf(scene, panel, grid);
  const [first, second] = [widthOf(token(title), 13, 600), widthOf(facts, 11)];
  return (two ? Math.max(first, second) : first + second + 10) + 4;
}

/** Draw a panel without the cursor. */
export function draw(pen, scene, part) {
  const { panel, grid, x, y } = part;
  const { record, head } = panel;
  const { theme } = scene;
  const scale = panel.difference ? scene.difference : scene.scale;
  pen.image(paint(record, head, grid, theme, scale, pen.ratio, part.part), x, y, grid.width, grid.height);
  pen.rect(x - 0.5, y - 0.5, grid.width + 1, grid.height + 1, { stroke: theme.line });
  numbers(pen, scene, part, scale);
  outlineGold(pen, part, theme);
  if (!scene.bare) caption(pen, scene, part);
  const [down, across] = [grid.cellHeight / grid.down, grid.cellWidth / grid.across];
  const step = every(down, part.queryPicture ? THUMB / 2 : LEAST);
  const { rows, columns } = part.part;
  for (let query = rows[0]; query < rows[1]; query += step) queryLabel(pen, part, query, theme, down * step);
  const apart = every(across, part.keyPicture ? THUMB / 2 : LEAST);
  for (let key = columns[0]; key < columns[1]; key += apart)
    keyLabel(pen, part, key, theme, across * apart);
  const axis = { size: 11, fill: theme.quiet, align: "center" };
  pen.text("query", x - SPACE - part.queryRoom - AXIS / 2, y + grid.height / 2, { ...axis, turn: -90 });
  pen.text("key", x + grid.width / 2, y + grid.height + part.below - AXIS / 2 + 2, axis);
}

/** Draw the cursor: its row, its column, and both labels. */
export function mark(pen, scene, part, { query, key }) {
  const { grid, x, y, panel } = part;
  const { theme } = scene;
  const line = { stroke: theme.accent, line: 1.5 };
  const { rows, columns } = part.part;
  const has = { query: query >= rows[0] && query < rows[1], key: key >= columns[0] && key < columns[1] };
  const row = topOf(part, query);
  const column = leftOf(part, key);
  if (has.query) pen.rect(x - 1, row - 0.5, grid.width + 2, grid.cellHeight + 1, line);
  if (has.key) pen.rect(column - 0.5, y - 1, grid.cellWidth + 1, grid.height + 2, line);
  if (has.query && has.key)
    pen.rect(column - 1, row - 1, grid.cellWidth + 2, grid.cellHeight + 2, { stroke: theme.ink, line: 2 });
  if (has.query) queryTag(pen, part, query, theme);
  if (has.key) keyTag(pen, part, key, theme);
}

/** @returns {{query: number, key: number}|null} the weight at a point; the largest one if a cell stands for several */
export function point(part, x, y) {
  const { grid, panel } = part;
  const { rows, columns } = part.part;
  const [column, row] = [
    Math.floor((x - part.x) / grid.cellWidth),
    Math.floor((y - part.y) / grid.cellHeight),
  ];
  const [query, key] = [rows[0] + row * grid.down, columns[0] + column * grid.across];
  if (x < part.x || y < part.y || query >= rows[1] || key >= columns[1]) return null;
  const block = [Math.min(query + grid.down, rows[1]), Math.min(key + grid.across, columns[1])];
  return panel.record.largestIn(panel.head, [query, block[0]], [key, block[1]]);
}

function caption(pen, scene, { panel, grid, above, x, y, room, queryRoom }) {
  const { theme } = scene;
  const { title: full, facts } = captionOf(scene, panel, grid);
  const two = above === CAPTION[1];
  const left = two ? x - AXIS - queryRoom - SPACE : x - 1; // a caption of two lines begins at the panel's edge
  const most = two ? room : room - (queryRoom + AXIS + SPACE);
  const beside = two ? most : Math.max(most * 0.5, most - widthOf(facts, 11) - 10);
  const title = fitted((text) => widthOf(text, 13, 600), full, beside);
  pen.text(title, left, y - (two ? 33 : 14), { size: 13, weight: 600, fill: theme.ink });
  const start = two ? 0 : widthOf(title, 13, 600) + 10;
  pen.text(
    fitted((text) => widthOf(text, 11), facts, most - start),
    left + start,
    y - 14,
    { size: 11, fill: theme.quiet },
  );
}

function outlineGold(pen, part, theme) {
  const { panel, grid } = part;
  const { rows, columns } = part.part;
  const line = Math.min(grid.cellWidth, grid.cellHeight) >= 6 ? 2 : 1;
  for (let query = rows[0]; query < rows[1]; query += 1) {
    for (const key of panel.record.gold[query]) {
      if (key < columns[0] || key >= columns[1]) continue;
      const [left, top] = [leftOf(part, key), topOf(part, query)];
      const over = line / 2; // outside the cell, so that no weight is hidden
      pen.rect(left - over, top - over, grid.cellWidth + line, grid.cellHeight + line, {
        stroke: theme.gold,
        line,
      });
    }
  }
}

const topOf = ({ part, grid, y }, query) =>
  y + Math.floor((query - part.rows[0]) / grid.down) * grid.cellHeight;
const leftOf = ({ part, grid, x }, key) =>
  x + Math.floor((key - part.columns[0]) / grid.across) * grid.cellWidth;
const middleOf = (part, query) => topOf(part, query) + part.grid.cellHeight / 2;
const centreOf = (part, key) => leftOf(part, key) + part.grid.cellWidth / 2;

/** The picture that a label is a row of, with this row marked. */
function thumbnail(pen, rows, at, { x, y, room }, theme) {
  const side = Math.min(THUMB, room - 3);
  drawPicture(pen, rows, { x: x - side / 2, y: y - side / 2, width: side, height: side }, theme, at);
}

function queryLabel(pen, part, query, theme, room) {
  if (part.queryPicture?.[query]) {
    const place = { x: part.x - SPACE - THUMB / 2, y: middleOf(part, query), room };
    thumbnail(pen, part.queryPicture, query, place, theme);
    return;
  }
  const text = fitted((label) => widthOf(label, SIZE), part.panel.record.query(query), part.queryRoom);
  pen.text(text, part.x - SPACE, middleOf(part, query), { size: SIZE, align: "right", fill: theme.ink });
}

function keyLabel(pen, part, key, theme, room) {
  const top = part.y + part.grid.height + SPACE;
  if (part.keyPicture?.[key]) {
    thumbnail(pen, part.keyPicture, key, { x: centreOf(part, key), y: top + THUMB / 2, room }, theme);
    return;
  }
  const label = part.panel.record.key(key);
  const style = { size: SIZE, fill: theme.ink };
  const turned = turnedIn(part.slot, label);
  const text = fitted((one) => widthOf(one, SIZE), label, turned ? part.keyRoom : room);
  if (turned)
    pen.text(text, centreOf(part, key), top, { ...style, align: "right", turn: -90 });
  else pen.text(text, centreOf(part, key), top + SIZE / 2, { ...style, align: "center" });
}

/** A chosen label in bold, which may take the room of its axis's name, too, but nothing beyond the panel. */
const tagText = (label, room) => fitted((one) => widthOf(one, SIZE, 600), label, room + AXIS - 6);

function queryTag(pen, part, query, theme) {
  if (part.queryPicture?.[query]) return; // it is marked in the picture
  const text = tagText(part.panel.record.query(query), part.queryRoom);
  const [width, middle] = [widthOf(text, SIZE, 600), middleOf(part, query)];
  pen.rect(part.x - SPACE - width - 5, middle - 9, width + 9, 18, {
    fill: theme.tag,
    stroke: theme.accent,
    radius: 3,
  });
  pen.text(text, part.x - SPACE, middle, { size: SIZE, weight: 600, align: "right", fill: theme.ink });
}

function keyTag(pen, part, key, theme) {
  if (part.keyPicture?.[key]) return;
  const text = tagText(part.panel.record.key(key), part.keyRoom);
  const [width, centre, top] = [
    widthOf(text, SIZE, 600),
    centreOf(part, key),
    part.y + part.grid.height + SPACE,
  ];
  const style = { size: SIZE, weight: 600, fill: theme.ink };
  if (turnedIn(part.slot, part.panel.record.key(key))) {
    pen.rect(centre - 9, top - 4, 18, width + 9, { fill: theme.tag, stroke: theme.accent, radius: 3 });
    pen.text(text, centre, top, { ...style, align: "right", turn: -90 });
  } else {
    pen.rect(centre - width / 2 - 5, top - 3, width + 10, 18, {
      fill: theme.tag,
      stroke: theme.accent,
      radius: 3,
    });
    pen.text(text, centre, top + SIZE / 2, { ...style, align: "center" });
  }
}
