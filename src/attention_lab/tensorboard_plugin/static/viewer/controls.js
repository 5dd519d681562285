/** The bar of controls, to choose what is shown and how. */

import { nearest } from "./catalogue.js";
import { Choice, Picker, make, spoken } from "./dom.js";
import { visible } from "./labels.js";

const VIEWS = {
  map: ["map", "Map", "queries down, keys across"],
  lines: ["lines", "Lines", "a line for every weight above a threshold"],
  picture: ["picture", "Picture", "the weights over the picture"],
  curve: ["curve", "Curve", "the weights over the x-axis"],
};
const TEXT = 44; // most characters of an example in the list of examples

export class Controls {
  /**
   * @param {function(object): void} change called with the parts of the state that change
   * @param {Object<string, function(): void>} actions play, png, svg, link, theme, help
   * @param {object} host see `createViewer`
   */
  constructor(change, actions, host) {
    this.run = new Picker("run A", (run) => change({ run }));
    this.other = new Picker("run B", (other) => change({ other }));
    for (const { element } of [this.run, this.other]) element.classList.add("al-run");
    this.example = new Picker("example", (example) => change({ example }));
    this.side = new Choice("of two runs", (side) => change({ side }));
    this.view = new Choice("view", (view) => change({ view }));
    this.scale = new Choice("scale", (scale) => change({ scale }));
    this.range = new Choice("range", (range) => change({ range }));
    this.order = new Choice("order of the heads", (order) => change({ order }));
    const button = (text, title, act, name) =>
      make("button.al-button", {
        type: "button",
        textContent: text,
        title,
        ...spoken(text, title),
        onclick: act,
        "data-act": name,
      });
    this.play = button("▶", "play (space)", actions.play, "play");
    this.slider = make("input.al-slider", {
      type: "range",
      min: 0,
      step: 1,
      "aria-label": "step",
      oninput: () => change({ step: this.#chosenStep() }),
    });
    this.stepText = make("output.al-step");
    this.threshold = make("input", {
      type: "range",
      min: 0.01,
      max: 1,
      step: 0.01,
      "aria-label": "threshold",
      oninput: () => change({ threshold: this.threshold.valueAsNumber }),
    });
    this.thresholdText = make("output");
    this.thresholdBox = make(
      "label.al-threshold",
      {},
      make("span", { textContent: "weights from" }),
      this.threshold,
      this.thresholdText,
    );
    this.tile = new Choice("of the weights in a cell", (tile) => change({ tile }));
    this.search = make("input.al-search", {
      type: "search",
      placeholder: "find a token  /",
      "aria-label": "find a token",
      title: "Enter: next matching query; Shift + Enter: next matching key",
      oninput: () => actions.seek(this.search.value, 0, false),
      onkeydown: (event) => {
        if (event.key === "Enter") actions.seek(this.search.value, 1, event.shiftKey);
        if (event.key === "Escape") {
          this.search.value = ""; // browsers do this too, but not all of them report it
          actions.seek("", 0, false);
          this.search.blur();
        }
      },
    });
    this.found = make("output.al-found");
    this.shown = make("output.al-shown");
    this.zoom = make(
      "div.al-zoom",
      { role: "group", "aria-label": "zoom" },
      button("−", "zoom out (-)", actions.zoomOut, "out"),
      button("+", "zoom in (+)", actions.zoomIn, "in"),
      button("all", "show everything (0)", actions.zoomAll, "all"),
      this.shown,
    );
    this.long = make(
      "div.al-bar.al-long",
      { hidden: true },
      this.zoom,
      this.tile.element,
      make("div.al-seek", {}, this.search, this.found),
    );
    this.all = []; // steps
    this.plain = Boolean(host.plain);
    this.note = make("span.al-said", { role: "status" });
    const buttons = [
      ...(host.link.address ? [button("Link", "copy a link to this view (l)", actions.link, "link")] : []),
      button("PNG", "save this view as PNG (p)", actions.png, "png"),
      button("SVG", "save this view as SVG (g)", actions.svg, "svg"),
      ...(host.plain ? [button("◐", "light or dark", host.theme.toggle, "theme")] : []),
      button("?", "help and keys (?)", actions.help, "help"),
    ];
    this.steps = make("div.al-steps", { hidden: Boolean(host.plain) }, this.play, this.slider, this.stepText);
    this.buttons = make("div.al-buttons", {}, this.note, ...buttons);
    const title = host.title
      ? make("h1.al-title", { textContent: visible(host.title, 120), title: visible(host.title) })
      : make("h1.al-unseen", { textContent: "Attention" });
    this.top = make(
      "header.al-bar",
      {},
      ...(host.part ? [] : [title]),
      this.run.element,
      this.other.element,
      this.example.element,
      ...(host.plain ? [] : [make("div.al-rest", {}, this.steps, this.buttons)]),
    );
    this.tools = make(
      "div.al-bar.al-tools",
      {},
      this.view.element,
      this.side.element,
      this.scale.element,
      this.range.element,
      this.thresholdBox,
      ...(host.plain ? [this.buttons] : []),
    );
    this.orderBar = make("div.al-bar.al-order", {}, make("h2", { textContent: "Heads" }), this.order.element);
  }

  /** Show the state. */
  update(state, catalogue, views, playing) {
    const runs = catalogue.runs();
    const names = catalogue.names();
    const named = (all) => all.map((run) => [run, names.get(run), visible(run)]);
    this.run.update(named(runs), state.run);
    this.run.name.textContent = runs.length < 2 ? "run" : "run A";
    this.run.element.hidden = runs.length < 2 && !runs[0]?.trim();
    this.other.update([["", "none"], ...named(runs.filter((run) => run !== state.run))], state.other);
    this.other.element.hidden = runs.length < 2;
    const examples = catalogue.examples(state.run);
    this.example.update(
      examples.map((example) => [example, ...exampleName(example, catalogue.text(state.run, example))]),
      state.example,
    );
    this.example.element.hidden = examples.length < 2 && (this.plain || !examples[0]);
    const empty = this.plain && [...this.top.children].every((child) => child.hidden || child.matches(".al-unseen"));
    this.top.classList.toggle("al-unseen", empty);
    this.view.update(
      views.map((view) => VIEWS[view]),
      state.view,
    );
    const sides = [
      ["all", "Both", "A, B and their difference"],
      ["a", "A", "run A alone"],
      ["b", "B", "run B alone"],
      ["difference", "B − A", "how much more B gives than A"],
    ];
    this.side.update(state.other ? sides : [], state.side);
    this.scale.update(
      [
        ["linear", "linear", "colours in proportion to weights"],
        ["root", "√", "square root: makes small weights easier to tell apart"],
      ],
      state.scale,
    );
    this.range.update(
      [
        ["fixed", "0–1", "the same scale everywhere"],
        ["shared", "max", "up to the largest weight of all these heads"],
      ],
      state.range,
    );
    this.order.update(
      [
        ["layer", "by layer", "in the order of the model"],
        ["entropy", "by entropy", "the most focused first"],
      ],
      state.order,
    );
    this.all = catalogue.steps(state.run, state.example);
    const at = state.step === null ? this.all.length - 1 : nearest(this.all, state.step);
    const several = this.all.length > 1;
    this.slider.max = String(Math.max(0, this.all.length - 1));
    this.slider.value = String(at);
    this.slider.hidden = this.play.hidden = !several;
    this.stepText.textContent = this.all.length
      ? `step ${this.all[at].toLocaleString("en")}${several ? ` · ${at + 1} of ${this.all.length}` : ""}`
      : "";
    this.slider.setAttribute("aria-valuetext", this.stepText.textContent);
    this.stepText.ariaLive = playing ? "off" : "polite";
    this.play.textContent = playing ? "❚❚" : "▶";
    this.play.title = playing ? "stop (space)" : "play (space)";
    this.play.setAttribute("aria-label", this.play.title);
    this.thresholdBox.hidden = state.view !== "lines";
    this.threshold.value = String(state.threshold);
    this.thresholdText.textContent = state.threshold.toFixed(2);
  }

  /**
   * Show the part of a long input that is visible.
   * @param {object|null} scene
   * @param {string} tile
   */
  updateLong(scene, tile) {
    const shown = scene && ["map", "lines"].includes(scene.view);
    this.long.hidden = !shown || !scene.panels.some(({ record }) => record.isLong);
    if (this.long.hidden) return;
    const { rows, columns } = scene.part;
    const side = ([from, to]) => `${(from + 1).toLocaleString("en")}–${to.toLocaleString("en")}`;
    const { queries, keys } = scene.size;
    const part = rows[1] - rows[0] < queries || columns[1] - columns[0] < keys;
    this.shown.textContent = part ? `queries ${side(rows)} · keys ${side(columns)}` : "all queries and keys";
    this.tile.update(
      [
        ["largest", "largest", "if a cell stands for several weights, the largest of them"],
        ["mean", "mean", "if a cell stands for several weights, their mean"],
      ],
      tile,
    );
  }

  /** The step of the slider; null at its end, so that the view follows training. */
  #chosenStep() {
    const at = this.slider.valueAsNumber;
    return at === this.all.length - 1 ? null : this.all[at];
  }

  /** Show a message for a while. */
  say(text) {
    this.note.textContent = text;
    clearTimeout(this.silence);
    this.silence = setTimeout(() => {
      this.note.textContent = "";
    }, 4000);
  }
}

/** An example's number and text: shortened for the list, and in full. */
function exampleName(example, text) {
  const name = visible(example, 40);
  if (!text) return [name, visible(example)];
  const number = /^example (\d+)$/.exec(example)?.[1] ?? name;
  return [`${number} · ${visible(text, TEXT)}`, `${name}: ${visible(text)}`];
}
