/** The example as text: its keys shaded by the weights of the chosen query, its queries to choose from. */

import { colourOf, css, isDeep, partOf } from "./colours.js";
import { make } from "./dom.js";
import { pixelRow, token, visible } from "./labels.js";
import { isPicture } from "./pixels.js";

const MOST = 20000; // tokens; more are left out
const LEVELS = 64; // colours of tokens
const PARAGRAPH = 250; // tokens of a running text
const RUNNING = 400; // tokens from which on they are a running text
const LONGEST = 40; // characters of a token

export class TextView {
  /** @param {function({query?: number, key?: number}): void} choose is told the token pressed */
  constructor(choose) {
    this.element = make("section.al-text");
    this.choose = choose;
    this.rows = [];
    this.shape = [];
    this.looks = new WeakMap(); // of tokens
  }

  /** Show the texts of the panels' records; those of a picture or an axis have queries only, or nothing. */
  update(panels) {
    const shape = panels.map(({ record }) => record);
    if (shape.length === this.shape.length && shape.every((record, at) => record === this.shape[at])) return;
    this.shape = shape;
    this.rows = [];
    const parts = panels.map(({ record, name }) => {
      const { kind, input, output } = record.header;
      const lines = [];
      if (input || output) {
        const said = [isPicture(input) ? "" : input, output].map((text) => visible(text, 400));
        lines.push(make("p.al-example", { dir: "auto", textContent: said.filter(Boolean).join("  →  ") }));
      }
      if (kind !== "regression") {
        const keys = kind === "picture" ? [] : this.#tokens(record.keys, (at) => record.key(at), "key");
        const queries = this.#tokens(record.queries, (at) => record.query(at), "query");
        this.rows.push({ record, keys, queries });
        if (keys.length) lines.push(this.#line("keys", keys, "key"));
        lines.push(this.#line("queries", queries, "query"));
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
   * Shade the keys by the query's weights and the queries by their weight on the key, if one is chosen.
   * @param {boolean} [seen] whether the chosen ones are brought into view
   */
  mark(scene, head, { query, key }, seen = true) {
    for (const { record, keys, queries } of this.rows) {
      const at = Math.min(head, record.heads - 1);
      const chosen = query >= 0 && query < record.queries;
      const weights = chosen ? record.row(at, query).weights : [];
      keys.forEach((span, number) => this.#shade(span, scene, chosen ? weights[number] : 0, number === key));
      queries.forEach((span, number) => {
        const weight = key >= 0 && key < record.keys ? record.at(at, number, key) : 0;
        this.#shade(span, scene, weight, number === query);
      });
      if (seen) [keys[key], queries[query]].forEach(reveal);
    }
  }

  /** Mark the tokens that have a text. */
  find(wanted) {
    for (const { record, keys, queries } of this.rows) {
      const sides = [
        [keys, (at) => record.key(at)],
        [queries, (at) => record.query(at)],
      ];
      for (const [spans, label] of sides)
        spans.forEach((span, at) => {
          const has = wanted !== "" && label(at).toLowerCase().includes(wanted);
          if (has !== span.classList.contains("al-has")) span.classList.toggle("al-has", has);
        });
    }
  }

  /** Colour a token, if it is not of this colour already: of thousands, few change. */
  #shade(span, { theme, scale }, weight, chosen) {
    const part = weight === null ? 0 : Math.max(0, Math.min(1, partOf(weight ?? 0, scale)));
    const level = part > 0.002 ? Math.ceil(part * LEVELS) : 0;
    const look = `${level} ${theme.dark} ${chosen} ${weight === null}`;
    if (this.looks.get(span) === look) return;
    this.looks.set(span, look);
    const colour = colourOf(theme, level / LEVELS);
    span.style.background = level ? css(colour) : "";
    span.style.color = level ? (isDeep(colour) ? "#fff" : "#10151d") : "";
    span.classList.toggle("al-chosen", chosen);
    span.classList.toggle("al-masked", weight === null);
  }

  #line(name, tokens, side) {
    const long = tokens.length > RUNNING;
    const list = long
      ? make("div.al-tokens.al-running", { onclick: ({ target }) => this.#press(tokens, target, side) })
      : make("div.al-tokens", { dir: "auto" }, ...tokens);
    for (let at = 0; long && at < tokens.length; at += PARAGRAPH) // of which the browser lays out those in view
      list.append(make("p", { dir: "auto" }, ...tokens.slice(at, at + PARAGRAPH)));
    return make("div.al-line", {}, make("span.al-line-name", { textContent: name }), list);
  }

  #press(tokens, target, side) {
    const at = tokens.indexOf(target);
    if (at >= 0) this.choose({ [side]: at });
  }

  #tokens(count, label, side) {
    if (count > RUNNING) {
      return Array.from({ length: Math.min(count, MOST) }, (_, at) =>
        make("span", { textContent: running(label(at)) }),
      );
    }
    return Array.from({ length: count }, (_, at) => {
      const row = pixelRow(label(at));
      return make(
        row ? "button.al-token.al-pixels" : "button.al-token",
        {
          type: "button",
          tabIndex: -1,
          title: `${side} ${at + 1}`,
          onclick: () => this.choose({ [side]: at }),
        },
        ...(row ? row.map(pixel) : [token(visible(label(at), LONGEST))]),
      );
    });
  }
}

function pixel(ink) {
  const element = make("i");
  element.style.opacity = String(ink);
  return element;
}

/** A token within a running text: the signs of subwords stand for what they mean. */
function running(label) {
  const text = visible(label, LONGEST);
  if (/^##(?=.)/u.test(text)) return text.slice(2);
  if (/^[Ġ▁]/u.test(text)) return ` ${text.slice(1)}`;
  return text === "" ? "∅" : /^[\p{P}\s]/u.test(text) ? text : ` ${text}`;
}

/** Bring a token into the part of its list that is seen, and move nothing else on the page. */
function reveal(span) {
  const list = span?.closest(".al-tokens");
  if (!list || list.scrollHeight <= list.clientHeight) return;
  const paragraph = span.parentElement;
  if (paragraph !== list) {
    const [start, end] = [paragraph.offsetTop, paragraph.offsetTop + paragraph.offsetHeight];
    if (end < list.scrollTop || start > list.scrollTop + list.clientHeight) list.scrollTop = start;
  }
  const top = span.offsetTop; // the list is what it is measured from
  if (top < list.scrollTop || top + span.offsetHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = top - list.clientHeight / 2;
  }
}
