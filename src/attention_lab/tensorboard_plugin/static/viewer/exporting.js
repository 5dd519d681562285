/** Export the current view as a file. */

import { colourOf, css, partOf } from "./colours.js";
import { arrange, drawCursor, drawFigure } from "./figure.js";
import { fitted } from "./labels.js";
import { CanvasPen, SvgPen, widthOf } from "./pen.js";
import { MASKED } from "./record.js";

const MARGIN = 18;
const [TITLE, TEXT] = [34, 20]; // pixels of the title, and of the line below it
const RATIO = 2;
const MOST_CELLS = 10000; // of a map drawn as vectors; a larger map is an image, as its file would be large and slow
const STRIPES = 6; // pixels from one stripe of a masked cell to the next

/** A pen whose strokes are shifted by a margin and a heading. */
function moved(pen, right, down) {
  const shift =
    (method) =>
    (x, y, ...others) =>
      method.call(pen, x + right, y + down, ...others);
  return {
    ratio: pen.ratio,
    rect: shift(pen.rect),
    circle: shift(pen.circle),
    text: (text, x, y, style) => pen.text(text, x + right, y + down, style),
    image: (canvas, x, y, ...others) => pen.image(canvas, x + right, y + down, ...others),
    path: (points, style) =>
      pen.path(
        points.map((point) => point.map((value, at) => value + (at % 2 ? down : right))),
        style,
      ),
  };
}

/** The pixels from the top of a picture to its maps. */
const topOf = ({ text }) => MARGIN + TITLE + (text ? TEXT : 0);

/** @param {{title: string, text: string}} heading two lines above the maps; the second may be empty */
function compose(scene, cursor, { title, text }, width, makePen) {
  const layout = arrange(scene, width, scene.height);
  const [wide, high] = [Math.ceil(layout.width + 2 * MARGIN), layout.height + topOf({ text }) + MARGIN];
  const pen = makePen(wide, high);
  pen.rect(0, 0, wide, high, { fill: scene.theme.paper });
  const line = (label, y, style) => {
    const shown = fitted((one) => widthOf(one, style.size, style.weight), label, wide - 2 * MARGIN);
    pen.text(shown, MARGIN, y, style);
  };
  line(title, MARGIN + 8, { size: 14, weight: 600, fill: scene.theme.ink });
  if (text) line(text, MARGIN + 8 + TEXT, { size: 12, fill: scene.theme.quiet });
  const inside = moved(pen, MARGIN, topOf({ text }));
  drawFigure(inside, scene, layout);
  drawCursor(inside, scene, layout, cursor);
  return pen;
}

/** @returns {HTMLCanvasElement} the view at twice its size on the screen */
export function toCanvas(scene, cursor, heading, width) {
  const canvas = document.createElement("canvas");
  compose(scene, cursor, heading, width, (wide, high) => {
    [canvas.width, canvas.height] = [wide * RATIO, high * RATIO];
    return new CanvasPen(canvas.getContext("2d"), RATIO);
  });
  return canvas;
}

/** @returns {string} the view as SVG; cells are vectors unless the map is too large */
export function toSvg(scene, cursor, heading, width) {
  const maps = scene.view === "map" ? [...arrange(scene, width, scene.height).parts] : [];
  return compose(scene, cursor, heading, width, (wide, high) => {
    const pen = new SvgPen(wide, high);
    const image = pen.image.bind(pen);
    pen.image = (canvas, x, y, ...size) => {
      // The image at the position of a map is that map.
      const at = maps.findIndex((part) => near(part.x + MARGIN, x) && near(part.y + topOf(heading), y));
      const [part] = at < 0 ? [] : maps.splice(at, 1);
      if (!part || !drawCells(pen, scene, part, x, y)) image(canvas, x, y, ...size);
    };
    return pen;
  }).toString();
}

const near = (one, other) => Math.abs(one - other) < 0.5;

/** Draw the cells of a map one by one; returns whether they are few enough for that. */
function drawCells(pen, scene, { panel, grid, part }, left, top) {
  const { record, head } = panel;
  const columns = Math.ceil((part.columns[1] - part.columns[0]) / grid.across);
  const rows = Math.ceil((part.rows[1] - part.rows[0]) / grid.down);
  if (rows * columns > MOST_CELLS) return false;
  const cells = record.window(head, part, grid.down, grid.across, part.mean);
  const scale = panel.difference ? scene.difference : scene.scale;
  const { theme } = scene;
  const { diverging } = record.kind;
  const colour = (stored) => css(colourOf(theme, partOf(record.kind.value(stored), scale), diverging));
  const nothing = css(colourOf(theme, 0, diverging));
  pen.rect(left, top, grid.width, grid.height, { fill: nothing });
  const [wide, high] = [grid.cellWidth, grid.cellHeight];
  const line = Math.min(wide, high) >= 12 ? theme.faint : null;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const stored = cells[row * columns + column];
      const [x, y] = [left + column * wide, top + row * high];
      if (stored === MASKED) hatch(pen, theme, x, y, wide, high);
      else {
        const fill = colour(stored);
        // An outline in the cell's own colour closes the gap that viewers show between two cells.
        if (fill !== nothing) pen.rect(x, y, wide, high, { fill, stroke: line ? "none" : fill, line: 0.2 });
      }
    }
  }
  for (let row = 1; line && row < rows; row += 1)
    pen.path([[left, top + row * high], [left + grid.width, top + row * high]], { stroke: line }); // prettier-ignore
  for (let column = 1; line && column < columns; column += 1)
    pen.path([[left + column * wide, top], [left + column * wide, top + grid.height]], { stroke: line }); // prettier-ignore
  return true;
}

/** Hatch a masked cell with diagonals that continue from one cell to the next. */
function hatch(pen, theme, x, y, wide, high) {
  const [ground, stripe] = theme.hatch;
  pen.rect(x, y, wide, high, { fill: ground, stroke: ground, line: 0.2 });
  const first = Math.ceil((x + y) / STRIPES) * STRIPES;
  for (let sum = first; sum < x + y + wide + high; sum += STRIPES) {
    const start = Math.max(x, sum - (y + high)); // where x + y is `sum`
    const end = Math.min(x + wide, sum - y);
    if (end > start) pen.path([[start, sum - start], [end, sum - end]], { stroke: stripe, line: 0.9 }); // prettier-ignore
  }
}

/** A file name that every file system accepts. */
export function fileName(parts, ending) {
  const name = parts
    .map((part) =>
      String(part)
        .replace(/[^\p{L}\p{N}]+/gu, "-")
        .replace(/^-+|-+$/g, ""),
    )
    .filter(Boolean)
    .join("_");
  return `${Array.from(name).slice(0, 80).join("") || "attention"}.${ending}`;
}

/** Download a file with the browser. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  [anchor.href, anchor.download] = [address, name];
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
