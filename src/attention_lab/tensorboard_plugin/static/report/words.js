/** Names with sensible line breaks, and names and colours of runs. */

import { make } from "../viewer/dom.js";
import { visible } from "../viewer/labels.js";

/** @returns {Node[]} a name that may break after each `/`, `_`, `.`, `=` and `-` */
export function breakable(name, longest = 200) {
  const parts = visible(name, longest).split(/(?<=[/_.=-])/u);
  return parts.flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

/** A name in a table whose other cells stay on one line: on one line, too, unless it is very long. */
export const long = (name, longest = 200) => make("span.long", {}, ...breakable(name, longest));

/** The readable name of a metric. */
export const spelled = (name) => name.replaceAll("_", " ");

/**
 * The colour of each run, which is that of its setting, and whether it repeats the setting with another seed.
 * Each run without a setting has its own colour.
 * @returns {{hue: number, again: boolean, name: string}[]} with the name of the setting
 */
export function colours(runs) {
  const called = shortNames(runs.map(({ name }) => name));
  const names = runs.map(({ setting }, run) => setting || called[run]);
  const distinct = [...new Set(names)];
  return names.map((name, run) => ({ hue: distinct.indexOf(name), again: names.indexOf(name) < run, name }));
}

/**
 * Names such as `data=reverse scoring=dot` without the options that all of them share.
 * @param {string[]} names each may occur more than once
 * @returns {string[]} as distinct as the names
 */
export function withoutShared(names) {
  const options = names.map((name) => name.split(" "));
  const cut = options.map((own) => own.filter((one) => !options.every((other) => other.includes(one))).join(" "));
  return cut.every(Boolean) && new Set(cut).size === new Set(names).size ? cut : names;
}

/** The shortest names that distinguish the runs. */
export function shortNames(names) {
  const parts = names.map((name) => name.split("/"));
  const least = Math.min(...parts.map((one) => one.length));
  let same = 0;
  while (names.length > 1 && same < least - 1 && parts.every((one) => one[same] === parts[0][same])) same += 1;
  return parts.map((one) => one.slice(same).join("/"));
}
