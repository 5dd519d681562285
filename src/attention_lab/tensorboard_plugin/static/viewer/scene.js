/** From the records that are loaded and the state to what is drawn. */

import { visible } from "./labels.js";
import { Difference, unlike } from "./record.js";

const differences = new WeakMap(); // of pairs of records: a subtraction of millions of cells is not done twice

function difference(a, b) {
  if (!differences.has(a)) differences.set(a, new WeakMap());
  const of = differences.get(a);
  if (!of.has(b)) of.set(b, new Difference(a, b));
  return of.get(b);
}

/** The views that a record can be shown in, the best first. */
function viewsOf({ header }) {
  if (header.kind === "picture") return ["picture", "map", "lines"];
  return header.kind === "regression" ? ["curve", "map", "lines"] : ["map", "lines"];
}

/** What colours cannot tell of a record. */
function remarks({ header }) {
  const said = [];
  if (header.maximum > 1) said.push(`weights up to ${header.maximum.toFixed(2)}, drawn as 1`);
  if (header.minimum < 0) said.push(`weights down to ${header.minimum.toFixed(2)}, drawn as 0`);
  if (header.not_finite) said.push(`${header.not_finite} not finite, drawn as masked`);
  return said.join("; ");
}

/**
 * @param {{module: string, a: object, b: object}[]} loaded of each module, of both runs: {record, problem, place}
 * @param {object} state
 * @param {{theme: object, height: number, ratio: number}} page
 * @returns {{scene: object|null, tiles: object[], views: string[], problem: string}}
 */
export function buildScene(loaded, state, page) {
  const here = loaded.find(({ module }) => module === state.module) ?? loaded[0];
  const side = state.other ? state.side : "a";
  const tiles = loaded.map((one) => tileOf(one, side));
  const scales = scalesOf(loaded, tiles, state);
  const { a, b } = here;
  if (!a.record && !(b.record && side === "b")) {
    return {
      scene: null,
      tiles,
      views: ["map"],
      problem: a.problem ? `This record cannot be shown: ${a.problem}` : "",
    };
  }
  const first = a.record ?? b.record;
  const views = viewsOf(first);
  const view = views.includes(state.view) ? state.view : views[0];
  const problems = [];
  const head = Math.min(state.head, first.heads - 1);
  const panels = [];
  const add = (name, slot, record, more = {}) =>
    panels.push({
      name,
      record,
      head: Math.min(head, record.heads - 1),
      difference: false,
      step: slot.place.step,
      title: titleOf(name, slot, state.other, here.module, head),
      ...more,
    });
  if (a.record && side !== "b" && side !== "difference") add("A", a, a.record);
  if (state.other && side !== "a") {
    if (!b.record) problems.push(`run B: ${b.problem || "not logged"}`);
    else if (side !== "difference") add("B", b, b.record);
    const apart = a.record && b.record ? unlike(a.record, b.record) : "";
    if (apart && side !== "b") problems.push(apart);
    else if (a.record && b.record && side !== "b" && ["map", "picture"].includes(view)) {
      add("B − A", a, difference(a.record, b.record), {
        difference: true,
        title: `B − A · head ${head + 1}`,
      });
    }
  }
  if (!panels.length && a.record) add("A", a, a.record);
  problems.push(
    ...panels
      .filter((panel) => !panel.difference)
      .map(({ record }) => remarks(record))
      .filter(Boolean),
  );
  const scene = {
    ...page,
    ...scales,
    panels,
    view,
    views,
    head,
    heads: first.heads,
    threshold: state.threshold,
  };
  return { scene, tiles, views, problem: [...new Set(problems)].join(" · ") };
}

function titleOf(name, slot, other, module, head) {
  if (!other) return [visible(module, 80), `head ${head + 1}`].filter(Boolean).join(" · ");
  return `${name} · head ${head + 1} · ${visible(slot.place.run, 60)}`;
}

/** The record that stands for a module among the small maps. */
function tileOf({ module, a, b }, side) {
  if (side === "b") return { module, record: b.record, problem: b.problem };
  if (side === "difference" && a.record && b.record && !unlike(a.record, b.record)) {
    return { module, record: difference(a.record, b.record), problem: "" };
  }
  return { module, record: a.record, problem: a.problem };
}

/** One scale for all maps: up to 1, or up to the largest weight of all that is loaded. */
function scalesOf(loaded, tiles, state) {
  const root = state.scale === "root";
  const fixed = { scale: { root, maximum: 1 }, difference: { root, maximum: 1 } };
  if (state.range === "fixed") return fixed;
  const records = loaded.flatMap(({ a, b }) => [a.record, b.record]).filter(Boolean);
  const pairs = loaded.filter(({ a, b }) => a.record && b.record && !unlike(a.record, b.record));
  const most = (all) => Math.max(1e-4, ...all.map(({ largest }) => largest));
  return {
    scale: { root, maximum: most(records) },
    difference: {
      root,
      maximum: pairs.length ? most(pairs.map(({ a, b }) => difference(a.record, b.record))) : 1,
    },
  };
}
