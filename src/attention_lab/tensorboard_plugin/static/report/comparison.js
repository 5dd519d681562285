/** How settings compare: the verdict in words, the leaderboard's tables, what failed, and the files beside the page. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";

/** @returns {HTMLElement[]} what the section of the comparison holds */
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

function oneTable({ name, summaries, header, rows, numbers_from: first, best, note }) {
  const cells = (tag, all) =>
    all.map((text, at) => make(at < first ? tag : `${tag}.value`, { textContent: visible(text, 200) }));
  const top = make("thead", {}, make("tr", {}, ...cells("th", header)));
  const body = rows.map((row, at) => make(best.includes(at) ? "tr.best" : "tr", {}, ...cells("td", row)));
  const how = make("details", {}, make("summary", { textContent: "How to read this" }), make("p.quiet", { textContent: note }));
  return [
    ...(name ? [make("h3", { textContent: visible(name, 200) })] : []),
    ...summaries.map((text) => make("p.verdict", { textContent: visible(text, 3000) })),
    make("div.scroll", {}, make("table.settings", {}, top, make("tbody", {}, ...body))),
    how,
  ];
}
