/** Make a scene, which can be drawn, from the loaded records and the state. */

import { compare } from "./difference.js";
import { visible } from "./labels.js";
import { partOf } from "./part.js";
import { sideBySide } from "./run_names.js";

const pairs = new WeakMap(); // comparisons of records, since subtracting millions of cells should be done only once

/** The comparison of two records; nothing if one is missing. */
function comparison(a, b) {
  if (!a.record || !b.record) return { queries: 0, keys: 0, whole: false, difference: null };
  if (!pairs.has(a.record)) pairs.set(a.record, new WeakMap());
  const of = pairs.get(a.record);
  if (!of.has(b.record)) of.set(b.record, compare(a.record, b.record));
  return of.get(b.record);
}

/** A sentence on how far two records that differ in length or labels can be compared. */
function partial(a, b, { queries, keys, difference }) {
  const shapes = [a, b].map(({ record }) => record.header.shape.slice(1).join(" × "));
  const apart =
    shapes[0] === shapes[1] ? "A and B have different labels" : `A is ${shapes[0]} and B is ${shapes[1]}`;
  if (!difference) return `${apart}: no difference can be taken, so both are shown, on one scale`;
  const same = [
    ...(queries < Math.max(a.record.queries, b.record.queries) ? [queries === 1 ? "query" : `${queries} queries`] : []),
    ...(keys < Math.max(a.record.keys, b.record.keys) ? [keys === 1 ? "key" : `${keys} keys`] : []),
  ].join(" and ");
  return `${apart}: B − A covers the first ${same}, which ${same === "query" || same === "key" ? "is" : "are"} the same in both`;
}

const OWN_VIEWS = { picture: ["picture"], regression: ["curve"] }; // of a kind of record, besides those of every kind

/** The views that all records can be shown in, the best first. */
function viewsOf([{ header }, ...others]) {
  const own = others.every((other) => other.header.kind === header.kind) ? OWN_VIEWS[header.kind] : null;
  return [...(own ?? []), "map", "lines"];
}

/** What colours cannot show of a record. */
function remarks({ header, goldLeftOut }) {
  const said = [];
  if (header.maximum > 1) said.push(`weights up to ${header.maximum.toFixed(2)}, drawn as 1`);
  if (header.minimum < 0) said.push(`weights down to −${Math.abs(header.minimum).toFixed(2)}, drawn as 0`);
  if (header.not_finite) said.push(`${header.not_finite} not finite, drawn as masked`);
  if (goldLeftOut) said.push(`${goldLeftOut.toLocaleString("en")} gold cells, too many to outline`);
  if (header.tiles) {
    const { heads, of, kept } = header.tiles;
    const some = heads.length < of ? `${heads.length} of ${of} heads` : "";
    const known = `the ${kept} largest weights of each query exactly; other cells show the mean of their tile`;
    said.push(`long input: the record keeps ${[some, known].filter(Boolean).join(", and ")}`);
  }
  return said.join("; ");
}

/**
 * @param {{module: string, a: object, b: object}[]} loaded {record, problem, place} for each module in both runs
 * @param {object} state
 * @param {{theme: object, ratio: number}} page
 * @returns {{scene: object|null, scales: object, tiles: object[], views: string[], problem: string, quiet: boolean}}
 *   quiet: no problem
 */
