/** What a single-file page provides to the viewer: its records, its colours and its URL. */

import { inflated, unpack } from "./source.js";

/**
 * The page contains the records, each compressed in an element of its own; they are read when they are shown.
 * @param {{tags: object, records: object}} page
 */
export function pageSource(page) {
  return {
    tags: async () => ({ runs: page.tags }),
    record: async (run, tag, step) => {
      // A step beyond 2^53 is rounded as a number, but not as a key.
      const [, place] = Object.entries(page.records[run][tag]).find(([key]) => Number(key) === step);
      const element = document.getElementById(`record-${place}`);
      const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
      return unpack(await inflated(bytes));
    },
  };
}

/** Light or dark like the system, until the reader chooses otherwise; always light on paper. */
export function followSystem(first = null) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const watchers = [];
  let chosen = first;
  let printing = false;
  const dark = () => !printing && (chosen ?? system.matches);
  const tell = () => {
    document.documentElement.dataset.theme = dark() ? "dark" : "light";
    watchers.forEach((watcher) => watcher());
  };
  system.addEventListener("change", tell);
  for (const event of ["beforeprint", "afterprint"])
    addEventListener(event, () => {
      printing = event === "beforeprint";
      tell();
    });
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

/** Stores the view in the page's URL; a page within another page has none. */
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
