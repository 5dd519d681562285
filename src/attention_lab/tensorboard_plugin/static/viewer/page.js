/** What a page in one file gives the viewer: its records, its colours and its address. */

import { inflated, unpack } from "./source.js";

/**
 * Records lie in the page, each compressed in an element of its own, and are read when they are looked at.
 * @param {{tags: object, records: object}} page
 */
export function pageSource(page) {
  return {
    tags: async () => ({ runs: page.tags }),
    record: async (run, tag, step) => {
      const element = document.getElementById(`record-${page.records[run][tag][String(step)]}`);
      const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
      return unpack(await inflated(bytes));
    },
  };
}

/** Light or dark as the system says, until the reader says otherwise. */
export function followSystem(first = null) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const watchers = [];
  let chosen = first;
  const dark = () => chosen ?? system.matches;
  const tell = () => {
    document.documentElement.dataset.theme = dark() ? "dark" : "light";
    watchers.forEach((watcher) => watcher());
  };
  system.addEventListener("change", tell);
  tell();
  return {
    dark,
    watch: (watcher) => watchers.push(watcher),
    toggle: () => {
      chosen = !dark();
      tell();
    },
  };
}

/** The view in the page's address; a page within another has none. */
export function pageLink() {
  const inside = location.protocol === "about:";
  return {
    read: () => (inside ? "" : location.hash.slice(1)),
    write: (view) => {
      if (!inside)
        history.replaceState(null, "", view ? `#${view}` : location.pathname + location.search);
    },
    address: inside ? null : (view) => `${location.href.split("#")[0]}#${view}`,
    watch: (changed) => addEventListener("hashchange", changed),
  };
}
