/** The large figure: the panels side by side with their colour bar, and a cursor over all of them. */

import { ROOM, barsHeight, drawBars, flatHeight } from "./bar.js";
import * as curve from "./curve.js";
import { make } from "./dom.js";
import * as lines from "./lines.js";
import * as map from "./map.js";
import { CanvasPen } from "./pen.js";
import * as picture from "./picture.js";

const VIEWS = { map, lines, picture, curve };
const SPOKEN = {
  map: "attention map",
  lines: "attention as lines",
  picture: "attention over the image",
  curve: "attention as a curve",
};
const GAP = 26;
const LEAST = 190; // least width in pixels of a panel beside another one
const ROOMY = 260; // least width in pixels of a panel beside two others
const EDGE = 3; // pixels on the left, so that no frame is cut off
const BARS = 46; // pixels from the top to the first colour bar
const LEISURE = 8; // milliseconds, enough to compute most maps
const NARROWEST = 240; // pixels; where there are fewer, the figure scrolls
const NARROW = 480; // in a narrower figure, in pixels, the colour bar is below the panels
const [INDENT, BELOW] = [12, 40]; // pixels of that bar from the left, and from the panels

/**
 * Lay out the panels of a scene.
 * @param {object} scene what is shown: panels, view, theme, scales
 * @param {number} width pixels
 * @param {number} height target height in pixels
 */
export function arrange(scene, width, height) {
  const count = scene.panels.length;
  const narrow = width < NARROW;
  const shareOf = (columns) => (width - EDGE - (narrow ? GAP * (columns - 1) : ROOM + GAP * columns)) / columns;
  let columns = count;
  while (columns > 1 && shareOf(columns) < (columns > 2 ? ROOMY : LEAST)) columns -= 1;
  const share = shareOf(columns);
  const parts = [];
  let [top, bottom] = [0, 0]; // edges of the current row of panels
  scene.panels.forEach((panel, number) => {
    if (number > 0 && number % columns === 0) top = bottom + GAP;
    const x = EDGE + (number % columns) * (share + GAP);
    const part = VIEWS[scene.view].arrange(scene, panel, { x, y: top, width: share, height });
    parts.push(part);
    bottom = Math.max(bottom, top + part.height);
  });
  if (narrow) {
    const bars = { x: EDGE + INDENT, y: bottom + BELOW, flat: width - 2 * (EDGE + INDENT) };
    return { parts, bars, width, height: Math.ceil(bars.y + flatHeight(scene)) };
  }
  const needed = Math.max(parts[0].width, parts[0].captionWidth ?? 0);
  const taken = count === 1 ? Math.min(share, needed) : columns * (share + GAP) - GAP;
  const bars = { x: EDGE + taken + GAP, y: BARS, flat: 0 };
  return {
    parts,
    bars,
    width: bars.x + ROOM,
    height: Math.ceil(Math.max(barsHeight(scene, BARS), bottom)),
  };
}

/** Draw the entire figure with either pen. */
export function drawFigure(pen, scene, layout) {
  for (const part of layout.parts) VIEWS[scene.view].draw(pen, scene, part);
  drawBars(pen, scene, layout.bars);
}

/** Draw the cursor with either pen. */
export function drawCursor(pen, scene, layout, cursor) {
  for (const part of layout.parts) VIEWS[scene.view].mark(pen, scene, part, cursor);
}

function clear(context) {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
}

