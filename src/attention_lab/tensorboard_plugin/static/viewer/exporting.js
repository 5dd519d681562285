/** The current view as a file. */

import { arrange, drawCursor, drawFigure } from "./figure.js";
import { fitted } from "./labels.js";
import { CanvasPen, SvgPen, widthOf } from "./pen.js";

const MARGIN = 18;
const HEADING = 34;
const RATIO = 2;

/** A pen that draws moved by a margin and a heading. */
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

function compose(scene, cursor, title, width, makePen) {
  const layout = arrange(scene, width, scene.height);
  const [wide, high] = [Math.ceil(layout.width + 2 * MARGIN), layout.height + HEADING + 2 * MARGIN];
  const pen = makePen(wide, high);
  pen.rect(0, 0, wide, high, { fill: scene.theme.paper });
  const heading = fitted((text) => widthOf(text, 14, 600), title, wide - 2 * MARGIN);
  pen.text(heading, MARGIN, MARGIN + 8, { size: 14, weight: 600, fill: scene.theme.ink });
  const inside = moved(pen, MARGIN, MARGIN + HEADING);
  drawFigure(inside, scene, layout);
  drawCursor(inside, scene, layout, cursor);
  return pen;
}

/** @returns {HTMLCanvasElement} the view at twice the size of the screen */
export function toCanvas(scene, cursor, title, width) {
  const canvas = document.createElement("canvas");
  compose(scene, cursor, title, width, (wide, high) => {
    [canvas.width, canvas.height] = [wide * RATIO, high * RATIO];
    return new CanvasPen(canvas.getContext("2d"), RATIO);
  });
  return canvas;
}

/** @returns {string} the view as SVG */
export function toSvg(scene, cursor, title, width) {
  return compose(scene, cursor, title, width, (wide, high) => new SvgPen(wide, high)).toString();
}

/** A name that every file system takes. */
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

/** Hand a file to the browser's downloads. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  [anchor.href, anchor.download] = [address, name];
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
