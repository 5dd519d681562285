/** The curves of runs: those of a metric in one chart, with training dashed, and the heads of an attention. */

import { splitTag } from "../viewer/catalogue.js";
import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";
import { chart } from "./charts.js";
import { colours, shortNames, spelled } from "./words.js";

const PARTS = ["validation", "val", "valid", "test", "train"]; // prefixes under which the same metric is logged
const KEYS = 24; // most settings that the key names
const HEAD = /^(.*)[ /]head[ _]?(\d+)$/u;

/** Charts by group: `{group: {title: series}}`. */
function grouped(runs, names) {
  const several = runs.length > 1;
  const looks = colours(runs);
  const groups = new Map();
  const add = (group, title, series) => {
    const charts = groups.get(group) ?? groups.set(group, new Map()).get(group);
    charts.set(title, [...(charts.get(title) ?? []), series]);
  };
  runs.forEach(({ curves }, run) => {
    const of = several ? names[run] : "";
    const { hue, again, name: setting } = looks[run];
    const one = { of, hue, again, setting: several ? setting : "", dashed: false };
    for (const [tag, points] of Object.entries(curves)) {
      if (points.length < 2) continue; // a single point is shown among the results
      const [part, name] = tag.includes("/") ? splitTag(tag) : ["", tag];
      const head = HEAD.exec(tag);
      if (head) {
        const called = `head ${head[2]}`;
        const ofPart = PARTS.includes(part); // such as validation/alignment_mass/head 1
        const [measure, place] = ofPart ? ["numbers of each head", splitTag(head[1])[1]] : splitMeasure(head[1]);
        add(measure, place, { ...one, name: called, hue: several ? hue : Number(head[2]) - 1, points });
      } else if (PARTS.includes(part)) {
        const alone = !several && !runs.some((other) => PARTS.some((p) => p !== part && `${p}/${name}` in other.curves));
        const called = alone ? "" : several && part !== "train" ? "" : part;
        add("", name, { ...one, name: called, dashed: part === "train", points });
      } else add("other", tag, { ...one, name: "", points });
    }
  });
  return groups;
}

/** `weights/heads/entropy/decoder` (earlier: `attention_entropy/decoder`) is the entropy of the decoder. */
function splitMeasure(tag) {
  const at = tag.lastIndexOf("/");
  const measure = tag.slice(0, Math.max(0, at)).replace(/^weights\/heads\/|^attention_/u, "");
  return [measure ? `${measure} of each head` : "heads", tag.slice(at + 1)];
}

/** @returns {HTMLElement[]} the content of the section of curves */
export function curves(runs, headlines) {
  const names = shortNames(runs.map(({ name }) => name));
  const groups = grouped(runs, names);
  const rank = (name) => (name === "loss" ? -1 : headlines.findIndex((one) => one.endsWith(`/${name}`)));
  const byName = ([a], [b]) => rank(a) - rank(b) || a.localeCompare(b);
  const drawn = (charts, order) =>
    make("div.charts", {}, ...[...charts].sort(order).map(([title, series]) => chart(spelled(title), series)));
  const all = groups.get("") ?? new Map();
  groups.delete("");
  const leads = ([title]) => title === "loss" || headlines.some((one) => one.endsWith(`/${title}`));
  const main = new Map([...all].some(leads) ? [...all].filter(leads) : all);
  const rest = new Map([...all].filter(([title]) => !main.has(title)));
  const folded = [...(rest.size ? [["More curves", rest]] : []), ...groups].map(([group, charts]) =>
    make(
      "details",
      { open: !main.size },
      make("summary", { textContent: `${visible(spelled(group), 60)} (${charts.size})` }),
      drawn(charts, group === "More curves" ? byName : () => 0),
    ),
  );
  const firsts = colours(runs).filter(({ again }) => !again);
  const dashed = runs.some((run) => Object.keys(run.curves).some((tag) => tag.startsWith("train/")));
  const key = make(
    "div.key",
    {},
    ...firsts.slice(0, KEYS).map(({ name, hue }) => make(`span.run-${hue % 6}`, { textContent: visible(name, 200) })),
    ...(firsts.length > KEYS ? [make("b", { textContent: `and ${firsts.length - KEYS} more` })] : []),
    ...(firsts.length < runs.length ? [make("b", { textContent: "thin lines: further seeds" })] : []),
    ...(dashed ? [make("b", { textContent: "┄ training" })] : []),
  );
  return [...(runs.length > 1 && (main.size || folded.length) ? [key] : []), ...(main.size ? [drawn(main, byName)] : []), ...folded];
}
