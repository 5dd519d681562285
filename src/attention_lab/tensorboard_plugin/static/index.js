/** The tab in TensorBoard: the viewer with the server's records, TensorBoard's colours, its reload and its address. */

import { serverSource } from "./viewer/source.js";
import { createViewer } from "./viewer/viewer.js";

const PLUGIN = "attention_lab";
const PART = `p.${PLUGIN}.view`; // the part of the address that is the viewer's

/** Called by TensorBoard in the frame of the tab. */
export async function render() {
  const style = document.createElement("link");
  // The page's base is the plugin's address, whatever TensorBoard's own path is.
  [style.rel, style.href] = ["stylesheet", new URL("static/viewer/viewer.css", document.baseURI).href];
  const styled = new Promise((resolve) => {
    style.onload = style.onerror = resolve; // before it, nothing has its size
  });
  document.head.append(style);
  document.body.style.margin = "0";
  document.documentElement.lang = "en";
  await styled;
  const root = document.createElement("div");
  document.body.append(root);
  const viewer = createViewer(root, serverSource(document.baseURI), { theme: theme(), link: link() });
  onReload(async () => (await viewer).reload());
  await viewer;
}

/** TensorBoard's page, which this frame is part of; this page itself where it is opened alone. */
function outside() {
  try {
    return window.parent.document ? window.parent : window;
  } catch {
    return window; // a page of another origin holds this frame
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

/** The view as one part of TensorBoard's hash, which keeps the parts that it does not know. */
function link() {
  const { location, history } = outside();
  const parts = () => location.hash.replace(/^#/, "").split("&").filter(Boolean);
  const hash = (view) => {
    const others = parts().filter((part) => !part.startsWith(`${PART}=`));
    return `#${[...(others.length ? others : [PLUGIN]), ...(view ? [`${PART}=${encodeURIComponent(view)}`] : [])].join("&")}`;
  };
  // The whole address: a hash alone would be taken as one of the page's base.
  const address = (view) => new URL(hash(view), location.href).href;
  return {
    read: () => {
      const found = parts().find((part) => part.startsWith(`${PART}=`));
      try {
        return found ? decodeURIComponent(found.slice(PART.length + 1)) : "";
      } catch {
        return ""; // an address that was cut
      }
    },
    write: (view) => {
      if ((parts()[0] ?? PLUGIN) === PLUGIN) history.replaceState(history.state, "", address(view));
    },
    address,
  };
}

/** TensorBoard tells through a port when its data are new; every message that asks is answered. */
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
