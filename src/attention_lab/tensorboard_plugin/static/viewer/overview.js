/** All heads of all modules of an example, each as a small map that can be chosen. */

import { make } from "./dom.js";
import { short, visible } from "./labels.js";
import { miniature, paint } from "./paint.js";

const MOST_ACROSS = 8; // most maps in a row
const [SMALLEST, LARGEST] = [32, 104]; // pixels of a side of a map
const APART = 6; // pixels from one map to the next
const STRIP = 160; // pixels of the narrowest list: a single map and its description
const [SHARE, WIDEST] = [0.28, 380]; // maximum width of the list: share of the page's width, and pixels
const NARROW = 820; // on a narrower page, in pixels, the list is above the figure
const PADDING = 50; // pixels beside the maps, including a scroll bar
const [HEADING, CAPTION] = [38, 24]; // pixels of a layer's name, and of the text below a map

export class Overview {
  /** @param {function(string, number): void} choose called with the module and the head */
  constructor(choose) {
    this.element = make("div.al-overview");
    this.choose = choose;
    this.shape = "";
    this.tiles = [];
  }

  /**
   * @param {object} scene colours and scales
   * @param {{module: string, record: object|null, problem: string}[]} modules
   * @param {{module: string, head: number, order: string}} state
   */
  update(scene, modules, state) {
    const shape = JSON.stringify([
      state.order,
      modules.map(({ module, record }) => [module, record?.heads ?? 0]),
    ]);
    const heads = modules.flatMap(({ module, record }) =>
      record ? Array.from({ length: record.heads }, (_, head) => ({ module, head, record })) : [],
    );
    if (state.order === "entropy")
      heads.sort((a, b) => a.record.measure(a.head).entropy - b.record.measure(b.head).entropy);
    if (shape !== this.shape || state.order === "entropy") this.#build(heads, modules, state.order);
    this.shape = shape;
    const { size, width } = sizeFor(modules, scene);
    const body = this.element.closest(".al-body");
    body?.style.setProperty("--al-heads", `${width}px`);
    body?.toggleAttribute("data-single", heads.length === 1 && modules.length === 1);
    this.tiles.forEach((tile, at) => this.#paint(tile, heads[at], scene, size));
    this.select(state);
  }

  /** Mark the map of the chosen head. */
  select({ module, head }) {
    for (const tile of this.tiles) {
      const chosen = tile.module === module && tile.head === head;
      tile.button.setAttribute("aria-pressed", String(chosen));
    }
  }

  #build(heads, modules, order) {
    this.tiles = heads.map(({ module, head }) => {
      const [canvas, facts] = [make("canvas"), make("span.al-facts")];
      const name = make("span.al-name", { textContent: order === "entropy" ? "" : String(head + 1) });
      const button = make(
        "button.al-tile",
        { type: "button", onclick: () => this.choose(module, head), "data-head": String(head) },
        canvas,
        make("span.al-tile-text", {}, name, facts),
      );
      return { module, head, canvas, facts, button, painted: null, number: order === "entropy" ? null : name };
    });
    const rows =
      order === "entropy"
        ? [make("div.al-tiles", {}, ...this.tiles.map(({ button }) => button))]
        : modules.map((one) =>
            make(
              "section.al-module",
              {},
              make("h3", { textContent: visible(one.module || "attention", 80), title: visible(one.module) }),
              one.record
                ? make(
                    "div.al-tiles",
                    {},
                    ...this.tiles.filter(({ module }) => module === one.module).map(({ button }) => button),
                  )
                : make("p.al-note", { textContent: one.problem || "…" }),
            ),
          );
    this.element.replaceChildren(...rows);
  }

  #paint(tile, { module, head, record }, scene, size) {
    if (tile.number) tile.number.textContent = String(record.headNumber(head));
    const scale = record.kind.diverging ? scene.difference : scene.scale;
    const key = [scene.theme.dark, scale.root, scale.maximum, size, scene.ratio].join();
    if (tile.painted?.record === record && tile.painted.key === key) return;
    tile.painted = { record, key };
    const grid = miniature(record.queries, record.keys, size, (least) => record.step(least));
    const map = paint(record, head, grid, scene.theme, scale, scene.ratio);
    [tile.canvas.width, tile.canvas.height] = [map.width, map.height];
    tile.canvas.getContext("2d").drawImage(map, 0, 0);
    tile.canvas.style.width = `${grid.width}px`;
    tile.canvas.style.height = `${grid.height}px`;
    const { entropy, largest } = record.measure(head);
    tile.facts.textContent = Number.isNaN(entropy) ? short(largest) : entropy.toFixed(2);
    const what = Number.isNaN(entropy)
      ? `largest change ${short(largest)}`
      : `entropy ${entropy.toFixed(3)} nats, max ${short(largest)}`;
    tile.button.title = `${visible(module || "attention", 80)}, head ${record.headNumber(head)}: ${what}`;
    tile.button.setAttribute("aria-label", tile.button.title);
  }
}

/**
 * Pixels of a side of the maps, and of the list's width: the largest maps with which all layers are visible at once,
 * or else those with which the heads of a layer take the fewest rows.
 * @param {{room: number, tall: number}} page pixels of its width, and of the list's height
 */
function sizeFor(modules, { room: page, tall }) {
  const heads = Math.max(1, ...modules.map(({ record }) => record?.heads ?? 1));
  const narrow = page <= NARROW;
  const room = (narrow ? page : Math.min(WIDEST, Math.max(STRIP, page * SHARE))) - PADDING;
  const fewest = Math.ceil(heads / Math.min(MOST_ACROSS, Math.max(1, Math.floor(room / (SMALLEST + APART)))));
  const inRows = (rows) => {
    const across = Math.ceil(heads / rows);
    const size = Math.max(SMALLEST, Math.min(narrow ? LARGEST / 2 : LARGEST, Math.floor(room / across) - APART));
    const height = modules.length * (HEADING + Math.ceil(heads / across) * (size + CAPTION));
    return { size, height, width: Math.max(STRIP, Math.ceil(across * (size + APART)) + PADDING) };
  };
  let best = inRows(fewest);
  for (let rows = fewest + 1; !narrow && rows <= heads; rows += 1) {
    const more = inRows(rows);
    if (more.height <= tall && more.size > best.size) best = more;
  }
  return best;
}
