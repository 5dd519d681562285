/** The numbers of runs: headline metrics first, one row for each of several runs, the rest folded. */

import { make } from "../viewer/dom.js";
import { plain } from "../viewer/labels.js";
import { breakable, shortNames } from "./words.js";

const HEAD = /head[ _]?\d+/u;
const ENDS = ["_low", "_high"];
const CARDS = 4;

/** The value of a metric, with its interval where the run has one. */
function estimate({ metrics }, name) {
  if (!(name in metrics)) return ["–", ""];
  const ends = ENDS.map((end) => metrics[`${name}${end}`] ?? null);
  const value = metrics[name] === null ? "not finite" : plain(metrics[name]);
  return [value, ends.includes(null) ? "" : `${ends.map((end) => Number(end.toPrecision(3))).join(" – ")}`];
}

/** Names of all metrics, without the ends of intervals; the monitored one first, then tests, losses behind. */
export function metricNames(runs) {
  const all = new Set(runs.flatMap(({ metrics }) => Object.keys(metrics)));
  const end = (name) => ENDS.some((one) => name.endsWith(one) && all.has(name.slice(0, -one.length)));
  const monitored = runs.map(({ headline }) => headline);
  const rank = (name) =>
    [!monitored.includes(name), !name.startsWith("test/"), HEAD.test(name), name.endsWith("/loss")].reduce(
      (sum, worse) => 2 * sum + Number(worse),
      0,
    );
  return [...all].filter((name) => !end(name)).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** @returns {HTMLElement[]} what the section of results holds */
export function results(runs) {
  const names = metricNames(runs);
  if (!names.length) {
    const said = "There is no metrics.json: nothing has been tested yet.";
    return [make("p.quiet", { textContent: said })];
  }
  const main = names.filter((name) => name.startsWith("test/") && !HEAD.test(name));
  const heads = names.filter((name) => HEAD.test(name));
  const rest = names.filter((name) => !heads.includes(name) && !main.includes(name));
  const several = runs.length > 1;
  const shown = several ? main : main.slice(0, CARDS);
  const more = [
    ["More numbers", [...main.slice(shown.length), ...rest]],
    ["Numbers of each head", heads],
  ];
  return [
    ...(shown.length ? [several ? comparison(runs, shown) : cards(runs[0], shown)] : []),
    ...more
      .filter(([, list]) => list.length)
      .map(([title, list]) =>
        make(
          "details",
          { open: !main.length && list !== heads },
          make("summary", { textContent: `${title} (${list.length})` }),
          table(runs, list),
        ),
      ),
  ];
}

/** Whether an option only says where the run's files lie. */
export const isPlace = (option) => /(dir|path|folder)$/u.test(option);

function cards(run, names) {
  const made = names.map((name) => {
    const [value, interval] = estimate(run, name);
    return make(
      "div.card",
      {},
      make("span.name", {}, ...breakable(name.replace(/^test\//u, "").replaceAll("_", " "))),
      make("b", { textContent: value }),
      make("span.quiet", { textContent: interval && `95%: ${interval}` }),
    );
  });
  return make("div.cards", {}, ...made);
}

/** One table: a row for each run, with the options in which the runs differ and their metrics. */
function comparison(runs, metrics) {
  const options = [...new Set(runs.flatMap(({ config }) => Object.keys(config)))].filter(
    (option) => new Set(runs.map(({ config }) => config[option] ?? "")).size > 1,
  );
  const part = (option) => option.slice(0, Math.max(0, option.indexOf("."))); // said by the choice of its group
  const told = options.filter((option) => !isPlace(option) && !options.includes(part(option))).slice(0, 6);
  const best = metrics.map((name) => bestOf(runs, name));
  const names = shortNames(runs.map(({ name }) => name));
  const rows = runs.map((run, at) =>
    make(
      "tr",
      {},
      make(`th.run-${at % 6}`, { scope: "row" }, ...breakable(names[at])),
      ...told.map((option) => make("td", {}, ...breakable(run.config[option] ?? "–", 60))),
      ...metrics.map((name, place) => {
        const [value, interval] = estimate(run, name);
        const cell = best[place] === at ? "td.value.best" : "td.value";
        return make(cell, {}, make("b", { textContent: value }), make("span.quiet", { textContent: interval }));
      }),
    ),
  );
  const head = ["run", ...told].map((name) => make("th", {}, ...breakable(name)));
  const measured = metrics.map((name) => make("th.value", {}, ...breakable(name.replace(/^test\//u, ""))));
  const top = make("thead", {}, make("tr", {}, ...head, ...measured));
  return make("div.scroll", {}, make("table.runs", {}, top, make("tbody", {}, ...rows)));
}

/** The place of the best run by the metric that it watched, whose direction it knows; -1 of any other metric. */
function bestOf(runs, name) {
  const { config } = runs[0];
  const modes = { min: 1, max: -1 };
  if (!runs.every(({ headline }) => headline === name) || !(config["monitor.mode"] in modes)) return -1;
  const values = runs.map(({ metrics }) => (metrics[name] ?? NaN) * modes[config["monitor.mode"]]);
  return values.every(Number.isFinite) ? values.indexOf(Math.min(...values)) : -1;
}

/** A table with a column for each run. */
function table(runs, names) {
  const rows = names.map((name) => [
    name,
    ...runs.map((run) => {
      const [value, interval] = estimate(run, name);
      return interval ? `${value}  [${interval}]` : value;
    }),
  ]);
  return plainTable(["metric", ...runs.map(({ name }) => name)], rows, runs.length > 1);
}

/** Rows of texts, the first of each its name. */
export function plainTable(head, rows, headed, kind = "value") {
  const cells = (tag, all) => all.map((text, at) => make(at && kind ? `${tag}.${kind}` : tag, {}, ...breakable(text, 400)));
  const top = headed ? [make("thead", {}, make("tr", {}, ...cells("th", head)))] : [];
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row))));
  return make("div.scroll", {}, make("table", {}, ...top, body));
}
