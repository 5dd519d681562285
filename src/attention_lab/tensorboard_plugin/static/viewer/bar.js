/** The colour bar, and the key that explains hatching and outlines. */

import { colourOf, css, partOf } from "./colours.js";
import { short } from "./labels.js";
import { widthOf } from "./pen.js";
import { barColour } from "./picture.js";

const HEIGHT = 190;
const WIDTH = 14;
const APART = 38; // pixels from one bar to the next
const PARTS = { linear: [0, 0.25, 0.5, 0.75, 1], root: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] };

/** Pixels that the bars and the key take on the right. */
export const ROOM = 92;

const FLAT = { height: 12, apart: 62, longest: 320, swatch: 90, between: 5 }; // for bars below a narrow figure

/** The bars of a scene, for weights and for differences; a curve has none, since its heights are the weights. */
function barsOf({ panels, view, scale, difference }) {
  if (view === "curve") return [];
  const bars = [];
  if (panels.some((panel) => !panel.difference))
    bars.push({ name: "weight", scale, diverging: false, height: HEIGHT });
  if (panels.some((panel) => panel.difference))
    bars.push({ name: "B − A", scale: difference, diverging: true, height: HEIGHT * 0.8 });
  return bars;
}

/** Pixels that the bars and the key take below the panels. */
export function flatHeight(scene) {
  return barsOf(scene).length * FLAT.apart + (key(null, scene).length ? 24 : 0);
}

/** Pixels from the top to the end of the bars and the key. */
export function barsHeight(scene, y) {
  return barsOf(scene).reduce((sum, { height }) => sum + height + APART, y) + 22 * key(null, scene).length;
}

/**
 * Draw the bars, then the key.
 * @param {{x: number, y: number, flat: number}} place the corner; `flat` is the width if the bars are below the panels
 */
export function drawBars(pen, scene, { x, y, flat }) {
  let top = y;
  for (const one of barsOf(scene)) {
    bar(pen, scene, { x, y: top, ...one, ...(flat ? { flat: Math.min(FLAT.longest, flat) } : {}) });
    top += flat ? FLAT.apart : one.height + APART;
  }
  key(pen, scene).forEach(([name, swatch], number) => {
    const [left, down] = flat ? [x + number * FLAT.swatch, top - 10] : [x, top + 22 * number];
    swatch(left, down);
    pen.text(name, left + 22, down + 7, { size: 11, fill: scene.theme.quiet });
  });
}

/** What the maps show besides colours: each a name and a function that draws a sample. */
function key(pen, { theme, panels, view }) {
  const gold = (x, y) =>
    pen.rect(x + 1, y, 13, 13, { fill: css(colourOf(theme, 0)), stroke: theme.gold, line: 2 });
  const masked = (x, y) => {
    pen.rect(x, y, 14, 14, { fill: theme.hatch[0] });
    for (const at of [0, 5, 10])
      pen.path(
        [
          [x, y + at + 4],
          [x + at + 4, y],
        ],
        { stroke: theme.hatch[1] },
      );
    for (const at of [5, 10])
      pen.path(
        [
          [x + at, y + 14],
          [x + 14, y + at],
        ],
        { stroke: theme.hatch[1] },
      );
    pen.rect(x + 0.5, y + 0.5, 13, 13, { stroke: theme.line });
  };
  const entries = [];
  if (view === "map" && panels.some(({ record }) => record.masked))
    entries.push(["masked", masked]);
  if (view !== "lines" && panels.some(({ record }) => record.gold.some((keys) => keys.length)))
    entries.push(["gold", gold]);
  return entries;
}

/** One bar: upright with its numbers on the right, or flat with its numbers below. */
function bar(pen, scene, { x, y, name, scale, diverging, height, flat = 0 }) {
  const { theme } = scene;
  const length = flat || height;
  const [wide, high] = flat ? [length, FLAT.height] : [WIDTH, length];
  pen.text(scale.root ? `${name} (√)` : name, x, y - 14, { size: 11, fill: theme.quiet });
  const colour =
    scene.view === "picture"
      ? (part) => barColour(theme, part, diverging)
      : (part) => css(colourOf(theme, part, diverging));
  const steps = 95;
  for (let at = 0; at < steps; at += 1) {
    const along = flat ? at / (steps - 1) : 1 - at / (steps - 1);
    const [start, size] = [(at * length) / steps, length / steps + (at < steps - 1 ? 0.6 : 0)];
    const fill = colour(diverging ? 2 * along - 1 : along);
    if (flat) pen.rect(x + start, y, size, high, { fill });
    else pen.rect(x, y + start, wide, size, { fill });
  }
  pen.rect(x - 0.5, y - 0.5, wide + 1, high + 1, { stroke: theme.line });
  const parts = diverging ? [-1, -0.5, 0, 0.5, 1] : PARTS[scale.root ? "root" : "linear"];
  let end = -Infinity; // of the last number below a flat bar
  for (const share of parts) {
    const weight = share * scale.maximum;
    const part = partOf(weight, scale);
    const along = length * (diverging ? (1 + part) / 2 : part);
    const from = flat ? [x + along, y + high] : [x + wide, y + length - along];
    const to = flat ? [from[0], from[1] + 4] : [from[0] + 4, from[1]];
    pen.path([from, to], { stroke: theme.line });
    const text = `${diverging && weight > 0 ? "+" : ""}${short(weight).replace("-", "−")}`;
    const style = { size: 10.5, fill: theme.quiet };
    const half = widthOf(text, style.size) / 2;
    if (flat && to[0] - half < end + FLAT.between) continue;
    end = to[0] + half;
    if (flat) pen.text(text, to[0], to[1] + 7, { ...style, align: "center" });
    else pen.text(text, to[0] + 4, to[1], style);
  }
}
