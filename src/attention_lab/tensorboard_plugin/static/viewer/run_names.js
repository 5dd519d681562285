/** Shorten the names of runs by what they share, so that the differences can be read. */

import { visible } from "./labels.js";

const KEPT = 48; // most characters of a name
const TITLE = 26; // the same in the title of a map beside two others
const DATE = /(^|[/,_ ])\d{4}-\d\d-\d\d(?=$|[/,_ ])/gu;
const TIME = /[/,_ ]\d\d-\d\d-\d\d(?=$|[/,_ ])/gu;
const PARTS = /(?<=[/, ])|(?<=_)(?=\d|[^_/, =-]+[=-])/u; // where a part of a name begins; `scaled_dot` is one part
const SCORE = /^…?scoring[=-]/u;

/**
 * The short names of any number of runs, with their scores and times.
 * @param {string[]} names
 * @returns {Map<string, string>} the short form of each name; no two are the same
 */
export const distinct = (names) => shortened(names, KEPT, [withoutDate, withoutBeginning, withoutShared, withoutMiddle]);

/** The same for the titles of two runs side by side, where only their differences have room. */
export const sideBySide = (names) =>
  shortened(names, TITLE, [withoutDate, withoutTimes, withoutBeginning, withoutFolders, withoutAllShared]);

/** The name of a run as it is, without the folder of its log. */
export const wholeName = (name) => name.replace(/\/tensorboard$/u, "");

/** The names after as many steps as are needed for the longest; a step that would make two the same is left out. */
function shortened(names, most, steps) {
  const texts = names.map((name) => visible(wholeName(name), 200));
  let shown = texts;
  for (const step of steps) {
    if (shown.every((text) => text.length <= most)) break;
    const shorter = step(shown, most);
    if (shorter.every(Boolean) && new Set(shorter).size === new Set(texts).size) shown = shorter;
  }
  return new Map(names.map((name, at) => [name, shown[at]]));
}

/** Without the date if all runs are of one day. */
function withoutDate(texts) {
  const days = new Set(texts.flatMap((text) => Array.from(text.matchAll(DATE), ([day]) => day.slice(-10))));
  return days.size === 1 ? texts.map((text) => text.replace(DATE, "").replace(/^[/,_ ]/u, "")) : texts;
}

const withoutTimes = (texts) => texts.map((text) => text.replace(TIME, ""));

const withoutFolders = (texts) => texts.map((text) => text.slice(text.lastIndexOf("/") + 1));

/** Without the parts with which all names begin that have the same first part. */
const withoutBeginning = (texts, most) =>
  eachGroup(texts, most, (all) => {
    const [first] = all;
    const end = first.findIndex((part, at) => SCORE.test(part) || all.some((own) => bare(own[at]) !== bare(part)));
    return (_, at) => at < end;
  });

/** Without the parts, other than the score, that all names have that have the same first part. */
const withoutShared = (texts, most) =>
  eachGroup(texts, most, (all) => {
    const shared = sharedBy(all);
    return (part) => !SCORE.test(part) && shared(part);
  });

/** Without the parts that all names have. */
function withoutAllShared(texts) {
  const names = texts.map((text) => text.split(PARTS));
  const shared = sharedBy(names);
  return names.map((own) => joined(own.map((part) => (shared(part) ? "…" : part))));
}

/** The names, with an ellipsis for some parts of those whose first part others have too, if any of these is long. */
function eachGroup(texts, most, partsToReplace) {
  const names = texts.map((text) => text.split(PARTS));
  const groups = Map.groupBy(names, ([first]) => first);
  return names.map((own, at) => {
    const group = groups.get(own[0]);
    if (group.length < 2 || group.every((other) => other.join("").length <= most)) return texts[at];
    const replaced = partsToReplace(group);
    const alone = groups.size === 1; // then the first part need not tell the group from others
    return joined(own.map((part, place) => ((place || alone) && replaced(part, place) ? "…" : part)));
  });
}

const bare = (part) => part?.replace(/[/,_ ]$/u, "");

/** Whether all names have a part, with or without what separates it from the next. */
function sharedBy(names) {
  const [first, ...others] = names.map((own) => new Set(own.map(bare)));
  const shared = new Set([...first].filter((part) => others.every((own) => own.has(part))));
  return (part) => shared.has(bare(part));
}

const joined = (parts) => parts.join("").replace(/…+/gu, "…").replace(/^…|[/,_ ]?…?$/gu, "");

const withoutMiddle = (texts, most) =>
  texts.map((text) => {
    const points = Array.from(text);
    if (points.length <= most) return text;
    const end = Math.floor(most / 2);
    return `${points.slice(0, most - end - 1).join("")}…${points.slice(-end).join("")}`;
  });
