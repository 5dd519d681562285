/** The example as text: its keys shaded by the weights of the chosen query, its queries to choose from. */

import { colourOf, css, isDeep, partOf } from "./colours.js";
import { make } from "./dom.js";
import { pixelRow, token, visible } from "./labels.js";
import { isPicture } from "./pixels.js";

const MOST = 2000; // tokens; more are left out
const LONGEST = 40; // characters of a token

export class TextView {
  /** @param {function({query?: number, key?: number}): void} choose is told the token pressed */
  constructor(choose) {
    this.element = make("section.al-text");
    this.choose = choose;
    this.rows = [];
    this.shape = [];
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
        if (keys.length) lines.push(line("keys", keys));
        lines.push(line("queries", queries));
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

  /** Shade the keys by the query's weights and the queries by their weight on the key, if one is chosen. */
  mark(scene, head, { query, key }) {
    for (const { record, keys, queries } of this.rows) {
      const at = Math.min(head, record.heads - 1);
      const chosen = query >= 0 && query < record.queries;
      const weights = chosen ? record.row(at, query).weights : [];
      keys.forEach((span, number) => shade(span, scene, chosen ? weights[number] : 0, number === key));
      queries.forEach((span, number) => {
        const weight = key >= 0 && key < record.keys ? record.at(at, number, key) : 0;
        shade(span, scene, weight, number === query);
      });
      [keys[key], queries[query]].forEach(reveal);
    }
  }

  #tokens(count, label, side) {
    return Array.from({ length: Math.min(count, MOST) }, (_, at) => {
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

function line(name, tokens) {
  return make(
    "div.al-line",
    {},
    make("span.al-line-name", { textContent: name }),
    make("div.al-tokens", { dir: "auto" }, ...tokens),
  );
}

/** Bring a token into the part of its list that is seen, and move nothing else on the page. */
function reveal(span) {
  const list = span?.parentElement;
  if (!list || list.scrollHeight <= list.clientHeight) return;
  const top = span.offsetTop; // the list is what it is measured from
  if (top < list.scrollTop || top + span.offsetHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = top - list.clientHeight / 2;
  }
}

function shade(span, { theme, scale }, weight, chosen) {
  const part = weight === null ? 0 : Math.max(0, partOf(weight ?? 0, scale));
  const colour = colourOf(theme, part);
  span.style.background = part > 0.002 ? css(colour) : "";
  span.style.color = part > 0.002 ? (isDeep(colour) ? "#fff" : "#10151d") : "";
  span.classList.toggle("al-chosen", chosen);
  span.classList.toggle("al-masked", weight === null);
}
