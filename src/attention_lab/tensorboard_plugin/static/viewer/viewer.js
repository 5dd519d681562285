/** The viewer: combines state, records and parts of the page. It knows neither TensorBoard nor the report. */

import { actionsOf } from "./actions.js";
import { Catalogue, nearest } from "./catalogue.js";
import { Controls } from "./controls.js";
import { THEMES } from "./colours.js";
import { make } from "./dom.js";
import { fileName, save, toCanvas, toSvg } from "./exporting.js";
import { Figure } from "./figure.js";
import { headingOf } from "./heading.js";
import { helpDialog, listen } from "./keyboard.js";
import { visible } from "./labels.js";
import { Overview } from "./overview.js";
import { broughtIntoView, moved, partOf, zoomed } from "./part.js";
import { pageOf } from "./picture.js";
import { Player } from "./player.js";
import { Readout } from "./readout.js";
import { Shelf } from "./source.js";
import { buildScene } from "./scene.js";
import { fromLink, settle, toLink } from "./state.js";
import { TextView } from "./text.js";

/**
 * Show the attention of a source in an element.
 * @param {HTMLElement} root
 * @param {{tags: function(): Promise, record: function(string, string, number): Promise}} source
 * @param {{theme: object, link: object}} host
 *   theme: {dark(): boolean, watch(function): void, toggle?: function};
 *   link: {read(): string, write(string), address: null|function(string): string, watch?: function};
 *   title, above the viewer; plain, if there are no steps to go through; part, if the viewer is a part of a page, so that
 *   only keys pressed inside it are its own
 * @returns {Promise<{reload: function(): Promise<void>}>} once the first view is shown
 */
export async function createViewer(root, source, host) {
  const viewer = new Viewer(root, source, host);
  await viewer.reload();
  return viewer;
}

const LONG = 40; // with more queries, the map takes the window's height, leaving no room for the text below
const REST = 150; // milliseconds without a change before the view is written to the URL

/** The view, scale and range on screen: those chosen, or those that suit the scene. */
function chosen(scene, { view, scale, range }) {
  if (!scene) return { view, scale: scale || "linear", range: range || "fixed" };
  return { view: scene.view, scale: scene.scale.root ? "root" : "linear", range: scene.range };
}