/** The figure on the page. */
export class Figure {
  /**
   * @param {function(object|null): void} hover called with the cell under the pointer, or null
   * @param {function(object): void} press called with the cell that was pressed
   * @param {{zoom: function(number, object), pan: function(number, number)}} move called to show another part
   */
  constructor(hover, press, move) {
    this.base = make("canvas.al-base");
    // Screen readers keep arrow keys for themselves except in an application; the readout says what the keys choose.
    this.over = make("canvas.al-over", {
      tabIndex: 0,
      role: "application",
      "aria-description": "Up and Down choose a query, Shift with Left or Right a key; ? lists all keys",
    });
    this.element = make("div.al-figure", {}, this.base, this.over);
    this.scene = null;
    this.move = move;
    this.drag = null;
    this.width = 0; // width of the element when it was drawn
    const find = (event) => this.#find(event);
    let asked = 0;
    this.over.addEventListener("pointermove", (event) => {
      if (this.#dragged(event)) return;
      const found = find(event);
      if (!this.#isLong()) return hover(found);
      cancelAnimationFrame(asked); // once per frame: a row of thousands takes milliseconds
      asked = requestAnimationFrame(() => hover(found));
      return undefined;
    });
    this.over.addEventListener("pointerleave", () => {
      cancelAnimationFrame(asked);
      hover(null);
    });
    this.over.addEventListener("click", (event) => {
      if (this.moved) return;
      const found = find(event);
      if (found) press(found);
    });
    this.over.addEventListener("pointerdown", (event) => {
      this.moved = false;
      const part = this.layout?.parts.find((one) => one.grid);
      if (part && this.#isPart() && event.button === 0)
        this.drag = { x: event.clientX, y: event.clientY, part, id: event.pointerId };
    });
    for (const end of ["pointerup", "pointercancel"])
      this.over.addEventListener(end, () => {
        this.drag = null;
      });
    this.over.addEventListener("dblclick", (event) => {
      const found = find(event);
      if (found && this.#isLong()) move.zoom(event.shiftKey ? 4 : 0.25, found);
    });
    this.over.addEventListener(
      "wheel",
      (event) => {
        const found = this.scene?.view === "map" && (this.#isPart() || this.#isLong()) && find(event);
        if (!found) return;
        event.preventDefault();
        move.zoom(Math.min(4, Math.max(0.25, 1.0025 ** event.deltaY)), found);
      },
      { passive: false },
    );
  }

  /** Whether the input is long enough to zoom and move. */
  #isLong() {
    return Boolean(this.scene?.panels.some(({ record }) => record.isLong));
  }

  #isPart() {
    if (!this.scene) return false;
    const { rows, columns } = this.scene.part;
    const { queries, keys } = this.scene.size;
    return rows[1] - rows[0] < queries || columns[1] - columns[0] < keys;
  }

  /** Move the visible part by dragging. */
  #dragged(event) {
    if (!this.drag) return false;
    const { grid } = this.drag.part;
    const down = Math.round((this.drag.y - event.clientY) / grid.cellHeight);
    const across = Math.round((this.drag.x - event.clientX) / grid.cellWidth);
    if (!down && !across) return this.moved;
    if (!this.moved) this.over.setPointerCapture(this.drag.id);
    this.moved = true;
    this.drag.y -= down * grid.cellHeight; // the rest of a cell counts in the next move
    this.drag.x -= across * grid.cellWidth;
    this.move.pan(down * grid.down, across * grid.across);
    return true;
  }

  /** Draw the scene and its cursor. */
  draw(scene, cursor) {
    this.width = this.element.clientWidth;
    this.layout = arrange(scene, Math.max(NARROWEST, this.width), scene.height);
    this.scene = scene;
    this.over.ariaRoleDescription = SPOKEN[scene.view];
    this.over.ariaLabel = scene.panels.map(({ title }) => title).join("; ");
    const size = [this.layout.width, this.layout.height].map((side) => Math.round(side * scene.ratio));
    for (const canvas of [this.base, this.over]) {
      if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
      canvas.style.width = `${this.layout.width}px`;
      canvas.style.height = `${this.layout.height}px`;
    }
    const context = this.base.getContext("2d");
    clear(context);
    drawFigure(new CanvasPen(context, scene.ratio), scene, this.layout);
    this.mark(cursor);
  }

  /** Compute the maps of the next and the previous head while nothing else needs to be done. */
  prepare() {
    const part = this.layout?.parts[0];
    if (!part?.grid) return;
    const { panel, grid } = part;
    const { record, head } = panel;
    const others = [1, record.heads - 1].map((by) => (head + by) % record.heads);
    const next = (deadline) => {
      if (this.layout?.parts[0] !== part || !others.length) return;
      if (deadline.timeRemaining() > LEISURE)
        record.window(others.shift(), part.part, grid.down, grid.across, part.part.mean);
      requestIdleCallback(next);
    };
    window.requestIdleCallback?.(next);
  }

  /** Draw only the cursor. */
  mark(cursor) {
    if (!this.scene) return;
    this.cursor = cursor;
    const context = this.over.getContext("2d");
    clear(context);
    drawCursor(new CanvasPen(context, this.scene.ratio), this.scene, this.layout, cursor);
  }

  #find(event) {
    if (!this.scene) return null;
    const { left, top } = this.over.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const within = this.layout.parts.map((part) => VIEWS[this.scene.view].point(part, x, y, this.cursor));
    return within.find(Boolean) ?? null;
  }
}
