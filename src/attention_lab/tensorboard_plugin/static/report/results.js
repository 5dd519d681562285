/** The numbers of runs: first the headline metrics, with one row per run if there are several; the rest is folded. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";
import { breakable, colours, long, shortNames } from "./words.js";

const CARDS = 4;
const TOLD = 6; // most options in a row

/** The results of a kind that any run has: `{metric, name}`, in the order of the runs. */
function metricsOf(runs, kind) {
  const found = new Map();
  for (const { results } of runs)
    for (const one of results) if (one.kind === kind && !found.has(one.metric)) found.set(one.metric, one.name);
  return [...found].map(([metric, name]) => ({ metric, name }));
}

/** The result of a run by the name of its metric. */
const resultOf = (run, { metric }) => run.results.find((one) => one.metric === metric) ?? { value: "–", interval: "" };

/** The metrics by which runs are compared, as files name them. */
export const headlines = (runs) => metricsOf(runs, "headline").map(({ metric }) => metric);

/** @returns {HTMLElement[]} the content of the section of results */
export function results(runs) {
  const [main, rest, heads] = ["headline", "more", "head"].map((kind) => metricsOf(runs, kind));
  if (!main.length && !rest.length && !heads.length) {
    const said = "There is no metrics.json: nothing has been tested yet.";
    return [make("p.quiet", { textContent: said })];
  }
  const several = runs.length > 1;
  const more = [
    ["More numbers", [...(several ? [] : main.slice(CARDS)), ...rest]],
    ["Numbers of each head", heads],
  ];
  return [
    ...(several ? [table(runs, main)] : main.length ? [cards(runs[0], main.slice(0, CARDS))] : []),
    ...more
      .filter(([, list]) => list.length)
      .map(([title, list]) =>
        make(
          "details",
          { open: !main.length && list !== heads },
          make("summary", { textContent: `${title} (${list.length})` }),
          everyNumber(runs, list),
        ),
      ),
  ];
}

/** Whether an option only says where the run's files are. */
export const isPlace = (option) => /(dir|path|folder)$/u.test(option);

function cards(run, metrics) {
  const made = metrics.map((metric) => {
    const { value, interval } = resultOf(run, metric);
    return make(
      "div.card",
      {},
      make("span.name", {}, ...breakable(metric.name)),
      make("b", { textContent: value }),
      make("span.quiet", { textContent: interval && `95%: ${interval}` }),
    );
  });
  return make("div.cards", {}, ...made);
}

/** The options in which runs differ, except those that their names contain or that follow from another option. */
function toldOptions(runs, names) {
  const options = [...new Set(runs.flatMap(({ config }) => [...config.keys()]))].filter(
    (option) => new Set(runs.map(({ config }) => config.get(option) ?? "")).size > 1,
  );
  const part = (option) => option.slice(0, Math.max(0, option.indexOf("."))); // the choice of its group says it
  const seeds = (option) => option !== "seed" && runs.every(({ config }) => config.get(option) === config.get("seed"));
  const named = (option) => runs.every(({ config }, at) => ` ${names[at]} `.includes(` ${option}=${config.get(option)} `));
  const known = (option) => isPlace(option) || options.includes(part(option)) || named(option) || seeds(option);
  return options.filter((option) => !known(option)).slice(0, TOLD);
}

/** A table with a row for each run: the options in which the runs differ, and their metrics. */
function table(runs, metrics) {
  const names = shortNames(runs.map(({ name }) => name));
  const told = toldOptions(runs, names);
  const looks = colours(runs);
  const rows = runs.map((run, at) =>
    make(
      "tr",
      {},
      make(`th.run-${looks[at].hue % 6}`, { scope: "row", title: visible(run.name) }, long(names[at], 100)),
      ...told.map((option) => make("td", {}, long(run.config.get(option) ?? "–", 60))),
      ...metrics.map((metric) => {
        const { value, interval } = resultOf(run, metric);
        return make("td.value", {}, make("span", { textContent: value }), make("span.quiet", { textContent: interval }));
      }),
    ),
  );
  const head = ["run", ...told].map((name) => make("th", {}, ...breakable(name)));
  const measured = metrics.map(({ name }) => make("th.value", {}, ...breakable(name)));
  const top = make("thead", {}, make("tr", {}, ...head, ...measured));
  return scrolling(make("table.runs", {}, top, make("tbody", {}, ...rows)));
}

/** A table with a column for each run. */
function everyNumber(runs, metrics) {
  const rows = metrics.map((metric) => [
    metric.name,
    ...runs.map((run) => {
      const { value, interval } = resultOf(run, metric);
      return interval ? `${value}  [${interval}]` : value;
    }),
  ]);
  return plainTable(["metric", ...shortNames(runs.map(({ name }) => name))], rows, runs.length > 1);
}

/** A table of texts; the first of each row is its name. */
export function plainTable(head, rows, headed, kind = "value") {
  const cells = (tag, all) => all.map((text, at) => make(at && kind ? `${tag}.${kind}` : tag, {}, ...breakable(text, 400)));
  const top = headed ? [make("thead", {}, make("tr", {}, ...cells("th", head)))] : [];
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row))));
  return scrolling(make("table", {}, ...top, body));
}

/** A table that scrolls sideways if it is wider than the page; only then the Tab key leads to it, for keys to scroll it. */
export function scrolling(table) {
  const box = make("div.scroll", {}, table);
  const focusable = { tabindex: "0", role: "group", "aria-label": "table that scrolls sideways" };
  new ResizeObserver(() => {
    const scrolls = box.scrollWidth > box.clientWidth;
    for (const [name, value] of Object.entries(focusable)) {
      if (scrolls) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  }).observe(box);
  return box;
}
