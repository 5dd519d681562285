/** How settings compare: the verdict in words, the leaderboard's tables, failed runs, and files beside the page. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";
import { scrolling } from "./results.js";
import { long } from "./words.js";

/** @returns {HTMLElement[]} the content of the comparison's section */
export function comparison(found) {
  if (!found) return [];
  const { tables, failures, links } = found;
  const files = links.map((name) => make("a", { href: encodeURIComponent(name), textContent: visible(name) }));
  return [
    ...tables.flatMap(oneTable),
    ...failures.map((line) => make("p.failed", { textContent: visible(line, 1000) })),
    ...(files.length ? [make("p.files.quiet", {}, "Files beside this page: ", ...files)] : []),
  ];
}

const SPREAD = /^([+-]?\d\S*) (± .+|\(.+)$/u; // a number, then its deviation or its interval in brackets

/** A number with its deviation or interval below, which keeps the column narrow. */
function numberCell(text, below) {
  const [value, rest] = below === undefined ? (SPREAD.exec(text)?.slice(1) ?? [text, ""]) : [text, below];
  const second = rest ? [make("span.quiet", { textContent: visible(rest.replace(/[()]/gu, ""), 200) })] : [];
  return make("td.value", {}, make("span", { textContent: visible(value, 200) }), ...second);
}

/** The name of a column on at most two lines. */
function columnName(text) {
  const shown = visible(text, 200);
  const spaces = [...shown.matchAll(/ /gu)].map(({ index }) => index);
  if (shown.length < 12 || !spaces.length) return [shown];
  const far = (at) => Math.abs(at - shown.length / 2);
  const cut = spaces.reduce((nearest, at) => (far(at) < far(nearest) ? at : nearest));
  return [shown.slice(0, cut), make("br"), shown.slice(cut + 1)];
}

function oneTable({ name, summaries, header, rows, numbers_from: first, below, best, note }) {
  const places = header.map((_, at) => at).filter((at) => at !== below);
  const named = (at) =>
    at + 1 === below ? [visible(header[at], 200), make("span.quiet", { textContent: visible(header[below], 200) })] : columnName(header[at]);
  const names = places.map((at) => make(at < first ? "th" : "th.value", {}, ...named(at)));
  const cell = (row, at) =>
    at < first ? make("td", {}, long(row[at])) : numberCell(row[at], at + 1 === below ? row[below] : undefined);
  const top = make("thead", {}, make("tr", {}, ...names));
  const body = rows.map((row, at) => make(best.includes(at) ? "tr.best" : "tr", {}, ...places.map((place) => cell(row, place))));
  const how = make("details", {}, make("summary", { textContent: "How to read this" }), make("p.quiet", { textContent: note }));
  return [
    ...(name ? [make("h3", { textContent: visible(name, 200) })] : []),
    ...summaries.map((text) => make("p.verdict", { textContent: visible(text, 3000) })),
    scrolling(make("table.settings", {}, top, make("tbody", {}, ...body))),
    how,
  ];
}
