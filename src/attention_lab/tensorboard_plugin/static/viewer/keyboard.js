/** Keyboard shortcuts, and the help page that lists them. */

import { make } from "./dom.js";

/** Keys, a description of what they do, and the names of the actions. */
const KEYS = [
  [["ArrowLeft"], "step back", "stepBack"],
  [["ArrowRight"], "step forward", "stepOn"],
  [[" "], "play, stop", "play"],
  [["ArrowUp"], "query above", "queryUp"],
  [["ArrowDown"], "query below", "queryDown"],
  [["Shift+ArrowLeft"], "key to the left", "keyLeft"],
  [["Shift+ArrowRight"], "key to the right", "keyRight"],
  [["[", "]"], "previous head, next head", ["headBack", "headOn"]],
  [["{", "}"], "previous module, next module", ["moduleBack", "moduleOn"]],
  [["e", "E"], "next example, previous example", ["exampleOn", "exampleBack"]],
  [["v"], "next view: map, lines, …", "view"],
  [["c"], "two runs: both, A, B, difference", "side"],
  [["s"], "scale: linear, square root", "scale"],
  [["m"], "scale: up to 1, up to the largest weight", "range"],
  [["+", "-", "0"], "zoom in, zoom out, show everything", ["zoomIn", "zoomOut", "zoomAll"]],
  [["t"], "several weights in a cell: largest, mean", "tile"],
  [["/"], "find a token", "find"],
  [["o"], "heads by layer, by entropy", "order"],
  [["p", "g"], "save as PNG, as SVG", ["png", "svg"]],
  [["l"], "copy a link to this view", "link"],
  [["Escape"], "unpin the cell", "clear"],
  [["?"], "this help", "help"],
];
const SIGNS = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  " ": "space",
  Escape: "Esc",
  "Shift+ArrowLeft": "⇧ ←",
  "Shift+ArrowRight": "⇧ →",
};

const actionOf = new Map(
  KEYS.flatMap(([keys, , actions]) => keys.map((key, at) => [key, [actions].flat()[at]])),
);

const SETTING = "attention-lab.characters"; // in the browser's storage: "off" if characters are no shortcuts
let characters = true; // whether they are, where a page may store nothing

/** Whether keys that type a character are shortcuts; read anew each time, since other pages share the setting. */
function charactersAct() {
  try {
    return localStorage.getItem(SETTING) !== "off";
  } catch {
    return characters; // a sandboxed frame
  }
}

function setCharacters(act) {
  characters = act;
  try {
    if (act) localStorage.removeItem(SETTING);
    else localStorage.setItem(SETTING, "off");
  } catch {
    // it lasts as long as the page
  }
}

const isCharacter = (key) => key.length === 1;

/**
 * Listen to the keys of a page, or of a part of it.
 * @param {Document|HTMLElement} page
 * @param {Object<string, function(): void>} actions by name
 */
export function listen(page, actions) {
  page.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { target } = event;
    const own = { select: true, textarea: true, input: true, summary: true }[target.localName];
    const pressed = target.localName === "button" && (event.key === " " || event.key === "Enter");
    if (own || pressed || page.querySelector("dialog[open]")) return; // these elements handle the keys themselves
    const name = event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
    const action = actionOf.get(name);
    if (!action || (isCharacter(event.key) && !charactersAct())) return;
    event.preventDefault();
    actions[action]();
  });
}

/**
 * The help page, without some actions that a page does not have.
 * @returns {{element: HTMLDialogElement, open: function(): void}}
 */
export function helpDialog(...without) {
  const rows = KEYS.filter(([, , action]) => !without.flat().includes(action)).map(([keys, what]) =>
    make(
      "tr",
      {},
      make("td", {}, ...keys.map((key) => make("kbd", { textContent: SIGNS[key] ?? key, "data-key": key }))),
      make("td", { textContent: what }),
    ),
  );
  const table = make("table", {}, ...rows);
  const name = "Single-character shortcuts (arrow keys and Esc always work)";
  const acting = make("input", {
    type: "checkbox",
    "aria-label": name,
    onchange: () => {
      setCharacters(acting.checked);
      show();
    },
  });
  const show = () => {
    acting.checked = charactersAct();
    for (const key of table.querySelectorAll("kbd"))
      key.classList.toggle("al-off", !acting.checked && isCharacter(key.dataset.key));
  };
  const setting = make("label", {}, acting, name);
  const close = make("button", { type: "button", textContent: "Close", autofocus: true, onclick: () => element.close() });
  const element = make("dialog.al-help", { "aria-label": "help" });
  const about = [
    "Each small map is a head; click it to enlarge it. Rows are queries, columns are keys, and the colours are the same in all maps, steps and runs.",
    "Hatched cells are masked. Outlined cells are the correct ones, if they are known. Click a cell to pin it; the text below then shows the weights of its query.",
    "A long input is drawn with several weights in a cell; pointing at it reads the largest of them. Scroll over the map or double-click to zoom in, down to single weights; drag to move.",
    "Under each small map stand the number of its head and its entropy in nats, the mean over the queries: 0 if one key has all the weight, ln K if K keys share it equally.",
  ];
  element.append(
    make("h2", { textContent: "Reading attention" }),
    ...about.map((text) => make("p", { textContent: text })),
    setting,
    table,
    close,
  );
  const open = () => {
    show();
    element.showModal(); // which scrolls to the button
    element.scrollTop = 0;
  };
  return { element, open };
}
