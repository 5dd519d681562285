/** The runs' outputs for examples: samples with their attention, the most common errors, and the worst outputs. */

import { natural } from "../viewer/catalogue.js";
import { THEMES } from "../viewer/colours.js";
import { make } from "../viewer/dom.js";
import { token, visible } from "../viewer/labels.js";
import { arrange, draw } from "../viewer/map.js";
import { CanvasPen } from "../viewer/pen.js";
import { isPicture } from "../viewer/pixels.js";
import { VERY_MANY } from "../viewer/scene.js";
import { Shelf } from "../viewer/source.js";
import { initial, toLink } from "../viewer/state.js";
import { plainTable } from "./results.js";
import { hasPicture, smallPictures } from "./small_pictures.js";
import { breakable, colours, shortNames, withoutShared } from "./words.js";

const EXAMPLE = /^(.*?)\/(.+)$/u;
const MOST_HEADS = 4;
const SHOWN = 10; // most rows of a table
const MOST_RUNS = 6; // most runs shown for an example
const MOST_EXAMPLES = 200;
const CELL = 26; // most pixels of a row of a small map
const [LEAST, MOST] = [130, 640]; // least and most pixels of the width of a small map
const GAP = 8; // pixels between two maps

/** The attention of a run that shows an example best: from output to input, in the last layer. */
function chosenModule(tags, example) {
  const modules = tags.map((tag) => EXAMPLE.exec(tag)).filter((found) => found && found[1] === example);
  const score = ([, , module]) => (module.includes("cross") ? 4 : 0) + (/decoder(?! layer \d+ self)/u.test(module) ? 2 : 0);
  return modules.sort((a, b) => score(b) - score(a) || b[2].localeCompare(a[2]))[0]?.[2];
}

/** @returns {HTMLElement[]} a line about the maps, then the cards of each data set */
export function samples(page, source, theme) {
  const names = shortNames(page.runs.map(({ name }) => name));
  const looks = colours(page.runs);
  const shelf = new Shelf(source); // keeps few large records, which may be of any number
  const logged = [...page.runs.keys()].filter((at) => Object.hasOwn(page.tags, page.runs[at].name)); // a test logs no attention
  const groups = [...Map.groupBy(logged, (at) => page.runs[at].data)]
    .map(([data, runs]) => ({ data, runs, examples: examplesOf(page, chosenRuns(looks, runs)) }))
    .filter(({ examples }) => examples.length);
  const card = (called) => ({ example, sample, outputs }) => {
    const title = sample?.[0] && !isPicture(sample[0]) ? sample[0] : example; // the rows of a picture are in the maps
    const expected = sample?.[2] ? [said("expected", "span", sample[2])] : [];
    const maps = outputs.map(({ at, ...output }) =>
      oneRun(page, shelf, theme, { ...output, run: page.runs[at], example, title, name: called.get(at), hue: looks[at].hue }),
    );
    const heading = make("h3", { textContent: visible(title, 200), title: visible(title, 400) });
    return make("article.sample", {}, heading, ...expected, make("div.outputs", {}, ...maps));
  };
  const cards = groups.flatMap(({ data, runs, examples }) => {
    const short = withoutShared(runs.map((at) => names[at]));
    const called = new Map(runs.map((at, place) => [at, short[place]]));
    return [
      ...(data ? [make("h3", { textContent: visible(data, 200) })] : []),
      make(runs.length > 1 ? "div.samples.compared" : "div.samples", {}, ...examples.slice(0, MOST_EXAMPLES).map(card(called))),
    ];
  });
  return cards.length ? [make("p.quiet", {}, ...about(groups)), ...cards] : [];
}