export function buildScene(loaded, state, page) {
  const here = loaded.find(({ module }) => module === state.module) ?? loaded[0];
  const side = state.other ? state.side : "a";
  const tiles = loaded.map((one) => tileOf(one, side));
  const scales = scalesOf(loaded, state);
  const { a, b } = here;
  const needed = side === "b" ? b : a; // without which nothing can be shown
  if (!needed.record) {
    const said = side === "b" ? "run B" : "This record cannot be shown";
    const problem = needed.problem ? `${said}: ${needed.problem}` : "";
    return { scene: null, scales, tiles, views: ["map"], problem };
  }
  const first = needed.record;
  const views = viewsOf([first, ...(side === "b" || side === "a" || !b.record ? [] : [b.record])]);
  const view = views.includes(state.view) ? state.view : views[0];
  const problems = [];
  const head = Math.min(state.head, first.heads - 1);
  const panels = [];
  const names = sideBySide([a, b].map(({ place }) => place?.run).filter(Boolean));
  const add = (name, slot, record, more = {}) =>
    panels.push({
      name,
      record,
      head: Math.min(head, record.heads - 1),
      difference: false,
      step: slot.place.step,
      title: titleOf(name, slot, state.other, here.module, record.headNumber(head), names),
      ...more,
    });
  const pair = comparison(a, b);
  const subtracts = ["map", "picture"].includes(view); // whether the view can show a difference
  const subtracted = pair.difference !== null && subtracts;
  const each = side !== "difference" || !subtracted; // both, if their difference cannot be shown
  if (a.record && side !== "b" && each) add("A", a, a.record);
  if (b.record && side !== "a" && each) add("B", b, b.record);
  if (state.other && side !== "a" && !b.record) problems.push(`run B: ${b.problem || "not logged"}`);
  if (a.record && b.record && ["all", "difference"].includes(side)) {
    if (!pair.whole && (subtracts || (side === "difference" && !pair.difference))) problems.push(partial(a, b, pair));
    else if (!subtracted && side === "difference") problems.push("B − A can only be shown as a map, so both runs are shown");
    if (subtracted) {
      const part = pair.whole ? "" : ` · first ${pair.queries} × ${pair.keys}`;
      add("B − A", a, pair.difference, { difference: true, title: `B − A · head ${a.record.headNumber(head)}${part}` });
    }
  }
  const notes = panels
    .filter((panel) => !panel.difference)
    .map(({ record }) => remarks(record))
    .filter(Boolean);
  const shown = [["A", a, "b"], ["B", b, "a"]].filter(([, { record }, without]) => record && side !== without); // prettier-ignore
  const scene = {
    ...page,
    ...scales,
    panels,
    compared: shown.map(([name, { record, place }]) => ({ name, record, run: place.run })),
    view,
    views,
    head,
    heads: first.heads,
    query: state.query,
    threshold: state.threshold,
    mean: state.tile === "mean",
    ...partOf(panels, state),
  };
  const said = [...new Set([...problems, ...notes])].join(" · ");
  return { scene, scales, tiles, views, problem: said, quiet: !problems.length };
}

function titleOf(name, slot, other, module, head, names) {
  if (!other) return [`head ${head}`, visible(module, 80)].filter(Boolean).join(" · ");
  return `${name} · head ${head} · ${names.get(slot.place.run)}`;
}

/** The record that represents a module among the small maps; none while one that is needed is being fetched. */
function tileOf({ module, a, b }, side) {
  const open = Boolean((side !== "b" && a.open) || (["b", "difference"].includes(side) && b.open));
  if (open) return { module, record: null, problem: "", open };
  if (side === "b") return { module, record: b.record, problem: b.problem, open };
  const { difference } = side === "difference" ? comparison(a, b) : {};
  if (difference) return { module, record: difference, problem: "", open };
  return { module, record: a.record, problem: a.problem, open };
}

const MANY = 100; // with this many keys, no weight is near 1
export const VERY_MANY = 400; // with this many keys, a linear scale shows few of the weights

/** Whether the scale ends at 1 or at the largest weight: as chosen, or as suits the number of keys. */
function rangeOf(state, records) {
  const many = records.some(({ header, keys }) => header.kind !== "sequence" || keys >= MANY);
  return state.range || (many ? "shared" : "fixed");
}

/** Whether colours show weights or their square roots: as chosen, or as suits the number of keys. */
function scaleOf(state, records) {
  return state.scale || (records.some(({ keys }) => keys >= VERY_MANY) ? "root" : "linear");
}

/** One scale for all maps: up to 1, or up to the largest of all loaded weights. */
function scalesOf(loaded, state) {
  const records = loaded.flatMap(({ a, b }) => [a.record, b.record]).filter(Boolean);
  const [range, root] = [rangeOf(state, records), scaleOf(state, records) === "root"];
  const fixed = { range, scale: { root, maximum: 1 }, difference: { root, maximum: 1 } };
  if (range === "fixed") return fixed;
  const differences = loaded.map(({ a, b }) => comparison(a, b).difference).filter(Boolean);
  const most = (all) => Math.max(1e-4, ...all.map(({ largest }) => largest));
  return {
    range,
    scale: { root, maximum: most(records) },
    difference: { root, maximum: differences.length ? most(differences) : 1 },
  };
}
