/** All heads of all modules of an example, each as a small map that can be chosen. */

import { make } from "./dom.js";
import { short, visible } from "./labels.js";
import { allOf, miniature, paint } from "./paint.js";

const MOST = 10000; // maps; more would take gigabytes
const FIRST = 400; // maps that are painted at once; those beyond, only once they come near the visible part
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
    this.made = new Map(); // all tiles by module and head
    this.records = new Map(); // the last record of each module
    this.chosen = ""; // the head that was brought into view last
    this.near = new IntersectionObserver((entries) => this.#see(entries), { root: this.element, rootMargin: "200px" });
  }

  /**
   * @param {object} scene colours and scales
   * @param {{module: string, record: object|null, problem: string, open: boolean}[]} modules until a record that is
   *   being fetched arrives, the module's previous one stays
   * @param {{module: string, head: number, order: string}} state
   */
  update(scene, all, state) {
    const modules = all.map((one) => (one.record || !one.open ? one : { ...one, record: this.records.get(one.module) }));
    this.records = new Map(modules.map(({ module, record }) => [module, record]));
    const every = modules.flatMap(({ module, record }) =>
      record ? Array.from({ length: record.heads }, (_, head) => ({ module, head, record })) : [],
    );
    if (state.order === "entropy") every.sort((a, b) => spreadOf(a) - spreadOf(b));
    const heads = every.slice(0, MOST);
    const notes = modules.map(({ module, record, problem }) => [module, record ? "" : problem]);
    const shape = JSON.stringify([state.order, notes, heads.map(({ module, head }) => [module, head])]);
    if (shape !== this.shape) this.#build(heads, modules, state.order, every.length - heads.length);
    this.shape = shape;
    const { size, width } = sizeFor(modules, scene);
    const body = this.element.closest(".al-body");
    body?.style.setProperty("--al-heads", `${width}px`);
    body?.toggleAttribute("data-single", heads.length === 1 && modules.length === 1);
    const numbered = state.order !== "entropy" || modules.length === 1; // a number says nothing among other modules'
    this.tiles.forEach((tile, at) => this.#show(tile, heads[at].record, scene, size, numbered));
    this.#select(state, all.some(({ open }) => open));
  }

  /**
   * Mark the map of the chosen head, and bring it into view once if it is another than before. The Tab key leads only to
   * this map, since there may be hundreds.
   */
  #select({ module, head }, loading) {
    const chosen = this.tiles.find((tile) => tile.module === module && tile.head === head);
    for (const { button } of this.tiles) {
      button.setAttribute("aria-pressed", String(button === chosen?.button));
      button.tabIndex = button === (chosen ?? this.tiles[0]).button ? 0 : -1;
    }
    const name = JSON.stringify([module, head]);
    if (!chosen || this.chosen === name) return;
    if (!loading) this.chosen = name; // until then, what is above it may still grow
    if (this.element.contains(document.activeElement)) chosen.button.focus({ preventScroll: true });
    const [frame, box] = [this.element, chosen.button].map((one) => one.getBoundingClientRect());
    if (box.top < frame.top) this.element.scrollTop += box.top - frame.top - HEADING;
    else if (box.bottom > frame.bottom) this.element.scrollTop += box.bottom - frame.bottom + CAPTION;
  }

  #make(module, head, seen) {
    const [canvas, name, facts] = [make("canvas"), make("span.al-name"), make("span.al-facts")];
    const button = make(
      "button.al-tile",
      { type: "button", onclick: () => this.choose(module, head), "data-head": String(head) },
      canvas,
      make("span.al-tile-text", {}, name, " ", facts),
    );
    return { module, head, canvas, name, facts, button, seen, wanted: null, painted: null };
  }

  /** Lay out the maps in another order; the one with the focus keeps it, and the list its place. */
  #build(heads, modules, order, left) {
    const { scrollTop } = this.element;
    const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
    const before = this.made;
    this.made = new Map();
    this.tiles = heads.map(({ module, head }, at) => {
      const key = JSON.stringify([module, head]);
      const tile = before.get(key) ?? this.#make(module, head, at < FIRST);
      if (!before.has(key)) this.near.observe(tile.button);
      this.made.set(key, tile);
      return tile;
    });
    for (const [key, { button }] of before) if (!this.made.has(key)) this.near.unobserve(button);
    const ofModule = Map.groupBy(this.tiles, ({ module }) => module);
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
                    ...(ofModule.get(one.module) ?? []).map(({ button }) => button),
                  )
                : make("p.al-note", { textContent: one.problem || "…" }),
            ),
          );
    this.element.replaceChildren(...rows);
    if (left) {
      const noun = left === 1 ? "head" : "heads";
      this.element.append(make("p.al-note", { textContent: `${left.toLocaleString("en")} more ${noun}` }));
    }
    if (scrollTop) this.element.scrollTop = scrollTop;
    focused?.focus({ preventScroll: true });
  }

  /** Describe a head, and paint its map if it is near the visible part of the list. */
  #show(tile, record, scene, size, numbered) {
    const { module, head, button } = tile;
    const number = record.headNumber(head);
    tile.name.textContent = numbered ? String(number) : "";
    button.style.minWidth = `${size + 4}px`;
    const { entropy, largest } = record.measure(head);
    tile.facts.textContent = Number.isNaN(entropy) ? short(largest) : entropy.toFixed(2);
    const what = Number.isNaN(entropy) ? ", the largest change" : ` nats of entropy, max ${short(largest)}`;
    // What is on the button, in the same order: people who control the page by voice say what they read.
    button.title = `${visible(module || "attention", 80)}, head ${number}: ${tile.facts.textContent}${what}`;
    button.setAttribute("aria-label", button.title);
    tile.wanted = { record, scene, size };
    if (tile.seen) this.#paint(tile);
  }

  /** Paint the maps that come near the visible part of the list. */
  #see(entries) {
    const seen = new Map(entries.map(({ target, isIntersecting }) => [target, isIntersecting]));
    for (const tile of this.tiles) {
      tile.seen = seen.get(tile.button) ?? tile.seen;
      if (tile.seen) this.#paint(tile);
    }
  }

  #paint(tile) {
    const { record, scene, size } = tile.wanted;
    const scale = record.kind.diverging ? scene.difference : scene.scale;
    const key = [scene.theme.dark, scale.root, scale.maximum, size, scene.ratio].join();
    if (tile.painted?.record === record && tile.painted.key === key) return;
    tile.painted = { record, key };
    const grid = miniature(record.queries, record.keys, size, (least) => record.step(least));
    paint(record, tile.head, grid, scene.theme, scale, scene.ratio, allOf(record), tile.canvas);
    tile.canvas.style.width = `${grid.width}px`;
    tile.canvas.style.height = `${grid.height}px`;
  }
}

/** The entropy of a head; a head without any weight, whose entropy is 0 too, is not focused, and comes last. */
function spreadOf({ record, head }) {
  const { entropy, largest } = record.measure(head);
  return largest ? entropy : Number.MAX_VALUE;
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
