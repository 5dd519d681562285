/** What runs made of examples: samples with their attention, the commonest errors, and the worst outputs. */

import { THEMES } from "../viewer/colours.js";
import { make } from "../viewer/dom.js";
import { token, visible } from "../viewer/labels.js";
import { miniature, paint } from "../viewer/paint.js";
import { initial, toLink } from "../viewer/state.js";
import { makeRecord } from "../viewer/tiles.js";
import { plainTable } from "./results.js";
import { shortNames } from "./words.js";

const EXAMPLE = /^(.*?)\/(.+)$/u;
const MOST_HEADS = 4;
const SHOWN = 10; // rows of a table
const SIZE = 116; // pixels of a map

/** The attention of a run that shows an example best: from the output to the input, in the last layer. */
function chosenModule(tags, example) {
  const modules = tags.map((tag) => EXAMPLE.exec(tag)).filter((found) => found && found[1] === example);
  const score = ([, , module]) => (module.includes("cross") ? 4 : 0) + (/decoder(?! layer \d+ self)/u.test(module) ? 2 : 0);
  return modules.sort((a, b) => score(b) - score(a) || b[2].localeCompare(a[2]))[0]?.[2];
}

/** @returns {HTMLElement[]} a card for each example */
export function samples(page, source, theme) {
  const names = shortNames(page.runs.map(({ name }) => name));
  const examples = [
    ...new Set(
      page.runs.flatMap(({ name }) =>
        Object.keys(page.tags[name] ?? {}).flatMap((tag) => EXAMPLE.exec(tag)?.[1] ?? []),
      ),
    ),
  ];
  const cards = examples.map((example, number) => {
    const outputs = page.runs.map((run, at) => oneRun(page, source, theme, { run, at, example, number, names }));
    const first = page.runs.find((run) => run.samples[number])?.samples[number];
    const title = first ? first[0] : example;
    const expected = first?.[2] ? [make("p", {}, make("span.quiet", { textContent: "expected" }), token(first[2]))] : [];
    return make(
      "article.sample",
      {},
      make("h3", { textContent: visible(title, 200), title: visible(title, 400) }),
      ...expected,
      ...outputs.filter(Boolean),
    );
  });
  return cards.length ? [make("div.samples", {}, ...cards)] : [];
}

function oneRun(page, source, theme, { run, at, example, number, names }) {
  const tags = page.tags[run.name] ?? {};
  const module = chosenModule(Object.keys(tags), example);
  if (!module) return null;
  const tag = `${example}/${module}`;
  const said = run.samples[number];
  const right = said && said[2] && said[1] === said[2];
  const maps = make("a.maps", {
    href: `#${toLink({ ...initial(), run: run.name, example, module })}`,
    title: `show ${visible(module, 60)} of this example below`,
    onclick: () => document.querySelector(".viewer")?.scrollIntoView({ behavior: "smooth" }),
  });
  source.record(run.name, tag, tags[tag].steps.at(-1)).then((found) => {
    const record = makeRecord(found);
    const show = () => maps.replaceChildren(...miniatures(record, THEMES[theme.dark() ? "dark" : "light"]));
    theme.watch(show);
    show();
  });
  const called = page.runs.length > 1 ? names[at] : "output";
  const output = said
    ? [make("p", {}, make("span.quiet", { textContent: called }), make(right ? "b.right" : "b.wrong", { textContent: token(visible(said[1], 300)) }))]
    : [];
  return make("div", {}, ...output, maps, make("p.quiet", { textContent: visible(module, 80) }));
}

function miniatures(record, theme) {
  const heads = Array.from({ length: Math.min(record.heads, MOST_HEADS) }, (_, head) => head);
  const size = heads.length > 1 ? SIZE / 1.9 : SIZE;
  const grid = miniature(record.queries, record.keys, size, (least) => record.step(least));
  return heads.map((head) => {
    const canvas = paint(record, head, grid, theme, { root: false, maximum: 1 }, 1);
    Object.assign(canvas.style, { width: `${grid.width}px`, height: `${grid.height}px` });
    canvas.setAttribute("aria-label", `head ${record.headNumber(head)}`);
    return canvas;
  });
}

/** @returns {HTMLElement[]} for each run its commonest errors and its worst outputs, where it has them */
export function errors(runs) {
  const names = shortNames(runs.map(({ name }) => name));
  return runs.flatMap(({ confusions, worst }, at) => {
    if (!worst.length) return [];
    const head = runs.length > 1 ? [make(`h3.run-${at % 6}`, { textContent: visible(names[at], 100) })] : [];
    const common = confusions.length
      ? [
          make("h4", { textContent: "Commonest" }),
          plainTable(["expected → written", "times", "example"], confusions.slice(0, SHOWN), true, ""),
        ]
      : [];
    const columns = ["input", "output", "reference", "edits"];
    const rest = worst.slice(SHOWN);
    const summary = make("summary", { textContent: `${rest.length} more` });
    const most = [
      make("h4", { textContent: "Worst outputs, by edits for each symbol" }),
      plainTable(columns, worst.slice(0, SHOWN), true, ""),
      ...(rest.length ? [make("details", {}, summary, plainTable(columns, rest, true, ""))] : []),
    ];
    const box = (parts) => (parts.length ? [make("div", {}, ...parts)] : []);
    return [...head, make("div.errors", {}, ...box(common), ...box(most))];
  });
}