/** What the maps show, and what is left out; a style sheet hides what is said of images where none is drawn. */
function about(groups) {
  const of = groups.length > 1 ? " of each data set" : "";
  const left = groups.some(({ runs }) => runs.length > MOST_RUNS);
  const more = left ? ` Only ${MOST_RUNS} runs${of} are shown, one of each setting first; all runs are under Attention.` : "";
  const many = groups.some(({ examples }) => examples.length > MOST_EXAMPLES);
  const first = many ? ` Only ${MOST_EXAMPLES} examples${of} are shown; all are under Attention.` : "";
  const modules = groups.flatMap(({ examples }) => examples.flatMap(({ outputs }) => outputs.map(({ module }) => module)));
  const named = [...new Set(modules)].map((module) => visible(module, 60)).join(" and ");
  const what = named === "attention" ? "" : ` of ${named},`;
  const form = `Attention${what} at the last step: a row for each query and a column for each key`;
  return [form, make("span.over-image", { textContent: ", or the weights over the image" }), `.${more}${first}`];
}

/**
 * The examples of runs on the same data. Their number alone does not tell them apart: data with another seed has others.
 * @returns {{example: string, sample: string[]|undefined, outputs: {at: number, module: string, sample: string[]|undefined}[]}[]}
 *   each with the runs that were given the same input, with the same expected output
 */
function examplesOf(page, runs) {
  const found = new Map();
  for (const at of runs) {
    const { name, samples: own } = page.runs[at];
    const tags = page.tags[name] ?? {};
    for (const example of new Set(Object.keys(tags).flatMap((tag) => EXAMPLE.exec(tag)?.[1] ?? []))) {
      const module = chosenModule(Object.keys(tags), example);
      const sample = own[sampleOf(example)];
      const key = JSON.stringify([example, sample?.[0] ?? tags[`${example}/${module}`].input, sample?.[2]]);
      const one = found.get(key) ?? { example, sample, outputs: [] };
      one.outputs.push({ at, module, sample });
      found.set(key, one);
    }
  }
  return [...found.values()].sort((a, b) => natural(a.example, b.example));
}

/** The index of an example among the samples; -1 if it has a name of its own, and so no sample. */
const sampleOf = (example) => Number(/^example (\d+)$/u.exec(example)?.[1] ?? 0) - 1;

/** Which of some runs to show: the first run of each setting (which has its colour), then the second of each. */
function chosenRuns(looks, runs) {
  const rank = looks.map(({ hue }, at) => looks.slice(0, at).filter((other) => other.hue === hue).length);
  return [...runs].sort((a, b) => rank[a] - rank[b] || a - b).slice(0, MOST_RUNS);
}

/** A text of an example after its name. */
const said = (name, tag, text) =>
  make("p", {}, make("span.quiet", { textContent: name }), make(tag, { textContent: token(visible(text, 300)) }));

function oneRun(page, shelf, theme, { run, example, title, module, sample, name, hue }) {
  const several = page.runs.length > 1;
  const tag = `${example}/${module}`;
  const right = sample && sample[2] && sample[1] === sample[2];
  const scored = sample && sample[2] && run.confusions.length + run.worst.length > 0; // a number is only more or less close
  const maps = make("a.maps", {
    href: `#${toLink({ ...initial(), run: run.name, example, module })}`,
    title: `show ${visible(module, 60)} for this example below`,
    onclick: () => {
      const viewer = document.querySelector(".viewer");
      viewer?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      viewer?.querySelector(".al-viewer")?.focus({ preventScroll: true }); // its keys work from here on
    },
  });
  // A list of the page's links has nothing else to tell them apart.
  const named = [title, ...(several ? [name] : [])].map((text) => visible(text, 100)).join(", ");
  const spoken = make("span.unseen", { textContent: `${named}: ${visible(module, 60)} ` });
  const place = { run: run.name, tag, step: page.tags[run.name][tag].steps.at(-1), time: 0 };
  let busy = false;
  const show = () => {
    if (busy) return;
    busy = true;
    shelf
      .get(place)
      .then((record) => small(record, THEMES[theme.dark() ? "dark" : "light"], maps.clientWidth))
      .catch((error) => [visible(error.message)])
      .then((drawn) => {
        busy = false;
        maps.replaceChildren(spoken, ...drawn);
      });
  };
  show();
  theme.watch(show);
  addEventListener("resize", show);
  const called = several ? [make(`p.called.run-${hue % 6}`, {}, ...breakable(name))] : [];
  const output = sample ? [said("output", right ? "b.right" : scored ? "b.wrong" : "b", sample[1])] : [];
  return make("div", {}, ...called, ...output, maps);
}

