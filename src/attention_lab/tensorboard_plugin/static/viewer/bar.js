/** The colour bar, and the key to hatching and outlines. */

import { colourOf, css, partOf } from "./colours.js";
import { short } from "./labels.js";
import { barColour } from "./picture.js";

const HEIGHT = 190;
const WIDTH = 14;
const APART = 38; // from one bar to the next
const PARTS = { linear: [0, 0.25, 0.5, 0.75, 1], root: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1] };

/** Pixels that bars and key take on the right. */
export const ROOM = 92;

/** The bars of a scene: for weights, for differences; a curve has none, as its heights are the weights. */
function barsOf({ panels, view, scale, difference }) {
  if (view === "curve") return [];
  const bars = [];
  if (panels.some((panel) => !panel.difference))
    bars.push({ name: "weight", scale, diverging: false, height: HEIGHT });
  if (panels.some((panel) => panel.difference))
    bars.push({ name: "B − A", scale: difference, diverging: true, height: HEIGHT * 0.8 });
  return bars;
}

/** Pixels down to the end of bars and key. */
export function barsHeight(scene, y) {
  return barsOf(scene).reduce((sum, { height }) => sum + height + APART, y) + 22 * key(null, scene).length;
}

/** Draw the bars, then the key. */
export function drawBars(pen, scene, x, y) {
  let top = y;
  for (const one of barsOf(scene)) {
    bar(pen, scene, { x, y: top, ...one });
    top += one.height + APART;
  }
  for (const [name, swatch] of key(pen, scene)) {
    swatch(x, top);
    pen.text(name, x + 22, top + 7, { size: 11, fill: scene.theme.quiet });
    top += 22;
  }
}

/** What besides colours the maps show: a name and a function that draws a sample. */
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

function bar(pen, scene, { x, y, name, scale, diverging, height }) {
  const { theme } = scene;
  pen.text(scale.root ? `${name} (√)` : name, x, y - 14, { size: 11, fill: theme.quiet });
  const colour =
    scene.view === "picture"
      ? (part) => barColour(theme, part, diverging)
      : (part) => css(colourOf(theme, part, diverging));
  const steps = 95;
  for (let at = 0; at < steps; at += 1) {
    const part = diverging ? 1 - (2 * at) / (steps - 1) : 1 - at / (steps - 1);
    pen.rect(x, y + (at * height) / steps, WIDTH, height / steps + 0.6, { fill: colour(part) });
  }
  pen.rect(x - 0.5, y - 0.5, WIDTH + 1, height + 1, { stroke: theme.line });
  const parts = diverging ? [-1, -0.5, 0, 0.5, 1] : PARTS[scale.root ? "root" : "linear"];
  for (const share of parts) {
    const weight = share * scale.maximum;
    const along = partOf(weight, scale);
    const level = y + height * (diverging ? (1 - along) / 2 : 1 - along);
    pen.path(
      [
        [x + WIDTH, level],
        [x + WIDTH + 4, level],
      ],
      { stroke: theme.line },
    );
    pen.text(
      `${diverging && weight > 0 ? "+" : ""}${short(weight).replace("-", "−")}`,
      x + WIDTH + 8,
      level,
      { size: 10.5, fill: theme.quiet },
    );
  }
}
