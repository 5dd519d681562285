/** Kernel regression: the weights of a query over the x-axis on which queries and keys lie. */

import { nearest } from "./catalogue.js";
import { colourOf, css, partOf } from "./colours.js";
import { extremes, fitted, multiples, plain, short } from "./labels.js";
import { widthOf } from "./pen.js";

const [CAPTION, LEFT, BELOW] = [34, 56, 46];
const FAINT = 24; // most other queries drawn behind the chosen one

/** Positions of queries and of keys on the x-axis. */
function positions(record) {
  const { x } = record.header;
  const [queries, keys] = Array.isArray(x) ? x : [x.queries, x.keys];
  return { queries, keys };
}

/** Round numbers in a range. */
function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return multiples(low, high, step).map((at) => at * step);
}

/** Lay out one panel. */
export function arrange(scene, panel, box) {
  const x = positions(panel.record);
  const [least, most] = extremes([...x.queries, ...x.keys]);
  const margin = (most - least || 1) * 0.03;
  const height = box.height - CAPTION - BELOW;
  const order = x.keys.map((_, key) => key).sort((a, b) => x.keys[a] - x.keys[b]);
  return {
    panel,
    at: x,
    order,
    low: least - margin,
    high: most + margin,
    x: box.x + LEFT,
    y: box.y + CAPTION,
    innerWidth: Math.min(box.width - LEFT - 8, 1400),
    innerHeight: height,
    room: box.width,
    width: box.width,
    height: height + CAPTION + BELOW,
  };
}

const placeX = (part, value) => part.x + ((value - part.low) / (part.high - part.low)) * part.innerWidth;
const placeY = (part, scale, weight) => part.y + part.innerHeight * (1 - partOf(weight, scale));

/** Draw a panel without the cursor: axes, and some queries in faint lines. */
export function draw(pen, scene, part) {
  const { panel, x, y, innerWidth, innerHeight } = part;
  const { theme, scale } = scene;
  const title = fitted((text) => widthOf(text, 13, 600), panel.title, part.room - 8);
  pen.text(title, part.x - LEFT, y - 18, { size: 13, weight: 600, fill: theme.ink });
  for (const weight of ticks(0, scale.maximum, 5)) {
    const at = placeY(part, scale, weight);
    pen.path(
      [
        [x, at],
        [x + innerWidth, at],
      ],
      { stroke: theme.faint },
    );
    pen.text(plain(weight), x - 8, at, { size: 11, fill: theme.quiet, align: "right" });
  }
  for (const value of ticks(part.low, part.high, 8)) {
    const at = placeX(part, value);
    pen.path(
      [
        [at, y + innerHeight],
        [at, y + innerHeight + 4],
      ],
      { stroke: theme.line },
    );
    pen.text(plain(value), at, y + innerHeight + 14, { size: 11, fill: theme.quiet, align: "center" });
  }
  pen.path(
    [
      [x, y + innerHeight],
      [x + innerWidth, y + innerHeight],
    ],
    { stroke: theme.line },
  );
  pen.text("x of the keys", x + innerWidth / 2, y + innerHeight + 34, {
    size: 11,
    fill: theme.quiet,
    align: "center",
  });
  pen.text("weight", x - LEFT + 12, y + innerHeight / 2, {
    size: 11,
    fill: theme.quiet,
    align: "center",
    turn: -90,
  });
  const step = Math.max(1, Math.ceil(panel.record.queries / FAINT));
  const inOrder = part.at.queries
    .map((_, query) => query)
    .sort((a, b) => part.at.queries[a] - part.at.queries[b]);
  inOrder.forEach((query, number) => {
    if (number % step) return;
    const hue = css(colourOf(theme, 0.3 + (0.5 * number) / inOrder.length));
    for (const piece of pieces(part, scale, query))
      if (piece.length > 1) pen.path(piece, { stroke: hue, line: 1.2, alpha: 0.45 });
  });
}

/** Draw the cursor: the weights of its query as stems on the keys, and the position of the query. */
export function mark(pen, scene, part, { query, key }) {
  const { panel, y, innerHeight, at } = part;
  const { theme, scale } = scene;
  if (query < 0 || query >= panel.record.queries) return;
  const ground = placeY(part, scale, 0);
  const place = placeX(part, at.queries[query]);
  pen.path(
    [
      [place, y],
      [place, y + innerHeight],
    ],
    { stroke: theme.gold, line: 1.5 },
  );
  const name = `query at ${plain(at.queries[query])}`;
  const right = place + widthOf(name, 11) + 12 < part.x + part.innerWidth;
  pen.text(name, place + (right ? 6 : -6), y + 8, {
    size: 11,
    weight: 600,
    fill: theme.gold,
    align: right ? "left" : "right",
  });
  for (const piece of pieces(part, scale, query)) {
    if (piece.length < 2) continue;
    pen.path([[piece[0][0], ground], ...piece, [piece.at(-1)[0], ground]], {
      fill: theme.accent,
      alpha: 0.16,
    });
    pen.path(piece, { stroke: theme.accent, line: 2 });
  }
  const weights = panel.record.row(panel.head, query);
  for (const one of part.order) {
    if (weights[one] === null) continue;
    const [left, top] = [placeX(part, at.keys[one]), placeY(part, scale, weights[one])];
    pen.path(
      [
        [left, ground],
        [left, top],
      ],
      { stroke: theme.accent, line: 1, alpha: 0.6 },
    );
    pen.circle(left, top, one === key ? 5 : 2.6, { fill: one === key ? theme.ink : theme.accent });
    if (one === key)
      pen.text(short(weights[one]), left, top - 13, {
        size: 12,
        weight: 600,
        fill: theme.ink,
        align: "center",
      });
  }
}

/** @returns {{query: number, key: number}|null} the query nearest in x and, in the lower third, the nearest key */
export function point(part, x, y, current) {
  if (x < part.x || x > part.x + part.innerWidth || y < part.y || y > part.y + part.innerHeight + BELOW)
    return null;
  const value = part.low + ((x - part.x) / part.innerWidth) * (part.high - part.low);
  if (y < part.y + part.innerHeight * 0.67) return { query: nearest(part.at.queries, value), key: -1 };
  return { query: Math.max(0, current.query), key: nearest(part.at.keys, value) };
}

/** The line of a query's weights through its keys in order of x, interrupted at masked keys. */
function pieces(part, scale, query) {
  const weights = part.panel.record.row(part.panel.head, query);
  const found = [[]];
  for (const key of part.order) {
    if (weights[key] === null) found.push([]);
    else found.at(-1).push([placeX(part, part.at.keys[key]), placeY(part, scale, weights[key])]);
  }
  return found;
}
