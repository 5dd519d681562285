/** The report of runs: results, curves, attention and options, all from the page itself. */

import { make } from "../viewer/dom.js";
import { plain, visible } from "../viewer/labels.js";
import { followSystem, pageLink, pageSource } from "../viewer/page.js";
import { createViewer } from "../viewer/viewer.js";
import { chart } from "./charts.js";

const page = JSON.parse(document.getElementById("data").textContent);

const theme = followSystem();

/** A table with a column for each run. */
function table(rows, head) {
  const cells = (kind, all) =>
    all.map((text, at) => make(at ? `${kind}.value` : kind, { textContent: visible(text, 400) }));
  const top =
    page.runs.length > 1
      ? [make("thead", {}, make("tr", {}, ...cells("th", [head, ...page.runs.map(({ name }) => name)])))]
      : [];
  return make(
    "div.scroll",
    {},
    make("table", {}, ...top, make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row))))),
  );
}

/** The names in any of the runs' lists, with the value of each run. */
function rowsOf(part, form) {
  const names = [...new Set(page.runs.flatMap((run) => Object.keys(run[part])))];
  return names.map((name) => [name, ...page.runs.map((run) => (name in run[part] ? form(run, name) : "–"))]);
}

function section(title, ...content) {
  return make("section", {}, make("h2", { textContent: title }), ...content);
}

/** The value of a metric, with its interval where the run has one. */
function estimate(run, name) {
  const value = run.metrics[name];
  const ends = [run.metrics[`${name}_low`], run.metrics[`${name}_high`]].map((end) => end ?? null);
  if (value === null) return "not finite";
  return ends.includes(null)
    ? plain(value)
    : `${plain(value)}  [${ends.map((end) => Number(end.toPrecision(3))).join(", ")}]`;
}

function results() {
  const first = (name) => name.startsWith("test/");
  const has = (name) => page.runs.some(({ metrics }) => name in metrics);
  const isEnd = (name) =>
    ["_low", "_high"].some((end) => name.endsWith(end) && has(name.slice(0, -end.length)));
  const rows = rowsOf("metrics", estimate).filter(([name]) => !isEnd(name));
  const [main, rest] = [rows.filter(([name]) => first(name)), rows.filter(([name]) => !first(name))];
  if (!rows.length)
    return section(
      "Results",
      make("p.quiet", { textContent: "The run has no metrics.json: it has not been tested." }),
    );
  const more = rest.length
    ? [
        make(
          "details",
          { open: !main.length },
          make("summary", { textContent: `More numbers (${rest.length})` }),
          table(rest, "metric"),
        ),
      ]
    : [];
  return section("Results", ...(main.length ? [table(main, "metric")] : []), ...more);
}

function curves() {
  const long = ({ curves: all }, name) => all[name].length > 1; // one point is a result, and stands there
  const names = [
    ...new Set(page.runs.flatMap((run) => Object.keys(run.curves).filter((name) => long(run, name)))),
  ];
  if (!names.length) return null;
  const groups = new Map();
  for (const name of names) {
    const group = name.includes("/") ? name.slice(0, name.indexOf("/")) : "other";
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  const charts = (all) =>
    make(
      "div.charts",
      {},
      ...all.map((name) =>
        chart(
          name,
          page.runs
            .map((run, at) => ({ run: at, points: run.curves[name] ?? [] }))
            .filter(({ points }) => points.length),
        ),
      ),
    );
  const shown = ["train", "val", "test", "valid", "validation"];
  const [main, rest] = [
    [...groups].filter(([name]) => shown.includes(name)),
    [...groups].filter(([name]) => !shown.includes(name)),
  ];
  const legend =
    page.runs.length > 1
      ? [
          make(
            "p.legend",
            {},
            ...page.runs.map(({ name }, at) =>
              make(`span.run-${at % 6}`, { textContent: visible(name, 80) }),
            ),
          ),
        ]
      : [];
  return section(
    "Curves",
    ...legend,
    ...(main.length ? [charts(main.flatMap(([, all]) => all))] : []),
    ...rest.map(([group, all]) =>
      make(
        "details",
        { open: !main.length },
        make("summary", { textContent: `${visible(group, 60)} (${all.length})` }),
        charts(all),
      ),
    ),
  );
}

function attention(theme) {
  if (!Object.values(page.tags).some((tags) => Object.keys(tags).length)) {
    return section(
      "Attention",
      make("p.quiet", { textContent: "The run logged no attention: it had logger=none, or another writer." }),
    );
  }
  const root = make("div");
  const box = section(
    "Attention",
    ...(page.thinned ? [make("p.quiet", { textContent: page.thinned })] : []),
    make("div.viewer", {}, root),
  );
  queueMicrotask(() => createViewer(root, pageSource(page), { theme, link: pageLink() })); // once it has its place and so its width
  return box;
}

const options = make(
  "details",
  {},
  make("summary", { textContent: "All options" }),
  table(
    rowsOf("config", ({ config }, name) => config[name]),
    "option",
  ),
);
document.getElementById("content").append(
  ...[
    make(
      "header",
      {},
      make("h1", { textContent: visible(page.title, 200) }),
      make("p.quiet", { textContent: visible(page.about, 300) }),
      make("button.theme", {
        type: "button",
        textContent: "◐",
        title: "light or dark",
        onclick: () => theme.toggle(),
      }),
    ),
    results(),
    attention(theme),
    curves(),
    section("Options", options),
  ].filter(Boolean),
);
