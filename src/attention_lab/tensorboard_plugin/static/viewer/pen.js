/** Two pens with the same methods: one draws on a canvas, the other writes SVG. So an export looks like the view. */

import { visible } from "./labels.js";

const FONT =
  '"Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const SVG = "http://www.w3.org/2000/svg";

const MOST = 5000; // most widths that are kept
const widths = new Map(); // widths of texts by font, since the same labels are measured at every move
let ruler = null;

/** Width of a text in pixels. */
export function widthOf(text, size = 12, weight = 400) {
  const font = `${weight} ${size}px ${FONT}`;
  if (!widths.has(font)) widths.set(font, new Map());
  const known = widths.get(font);
  if (!known.has(text)) {
    if (known.size >= MOST) known.clear();
    ruler ??= document.createElement("canvas").getContext("2d");
    ruler.font = font;
    known.set(text, ruler.measureText(text).width);
  }
  return known.get(text);
}

/** Draws on the 2D context of a canvas. */
export class CanvasPen {
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} ratio device pixels per pixel
   */
  constructor(context, ratio) {
    this.context = context;
    this.ratio = ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.direction = "ltr";
  }

  rect(x, y, width, height, { fill, stroke, line = 1, radius = 0 }) {
    const { context } = this;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    this.#ink({ fill, stroke, line });
  }

  /** A line through points [[x, y], ...], or curves: each point after the first [x1, y1, x2, y2, x, y]. */
  path(points, { fill, stroke, line = 1, alpha = 1 }) {
    const { context } = this;
    context.beginPath();
    context.moveTo(...points[0]);
    for (const point of points.slice(1)) {
      if (point.length === 6) context.bezierCurveTo(...point);
      else context.lineTo(...point);
    }
    context.globalAlpha = alpha;
    this.#ink({ fill, stroke, line });
    context.globalAlpha = 1;
  }

  circle(x, y, radius, { fill, stroke, line = 1 }) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.#ink({ fill, stroke, line });
  }

  text(text, x, y, { size = 12, weight = 400, fill, align = "left", turn = 0 }) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillStyle = fill;
    context.fillText(text, 0, 0);
    context.restore();
  }

  image(canvas, x, y, width, height, smooth = false) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(canvas, x, y, width, height);
  }

  #ink({ fill, stroke, line }) {
    if (fill) {
      this.context.fillStyle = fill;
      this.context.fill();
    }
    if (stroke) {
      this.context.strokeStyle = stroke;
      this.context.lineWidth = line;
      this.context.stroke();
    }
  }
}

/** Writes an SVG element; all text becomes text nodes, so no label can be markup. */
export class SvgPen {
  constructor(width, height) {
    this.ratio = 2;
    this.root = document.createElementNS(SVG, "svg");
    this.#set(this.root, { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT });
  }

  rect(x, y, width, height, { fill = "none", stroke = "none", line = 1, radius = 0 }) {
    this.#add("rect", { x, y, width, height, fill, stroke, "stroke-width": line, rx: radius });
  }

  path(points, { fill = "none", stroke = "none", line = 1, alpha = 1 }) {
    const [first, ...others] = points;
    const d = [
      `M${first.map(round)}`,
      ...others.map((point) => `${point.length === 6 ? "C" : "L"}${point.map(round)}`),
    ];
    this.#add("path", { d: d.join(""), fill, stroke, "stroke-width": line, opacity: alpha });
  }

  circle(x, y, radius, { fill = "none", stroke = "none", line = 1 }) {
    this.#add("circle", { cx: x, cy: y, r: radius, fill, stroke, "stroke-width": line });
  }

  text(text, x, y, { size = 12, weight = 400, fill, align = "left", turn = 0 }) {
    const element = this.#add("text", {
      "font-size": size,
      "font-weight": weight,
      fill,
      "dominant-baseline": "central",
      "text-anchor": { left: "start", center: "middle", right: "end" }[align],
      transform: `translate(${round(x)} ${round(y)})${turn ? ` rotate(${turn})` : ""}`,
    });
    element.textContent = visible(text); // XML does not allow control characters
  }

  image(canvas, x, y, width, height, smooth = false) {
    const rendering = smooth ? "auto" : "pixelated";
    this.#add("image", {
      x,
      y,
      width,
      height,
      href: canvas.toDataURL("image/png"),
      "image-rendering": rendering,
    });
  }

  /** @returns {string} the file's text */
  toString() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.root)}\n`;
  }

  #add(name, attributes) {
    const element = document.createElementNS(SVG, name);
    this.#set(element, attributes);
    this.root.append(element);
    return element;
  }

  #set(element, attributes) {
    for (const [name, value] of Object.entries(attributes))
      element.setAttribute(name, typeof value === "number" ? round(value) : value);
  }
}

const round = (value) => Math.round(value * 100) / 100;