class Viewer {
  constructor(root, source, host) {
    Object.assign(this, { root, source, host, shelf: new Shelf(source), catalogue: new Catalogue({}) });
    this.wanted = fromLink(host.link.read()); // as chosen, even if its runs are not in the log yet
    this.state = this.wanted; // as shown
    [this.hovered, this.turn, this.reloads, this.loaded] = [null, 0, 0, []];
    const steps = {
      atEnd: () => this.step === this.steps.at(-1),
      first: () => this.change({ step: this.steps[0] }),
      next: () => this.stepBy(1),
    };
    this.player = new Player(steps, () => this.#draw());
    const actions = actionsOf(this);
    this.controls = new Controls((parts) => this.change(parts), actions, host);
    this.overview = new Overview((module, head) => this.change({ module, head }));
    this.figure = new Figure(
      (cell) => this.#hover(cell),
      (cell) => this.#press(cell),
      {
        zoom: (factor, cell) => this.zoom(factor, cell),
        pan: (rows, columns) => this.change(moved(this.#part(), rows, columns)),
      },
    );
    this.readout = new Readout();
    this.text = new TextView((cell) => this.choose(cell));
    this.message = make("p.al-message", { hidden: true, role: "status" });
    this.help = helpDialog(host.plain ? ["stepBack", "stepOn", "play"] : [], host.link.address ? [] : ["link"]);
    this.page = make(
      "div.al-body",
      {},
      make("aside.al-heads", {}, this.controls.orderBar, this.overview.element),
      make(
        host.part ? "div.al-main" : "main.al-main",
        {},
        this.controls.tools,
        this.controls.long,
        this.readout.element,
        this.message,
        this.figure.element,
        this.text.element,
      ),
    );
    root.classList.add("al-viewer");
    root.toggleAttribute("data-framed", window !== window.parent); // for the style sheet
    root.replaceChildren(this.controls.top, this.page, this.help.element);
    if (host.part) root.tabIndex = -1; // a press anywhere inside gives it the keys
    listen(host.part ? root : root.ownerDocument, actions);
    host.theme.watch(() => this.#draw());
    const { element } = this.figure;
    new ResizeObserver(() => element.clientWidth !== this.figure.width && this.#draw()).observe(element);
    host.link.watch?.(() => {
      clearTimeout(this.linking);
      this.wanted = fromLink(host.link.read());
      this.#show();
    });
  }

  /** Load the list of series again; the screen does not change until the answer arrives. */
  async reload() {
    this.reloads += 1;
    const { reloads } = this;
    const answer = await this.source.tags().catch((error) => ({ error }));
    if (reloads !== this.reloads) return; // a later answer is newer
    if (answer.error) {
      this.#tell(`The log cannot be read: ${answer.error.message}`);
      return;
    }
    this.catalogue = new Catalogue(answer.runs);
    await this.#show();
  }

  /** Change parts of the state and show the result; resolves when everything is on screen. */
  async change(parts) {
    this.wanted = { ...this.state, ...parts };
    await this.#show();
  }

  /** The chosen runs that are not in the log, because it is still being read, or because they were deleted. */
  get missing() {
    const runs = this.catalogue.runs();
    return [this.wanted.run, this.wanted.other].filter((run) => run && !runs.includes(run));
  }

  async #show() {
    this.state = settle(this.wanted, this.catalogue);
    if (!this.state.run) {
      this.#clear();
      this.#tell(
        "No attention has been logged here yet. Training logs it by itself; in other programs, call attention_lab.tensorboard_plugin.add_attention.",
      );
      return;
    }
    this.#link();
    await this.#load();
  }

  /** All steps of the example. */
  get steps() {
    return this.catalogue.steps(this.state.run, this.state.example);
  }

  /** The step shown. */
  get step() {
    const { steps } = this;
    return this.state.step === null ? steps.at(-1) : steps[nearest(steps, this.state.step)];
  }

  /** Write what was chosen to the URL once it has stopped changing, since browsers limit the rate of such changes. */
  #link() {
    clearTimeout(this.linking);
    this.linking = setTimeout(() => this.host.link.write(toLink(this.wanted)), REST);
  }

  async #load() {
    this.turn += 1;
    const { turn, state, step, catalogue } = this;
    this.root.dataset.state = "loading";
    const ask = (run, module) => {
      const place = run && catalogue.nearest(run, state.example, module, step);
      if (place) return this.shelf.slot(place);
      const named = module && ` named ${visible(module, 80)}`;
      const lacks = () => `no attention${named} on ${visible(state.example, 80)}`;
      return { record: null, problem: run ? lacks() : "", place: null };
    };
    const modules = catalogue.modules(state.run, state.example);
    const first = modules.includes(state.module) ? state.module : modules[0];
    const slots = new Map(
      [first, ...modules.filter((module) => module !== first)].map((module) => [
        module,
        { module, a: ask(state.run, module), b: ask(state.other, module) },
      ]),
    );
    const needed = [...slots.values()].flatMap(({ a, b }) => [a, b]).filter(({ place }) => place);
    this.shelf.only(needed.map(({ place }) => place));
    this.shelf.limit(needed, () => turn === this.turn);
    const ready = [slots.get(first).a.done, slots.get(first).b.done];
    await Promise.all(ready);
    await new Promise((resolve) => {
      setTimeout(resolve);
    }); // so that all records that are available at once are drawn together
    if (turn !== this.turn) return; // something else has been chosen in the meantime
    this.loaded = modules.map((module) => slots.get(module));
    if (this.loaded.some(({ a, b }) => a.open || b.open)) {
      this.#draw();
      this.root.dataset.state = "filling"; // the map is there, other modules are not
    }
    await Promise.all(this.loaded.flatMap(({ a, b }) => [a.done, b.done]));
    if (turn !== this.turn) return;
    this.#draw();
    this.root.dataset.state = "ready";
    this.figure.prepare();
  }

  /** Draw everything again from the loaded records. */
  #draw() {
    const theme = this.host.theme.dark() ? THEMES.dark : THEMES.light;
    this.root.dataset.theme = theme.dark ? "dark" : "light";
    if (!this.loaded.length) return;
    const ratio = Math.min(3, this.root.ownerDocument.defaultView.devicePixelRatio || 1);
    const { scene, scales, tiles, views, problem, quiet } = buildScene(this.loaded, this.state, { theme, ratio });
    this.scene = scene;
    this.controls.update(
      { ...this.state, ...chosen(scene, this.state) },
      this.catalogue,
      views,
      this.player.on,
    );
    this.controls.updateLong(scene, this.state.tile);
    this.overview.update({ ...scales, theme, ratio, room: this.page.clientWidth, tall: this.#tall() }, tiles, {
      ...this.state,
      head: scene?.head ?? this.state.head,
    });
    if (scene) scene.height = this.#room();
    const missing = this.missing.map((run) => `there is no run ${visible(run, 100)} in the log`);
    this.#tell([...missing, problem].filter(Boolean).join(" · "), quiet && !missing.length);
    this.overview.element.hidden = false;
    this.figure.element.hidden = this.readout.element.hidden = this.text.element.hidden = !scene;
    if (!scene) return;
    this.text.update(scene.panels.filter(({ difference }) => !difference));
    this.figure.draw(scene, this.#cursor());
    this.#mark();
  }

  /** Show nothing, since nothing is in the log any more. */
  #clear() {
    this.turn += 1;
    [this.scene, this.loaded] = [null, []];
    this.controls.update({ ...this.state, ...chosen(null, this.state) }, this.catalogue, [], false);
    for (const { element } of [this.overview, this.figure, this.readout, this.text]) element.hidden = true;
  }

