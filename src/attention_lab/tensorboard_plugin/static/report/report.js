/** The report of runs: results, curves, attention and options, all from data in the page. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";
import { followSystem, pageLink, pageSource } from "../viewer/page.js";
import { createViewer } from "../viewer/viewer.js";
import { comparison } from "./comparison.js";
import { curves } from "./curves.js";
import { errors, samples } from "./examples.js";
import { headlines, isPlace, plainTable, results } from "./results.js";
import { breakable, shortNames } from "./words.js";

const page = JSON.parse(document.getElementById("data").textContent);
// Maps, since an object seems to have the options that its prototype has, such as `constructor`.
for (const run of page.runs) run.config = new Map(Object.entries(run.config));

const PAPER = 1050; // pixels that fit on A4 in portrait
const several = page.runs.length > 1;
const theme = followSystem();
const source = pageSource(page);

/** Make wide tables smaller on paper: browsers shrink a page by a third at most, and cut off what is wider. */
function fitTables(width) {
  for (const { style, offsetWidth } of document.querySelectorAll(".scroll table"))
    style.zoom = width < offsetWidth ? width / offsetWidth : "";
}
addEventListener("beforeprint", () => fitTables(PAPER));
addEventListener("afterprint", () => fitTables(Infinity));

/** A section; nothing if it would be empty. */
function section(title, content) {
  return content.length ? make("section", {}, make("h2", { textContent: title }), ...content) : null;
}

/** The options: those in which runs differ first. */
function options() {
  const names = [...new Set(page.runs.flatMap(({ config }) => [...config.keys()]))];
  const rows = names.map((name) => [name, ...page.runs.map(({ config }) => config.get(name) ?? "–")]);
  const differs = ([, ...values]) => new Set(values).size > 1;
  const head = ["option", ...shortNames(page.runs.map(({ name }) => name))];
  const apart = rows.filter((row) => differs(row) && !isPlace(row[0]));
  const folded = (title, list) =>
    make(
      "details",
      {},
      make("summary", { textContent: `${title} (${list.length})` }),
      plainTable(head, list, several),
    );
  return [
    ...(apart.length ? [folded("Options in which the runs differ", apart)] : []),
    folded("All options", rows),
  ];
}

function attention(theme) {
  if (!Object.values(page.tags).some((tags) => Object.keys(tags).length)) {
    const said = "No attention was logged: there was no validation yet, or the run had logger=none or another writer.";
    return section("Attention", [make("p.quiet", { textContent: said })]);
  }
  const root = make("div");
  const thinned = page.thinned ? [make("p.quiet", { textContent: page.thinned })] : [];
  const box = section("Attention", [...thinned, make("div.viewer", {}, root)]);
  queueMicrotask(() => createViewer(root, source, { theme, link: pageLink(), part: true })); // once it is in the page and has a width
  return box;
}

const lines = section("Curves", curves(page.runs, headlines(page.runs)));

const sections = [
  section("Comparison", comparison(page.comparison)),
  section(several ? "Runs" : "Results", results(page.runs)),
  ...(several ? [lines] : []),
  section("Samples", samples(page, source, theme)),
  section("Errors", errors(page.runs)),
  attention(theme),
  ...(several ? [] : [lines]),
  section("Options", options()),
].filter(Boolean);

document.getElementById("content").append(
  make(
    "header",
    {},
    make("h1", {}, ...breakable(page.title)),
    ...(page.facts ? [make("p.quiet", { textContent: visible(page.facts, 300) })] : []),
    ...(page.command ? [make("code.command", { textContent: visible(page.command, 1000) })] : []),
    make("button.theme", {
      type: "button",
      textContent: "◐",
      title: "light or dark",
      "aria-label": "light or dark",
      onclick: () => theme.toggle(),
    }),
  ),
  make("main", {}, ...sections),
);