/** The heads of a record as the viewer draws them, over an image or as maps without captions, as wide as `room` allows. */
function small(record, theme, room) {
  const heads = Array.from({ length: Math.min(record.heads, MOST_HEADS) }, (_, head) => head);
  return hasPicture(record) ? smallPictures(record, heads, theme, room) : smallMaps(record, heads, theme, room);
}

function smallMaps(record, heads, theme, room) {
  const beside = heads.length > 1 && room >= 2 * LEAST + GAP ? 2 : 1;
  const width = Math.min(MOST, (room - GAP * (beside - 1)) / beside - 4);
  const height = heads.length > 1 ? 200 : 320;
  const tall = (below) => Math.min(height, 21 + below + CELL * record.queries); // with so much room for the keys
  const part = { rows: [0, Infinity], columns: [0, Infinity] };
  const scale = { root: record.keys >= VERY_MANY, maximum: 1 };
  return heads.map((head) => {
    const panel = { record, head };
    const scene = { panels: [panel], part, theme, scale, mean: false, bare: true };
    const box = { x: 0, y: 0, width, height: tall(39) };
    const { below } = arrange(scene, panel, box); // more if the keys are turned
    const placed = arrange(scene, panel, { ...box, height: tall(below) });
    const [wide, high] = [Math.floor(Math.min(placed.width, width)) + 4, Math.ceil(placed.height)];
    const ratio = Math.min(2, devicePixelRatio || 1);
    const canvas = make("canvas", { width: wide * ratio, height: high * ratio, role: "img" });
    canvas.style.width = `${wide}px`;
    canvas.setAttribute("aria-label", `head ${record.headNumber(head)}`);
    if (heads.length > 1) canvas.title = `head ${record.headNumber(head)}`;
    draw(new CanvasPen(canvas.getContext("2d"), ratio), scene, placed);
    return canvas;
  });
}

/** @returns {HTMLElement[]} the most common errors and worst outputs of each run; folded if there are several runs */
export function errors(runs) {
  const names = shortNames(runs.map(({ name }) => name));
  const wrong = runs.map((run, at) => ({ ...run, called: names[at] })).filter(({ worst }) => worst.length);
  if (runs.length === 1) return wrong.map(errorsOf);
  return wrong.map((run) => {
    const [common, times] = run.confusions[0] ?? [];
    const summary = make("summary", {}, ...breakable(run.called));
    if (common) summary.append(make("span.quiet", { textContent: ` most often ${visible(common, 60)}, ${times} times` }));
    return make("details", {}, summary, errorsOf(run));
  });
}

function errorsOf({ confusions, worst }) {
  const common = confusions.length
    ? [
        make("h3", { textContent: "Most common" }),
        plainTable(["expected → output", "times", "example"], confusions.slice(0, SHOWN), true, ""),
      ]
    : [];
  const columns = ["input", "output", "expected", "edits"];
  const rest = worst.slice(SHOWN);
  const summary = make("summary", { textContent: `${rest.length} more` });
  const most = [
    make("h3", { textContent: "Worst outputs, by edits per symbol" }),
    plainTable(columns, worst.slice(0, SHOWN), true, ""),
    ...(rest.length ? [make("details", {}, summary, plainTable(columns, rest, true, ""))] : []),
  ];
  const box = (parts) => (parts.length ? [make("div", {}, ...parts)] : []);
  return make("div.errors", {}, ...box(common), ...box(most));
}