  /** The height in pixels available to the maps, below the list of heads on a narrow page. */
  #room() {
    const long = this.loaded.some(({ a }) => a.record && a.record.queries > LONG);
    const [heads, main] = this.page.children;
    const above = main.offsetTop > heads.offsetTop ? heads.offsetHeight : 0;
    return Math.max(400, this.root.ownerDocument.documentElement.clientHeight - (long ? 200 : 300) - above);
  }

  /** The height in pixels available to the list of heads; see `.al-overview` in the style sheet. */
  #tall() {
    return this.root.ownerDocument.documentElement.clientHeight - 150;
  }

  /** Show the cursor in the figure and in everything linked with it. */
  #mark() {
    if (!this.scene) return;
    const cursor = this.#cursor();
    // Screen readers say what keys choose, but not everything that the pointer passes or each step while playing.
    this.readout.element.setAttribute("aria-live", this.hovered || this.player.on ? "off" : "polite");
    this.figure.mark(cursor);
    this.readout.update(this.scene.panels, cursor);
    this.text.mark(this.scene, this.scene.head, cursor, !this.hovered);
  }

  #cursor() {
    return this.hovered ?? { query: this.state.query, key: this.state.key };
  }

  #hover(cell) {
    this.hovered = cell;
    this.#mark();
  }

  #press({ query, key }) {
    const same = query === this.state.query && key === this.state.key;
    this.choose({ query: same ? -1 : query, key: same ? -1 : key });
  }

  /** Choose a query, a key or both; the map is not drawn again, unless the query is on another page of pictures. */
  choose(cell) {
    const before = pageOf(this.state.query);
    this.wanted = this.state = { ...this.state, ...cell };
    this.#link();
    if (this.scene?.view === "picture" && pageOf(this.state.query) !== before) this.#draw();
    else this.#mark();
  }

  #tell(text, quiet = false) {
    this.message.toggleAttribute("data-quiet", quiet);
    this.message.textContent = visible(text ?? "", 600);
    this.message.hidden = !text;
    if (text && !this.loaded.length) this.root.dataset.state = "ready";
  }

  /** Zoom by a factor around a cell; by default around the chosen one, or else the middle. */
  zoom(factor, cell = null) {
    if (this.scene) this.change(zoomed(this.#part(), factor, cell, this.state));
  }

  /** The visible part as last chosen, which may not be drawn yet. */
  #part() {
    return partOf(this.scene.panels, this.state);
  }

  /** Choose the next query or key whose label contains a text, bring it into view, and say how many there are. */
  seek(text, by, wantsKeys) {
    if (!this.scene) return;
    const { record } = this.scene.panels[0];
    const [queries, keys] = [record.find("query", text), record.find("key", text)];
    const side = wantsKeys || !queries.length ? "key" : "query";
    const found = side === "key" ? keys : queries;
    const now = this.state[side];
    const next = found.find((at) => (by ? at > now : at >= now)) ?? found[0];
    this.controls.found.textContent = text
      ? found.length
        ? `${side} ${found.indexOf(next) + 1} of ${found.length}`
        : "not found"
      : "";
    this.text.find(text);
    if (next === undefined) return;
    this.hovered = null;
    this.change({ [side]: next, ...broughtIntoView(this.scene, side, next) });
  }

  async stepBy(by) {
    const { steps } = this;
    const at = Math.max(0, Math.min(steps.length - 1, steps.indexOf(this.step) + by));
    await this.change({ step: at === steps.length - 1 ? null : steps[at] }); // the last one follows training
  }

  export(ending) {
    if (!this.scene) return;
    const heading = headingOf(this.scene, this.state, this.host.plain ? null : this.step);
    const [name, width] = [fileName(heading.file, ending), this.figure.element.clientWidth];
    if (ending === "svg")
      save(new Blob([toSvg(this.scene, this.#cursor(), heading, width)], { type: "image/svg+xml" }), name);
    else toCanvas(this.scene, this.#cursor(), heading, width).toBlob((blob) => save(blob, name), "image/png");
  }

  async copyLink() {
    const address = this.host.link.address(toLink({ ...this.state, step: this.step })); // this step, whatever is logged later
    try {
      await navigator.clipboard.writeText(address);
      this.controls.say("link copied");
    } catch {
      window.prompt("The link to this view:", address); // if the page may not write to the clipboard
    }
  }
}
