/** The state: what is shown, and how a link encodes it. */

/** Every part of the state, its initial value, and its name in a link. */
const PARTS = {
  run: ["run", ""],
  other: ["with", ""],
  example: ["example", ""],
  module: ["module", ""],
  head: ["head", 0],
  step: ["step", null],
  view: ["view", ""],
  side: ["side", "all"],
  scale: ["scale", ""],
  range: ["range", ""],
  order: ["order", "layer"],
  query: ["query", -1],
  key: ["key", -1],
  threshold: ["above", 0.1],
  tile: ["tile", "largest"],
  rows: ["rows", ""],
  columns: ["columns", ""],
};
const CHOICES = {
  view: ["", "map", "lines", "picture", "curve"],
  side: ["all", "a", "b", "difference"],
  scale: ["", "linear", "root"],
  range: ["", "fixed", "shared"],
  order: ["layer", "entropy"],
  tile: ["largest", "mean"],
};
const RANGES = new Set(["rows", "columns"]); // such as 128-256
const NUMBERS = {
  head: [0, 1e6],
  step: [-1e15, 1e15],
  query: [-1, 1e6],
  key: [-1, 1e6],
  threshold: [0.01, 1],
};

/** @returns {Object} the state before anything is chosen */
export const initial = () =>
  Object.fromEntries(Object.entries(PARTS).map(([part, [, value]]) => [part, value]));

/** @returns {string} the parts that differ from the initial state, as in `run=a&view=lines` */
export function toLink(state) {
  const link = new URLSearchParams();
  for (const [part, [name, first]] of Object.entries(PARTS))
    if (state[part] !== first) link.set(name, state[part]);
  return link.toString();
}

/** @returns {Object} the state that a link encodes; invalid parts are ignored */
export function fromLink(text) {
  const link = new URLSearchParams(text);
  const state = initial();
  for (const [part, [name]] of Object.entries(PARTS)) {
    if (!link.has(name)) continue;
    const value = link.get(name);
    if (part in NUMBERS) {
      const [least, most] = NUMBERS[part];
      const number = value.trim() === "" ? NaN : Number(value);
      if (number >= least && number <= most) state[part] = part === "threshold" ? number : Math.round(number);
    } else if (RANGES.has(part)) {
      if (/^\d{1,7}-\d{1,7}$/.test(value)) state[part] = value;
    } else if (!(part in CHOICES) || CHOICES[part].includes(value)) state[part] = value;
  }
  return state;
}

/** Make the state valid: an unknown run is replaced by the newest, a module by the first, an example by a telling one. */
export function settle(state, catalogue) {
  const one = (value, all) => (all.includes(value) ? value : (all[0] ?? ""));
  const runs = catalogue.runs();
  const run = runs.includes(state.run) ? state.run : catalogue.newest();
  const other = state.other !== run && runs.includes(state.other) ? state.other : "";
  const examples = catalogue.examples(run);
  const example = examples.includes(state.example) ? state.example : catalogue.telling(run);
  const module = one(state.module, catalogue.modules(run, example));
  return { ...state, run, other, example, module };
}
