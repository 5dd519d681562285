/** The viewer alone on a page, which a notebook shows in a frame. */

import { make } from "../viewer/dom.js";
import { followSystem, pageLink, pageSource } from "../viewer/page.js";
import { createViewer } from "../viewer/viewer.js";

const page = JSON.parse(document.getElementById("data").textContent);
const root = make("div");
document.body.style.margin = "0";
document.getElementById("content").append(root);
const link = pageLink();
const [run, other] = page.runs; // the first two are compared
const first = other === undefined ? "" : new URLSearchParams({ run, with: other }).toString();
const chosen = { light: false, dark: true }[page.theme] ?? null;
createViewer(root, pageSource(page), {
  theme: followSystem(chosen),
  link: { ...link, read: () => link.read() || first },
  title: page.title,
  plain: true, // there are no training steps
});
