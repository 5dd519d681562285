/** The tab in TensorBoard: the viewer with the server's records, and TensorBoard's colours, reload button and URL. */

import { serverSource } from "./viewer/source.js";
import { createViewer } from "./viewer/viewer.js";

const PLUGIN = "attention_lab";
const PART = `p.${PLUGIN}.view`; // the part of the URL that belongs to the viewer

/** TensorBoard calls this in the tab's frame. */
export async function render() {
  const style = document.createElement("link");
  // The page's base is the plugin's URL, whatever TensorBoard's own path is.
  [style.rel, style.href] = ["stylesheet", new URL("static/viewer/viewer.css", document.baseURI).href];
  const styled = new Promise((resolve) => {
    style.onload = style.onerror = resolve; // until then, nothing has its final size
  });
  document.head.append(style);
  document.body.style.margin = "0";
  document.documentElement.lang = "en";
  document.title = "Attention"; // of the frame
  await styled;
  const root = document.createElement("div");
  document.body.append(root);
  const viewer = createViewer(root, serverSource(document.baseURI), { theme: theme(), link: link() });
  onReload(async () => (await viewer).reload());
  await viewer;
}

/** The window of TensorBoard's page, which contains this frame; this window if the page was opened alone. */
function outside() {
  try {
    return window.parent.document ? window.parent : window;
  } catch {
    return window; // a page of another origin contains this frame
  }
}

function theme() {
  const { body } = outside().document;
  return {
    dark: () => body.classList.contains("dark-mode"),
    watch: (changed) =>
      new MutationObserver(changed).observe(body, { attributes: true, attributeFilter: ["class"] }),
  };
}

/** Stores the view as one part of TensorBoard's hash; TensorBoard keeps parts that it does not know. */
function link() {
  const { location, history } = outside();
  const parts = () => location.hash.replace(/^#/, "").split("&").filter(Boolean);
  const hash = (view) => {
    const others = parts().filter((part) => !part.startsWith(`${PART}=`));
    return `#${[...(others.length ? others : [PLUGIN]), ...(view ? [`${PART}=${encodeURIComponent(view)}`] : [])].join("&")}`;
  };
  // The full URL: a hash alone would be resolved against the page's base.
  const address = (view) => new URL(hash(view), location.href).href;
  return {
    read: () => {
      const found = parts().find((part) => part.startsWith(`${PART}=`));
      try {
        return found ? decodeURIComponent(found.slice(PART.length + 1)) : "";
      } catch {
        return ""; // a truncated URL
      }
    },
    write: (view) => {
      if ((parts()[0] ?? PLUGIN) === PLUGIN) history.replaceState(history.state, "", address(view));
    },
    address,
  };
}

/** TensorBoard reports new data through a port; every message that expects an answer gets one. */
function onReload(reload) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.isReply) return;
    if (message.type === "experimental.DataReloaded") reload();
    port1.postMessage(
      JSON.stringify({ type: message.type, id: message.id, payload: null, error: null, isReply: true }),
    );
  };
  window.parent.postMessage("experimental.bootstrap", "*", [port2]);
}
