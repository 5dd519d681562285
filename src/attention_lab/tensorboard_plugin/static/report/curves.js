/** The curves of runs: those of one metric together, training dashed beside validation, and the heads of an attention. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";
import { chart } from "./charts.js";
import { shortNames } from "./words.js";

const PARTS = ["validation", "val", "valid", "test", "train"]; // in training and elsewhere: one metric
const HEAD = /^(.*) head (\d+)$/u;

/** Charts by group: `{group: {title: series}}`. */
function grouped(runs, names) {
  const several = runs.length > 1;
  const groups = new Map();
  const add = (group, title, series) => {
    const charts = groups.get(group) ?? groups.set(group, new Map()).get(group);
    charts.set(title, [...(charts.get(title) ?? []), series]);
  };
  runs.forEach(({ curves }, run) => {
    for (const [tag, points] of Object.entries(curves)) {
      if (points.length < 2) continue; // one point is a result, and stands there
      const [part, name] = tag.includes("/") ? split(tag) : ["", tag];
      const head = HEAD.exec(tag);
      if (head) {
        const hue = several ? run : Number(head[2]) - 1;
        const called = `head ${head[2]}`;
        const [measure, place] = splitMeasure(head[1]);
        add(measure, place, { name: several ? `${names[run]} ${called}` : called, hue, dashed: false, points });
      } else if (PARTS.includes(part)) {
        const alone = !several && !runs.some((one) => PARTS.some((p) => p !== part && `${p}/${name}` in one.curves));
        const called = [several ? names[run] : "", alone && several ? "" : part].filter(Boolean).join(" ");
        add("", name, { name: called, hue: run, dashed: part === "train", points });
      } else add("other", tag, { name: several ? names[run] : "", hue: run, dashed: false, points });
    }
  });
  return groups;
}

function split(tag) {
  const at = tag.indexOf("/");
  return [tag.slice(0, at), tag.slice(at + 1)];
}

/** `weights/heads/entropy/decoder` (earlier: `attention_entropy/decoder`) is the entropy of the decoder. */
function splitMeasure(tag) {
  const at = tag.lastIndexOf("/");
  const measure = tag.slice(0, Math.max(0, at)).replace(/^weights\/heads\/|^attention_/u, "");
  return [measure ? `${measure} of each head` : "heads", tag.slice(at + 1)];
}

/** @returns {HTMLElement[]} what the section of curves holds */
export function curves(runs, headlines) {
  const groups = grouped(runs, shortNames(runs.map(({ name }) => name)));
  const rank = (name) => {
    const at = headlines.findIndex((one) => one.endsWith(`/${name}`));
    return name === "loss" ? -1 : at < 0 ? headlines.length + (name.startsWith("learning_rate") ? 1 : 0) : at;
  };
  const drawn = (charts, order) =>
    make("div.charts", {}, ...[...charts].sort(order).map(([title, series]) => chart(title, series)));
  const main = groups.get("") ?? new Map();
  groups.delete("");
  const folded = [...groups].map(([group, charts]) =>
    make(
      "details",
      { open: !main.size },
      make("summary", { textContent: `${visible(group, 60)} (${charts.size})` }),
      drawn(charts, () => 0),
    ),
  );
  return [...(main.size ? [drawn(main, ([a], [b]) => rank(a) - rank(b) || a.localeCompare(b))] : []), ...folded];
}
