/** The example as text: its keys shaded by the weights of the chosen query, and its queries, which can be chosen. */

import { colourOf, css, inkOn, partOf } from "./colours.js";
import { make } from "./dom.js";
import { pixelRow, token, visible } from "./labels.js";
import { isPicture } from "./pixels.js";

const MOST = 20000; // tokens; more are left out
const LEVELS = 64; // number of colours of tokens
const PARAGRAPH = 250; // tokens in a paragraph of running text
const RUNNING = 400; // with more tokens, they are shown as running text
const LONGEST = 40; // most characters of a token

const [CHOSEN, MASKED, FOUND, DARK] = [128, 256, 512, 1024]; // bits of a token's look, added to its level

export class TextView {
  /** @param {function({query?: number, key?: number}): void} choose called with the pressed token */
  constructor(choose) {
    this.element = make("section.al-text");
    this.choose = choose;
    this.rows = [];
    this.shape = [];
    this.seen = ""; // the tokens that were brought into view last
  }

  /** Show the texts of the panels' records; for a picture there are only queries, for an axis nothing. */
  update(panels) {
    const shape = panels.map(({ record }) => record);
    if (shape.length === this.shape.length && shape.every((record, at) => record === this.shape[at])) return;
    this.shape = shape;
    this.rows = [];
    this.seen = "";
    const parts = panels.map(({ record, name }) => {
      const { kind, input, output, expected } = record.header;
      const lines = [];
      if (input || output) {
        const said = [isPicture(input) ? "" : input, output].map((text) => visible(text, 400)).filter(Boolean);
        const texts = said.map((text) => make("bdi", { textContent: text })); // each in its own direction
        const example = texts.flatMap((text, at) => (at ? ["  →  ", text] : [text]));
        if (expected && expected !== output) {
          example.push(", expected ", make("bdi", { textContent: visible(expected, 400) }));
        }
        lines.push(make("p.al-example", {}, ...example));
      }
      if (kind !== "regression") {
        const keys = new Tokens(record, "key", kind === "picture" ? 0 : record.keys, this.choose);
        const queries = new Tokens(record, "query", record.queries, this.choose);
        this.rows.push({ record, keys, queries });
        if (keys.tokens.length) lines.push(lineOf("keys", keys));
        lines.push(lineOf("queries", queries));
      }
      return make(
        "div.al-text-panel",
        {},
        ...(panels.length > 1 ? [make("h4", { textContent: name })] : []),
        ...lines,
      );
    });
    this.element.replaceChildren(...parts.filter((part) => part.childNodes.length));
  }

  /**
   * Shade the keys by the query's weights, and the queries by their weight on the key, if one is chosen.
   * @param {boolean} [seen] whether to bring newly chosen tokens into view; if only one side has one, also the token of
   *   the other side with the largest weight
   */
  mark(scene, head, { query, key }, seen = true) {
    for (const { record, keys, queries } of this.rows) {
      const at = Math.min(head, record.heads - 1);
      const row = query >= 0 && query < record.queries ? record.row(at, query) : null;
      keys.shade(scene, (one) => (row ? row[one] : 0), key);
      const column = key >= 0 && key < record.keys;
      queries.shade(scene, (one) => (column ? record.at(at, one, key) : 0), query);
    }
    const chosen = [query, key, query < 0 || key < 0 ? head : ""].join();
    if (!seen || this.seen === chosen) return;
    this.seen = chosen;
    for (const { record, keys, queries } of this.rows) {
      const at = Math.min(head, record.heads - 1);
      const to = key < 0 && query >= 0 && query < record.queries ? largest(record.row(at, query)) : key;
      const from = query < 0 && key >= 0 && key < record.keys ? record.column(at, key).from : query;
      keys.reveal(to); // last, because it reads the layout
      queries.reveal(from);
    }
  }

  /** Mark the tokens that contain a text. */
  find(wanted) {
    for (const { record, keys, queries } of this.rows) {
      keys.find(record.find("key", wanted));
      queries.find(record.find("query", wanted));
    }
  }
}

/** The tokens of a side. If there are thousands, they are shaded only when the browser lays them out. */
class Tokens {
  constructor(record, side, count, choose) {
    this.long = count > RUNNING;
    const texts = Array.from({ length: Math.min(count, MOST) }, (_, at) => record[side](at));
    this.tokens = texts.map((text, at) =>
      this.long ? runningToken(text) : button(text, `${side} ${at + 1}`, () => choose({ [side]: at })),
    );
    this.looks = new Uint16Array(this.tokens.length);
    this.found = new Uint8Array(this.tokens.length);
    this.lookOf = null;
    this.wanted = -1; // the token to bring into view
    const every = this.long ? PARAGRAPH : Math.max(1, this.tokens.length);
    this.parts = [];
    for (let from = 0; from < this.tokens.length; from += every)
      this.parts.push({ from, to: Math.min(from + every, this.tokens.length), skipped: false });
    this.element = this.long ? this.#running(side, choose) : make("div.al-tokens", { dir: "auto" }, ...this.tokens);
  }

  /** Make paragraphs; the browser lays out those in view and reports which they are. */
  #running(side, choose) {
    const paragraphs = this.parts.map(({ from, to }) => make("p", { dir: "auto" }, ...this.tokens.slice(from, to)));
    const press = ({ target }) => {
      const at = this.tokens.indexOf(target);
      if (at >= 0) choose({ [side]: at });
    };
    const change = (event) => {
      const part = this.parts[paragraphs.indexOf(event.target)];
      if (!part) return;
      part.skipped = event.skipped;
      this.#paint([part]);
      requestAnimationFrame(() => this.#settle(part));
    };
    return make(
      "div.al-tokens.al-running",
      { tabIndex: 0, role: "group", "aria-label": side === "key" ? "keys" : "queries", onclick: press, oncontentvisibilityautostatechange: change },
      ...paragraphs,
    );
  }

  /** @param {function(number): number|null} weightOf the weight of a token; null if masked */
  shade({ theme, scale }, weightOf, chosen) {
    this.lookOf = (at) => {
      const weight = weightOf(at);
      const part = weight === null ? 0 : Math.max(0, Math.min(1, partOf(weight ?? 0, scale)));
      const level = part > 0.002 ? Math.ceil(part * LEVELS) : 0;
      return level | (weight === null && MASKED) | (at === chosen && CHOSEN) | (level && theme.dark && DARK);
    };
    this.theme = theme;
    this.#paint(this.parts);
  }

  /** @param {number[]} tokens the tokens to mark as found; all others are unmarked */
  find(tokens) {
    this.found.fill(0);
    for (const at of tokens) this.found[at] = 1;
    this.#paint(this.parts);
  }

  /** Scroll a token into the visible part of the list, without moving anything else on the page. */
  reveal(at) {
    const part = this.parts.find(({ from, to }) => at >= from && at < to);
    this.wanted = part ? at : -1;
    if (!part) return;
    this.#scroll();
    if (this.long) requestAnimationFrame(() => requestAnimationFrame(() => this.#settle(part)));
  }

  /** Scroll to the wanted token again once its paragraph is laid out; until then, its height is a guess. */
  #settle({ from, to, skipped }) {
    if (skipped || this.wanted < from || this.wanted >= to) return;
    this.#scroll();
    this.wanted = -1;
  }

  #scroll() {
    const list = this.element;
    if (list.scrollHeight <= list.clientHeight) return;
    const frame = list.getBoundingClientRect();
    const [token, paragraph] = [this.tokens[this.wanted], this.tokens[this.wanted].parentElement].map((one) =>
      one.getBoundingClientRect(),
    );
    const guessed = this.long && (paragraph.bottom < frame.top || paragraph.top > frame.bottom);
    const { top, bottom } = guessed ? paragraph : token;
    if (top < frame.top || bottom > frame.bottom) list.scrollTop += top - frame.top - list.clientHeight / 2;
  }

  /** Update the look of the tokens in view that has changed; of thousands, few do. */
  #paint(parts) {
    if (!this.lookOf) return;
    for (const { from, to, skipped } of parts)
      for (let at = from; !skipped && at < to; at += 1) {
        const look = this.lookOf(at) | (this.found[at] && FOUND);
        if (look === this.looks[at]) continue;
        this.#give(this.tokens[at], look, look ^ this.looks[at]);
        this.looks[at] = look;
      }
  }

  #give({ style, classList }, look, changed) {
    const level = look & (CHOSEN - 1);
    if (changed & (DARK | (CHOSEN - 1))) {
      const colour = colourOf(this.theme, level / LEVELS);
      style.background = level ? css(colour) : "";
      style.color = level ? inkOn(colour) : "";
    }
    if (changed & CHOSEN) classList.toggle("al-chosen", look & CHOSEN);
    if (changed & MASKED) classList.toggle("al-masked", look & MASKED);
    if (changed & FOUND) classList.toggle("al-has", look & FOUND);
  }
}

const lineOf = (name, { element }) =>
  make("div.al-line", {}, make("span.al-line-name", { textContent: name }), element);

function runningToken(label) {
  const token = document.createElement("span");
  token.textContent = running(label);
  return token;
}

function button(label, title, press) {
  const row = pixelRow(label);
  return make(
    row ? "button.al-token.al-pixels" : "button.al-token",
    { type: "button", tabIndex: -1, title, onclick: press },
    ...(row ? row.map(pixel) : [token(visible(label, LONGEST))]),
  );
}

function pixel(ink) {
  const element = make("i");
  element.style.opacity = String(ink);
  return element;
}

/** A token in running text, with the marks of subwords replaced by spaces or nothing. */
function running(label) {
  const text = visible(label, LONGEST);
  if (/^##(?=.)/u.test(text)) return text.slice(2);
  if (/^[Ġ▁]/u.test(text)) return ` ${text.slice(1)}`;
  return text === "" ? "∅" : /^[\p{P}\s]/u.test(text) ? text : ` ${text}`;
}

/** The index of the largest weight; -1 if there is none. */
function largest(weights) {
  return weights.reduce((best, weight, at) => (weight > (weights[best] ?? 0) ? at : best), -1);
}
