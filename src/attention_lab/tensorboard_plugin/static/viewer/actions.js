/** What keys and buttons do. */

/** @returns {Object<string, function>} the actions of a viewer, by the names that `keyboard.js` and the controls use */
export function actionsOf(viewer) {
  const around = (part, all, by) => {
    if (all.length)
      viewer.change({ [part]: all[(all.indexOf(viewer.state[part]) + by + all.length) % all.length] });
  };
  const cell = (part, size, by) => {
    if (!viewer.scene) return;
    const most = viewer.scene.size[size] - 1;
    viewer.hovered = null;
    viewer.choose({ [part]: Math.max(0, Math.min(most, viewer.state[part] + by)) });
  };
  const head = (by) =>
    viewer.scene && viewer.change({ head: (viewer.scene.head + by + viewer.scene.heads) % viewer.scene.heads });
  const modules = () => viewer.catalogue.modules(viewer.state.run, viewer.state.example);
  const examples = () => viewer.catalogue.examples(viewer.state.run);
  return {
    stepBack: () => viewer.stepBy(-1),
    stepOn: () => viewer.stepBy(1),
    play: () => viewer.steps.length > 1 && viewer.player.toggle(),
    queryUp: () => cell("query", "queries", -1),
    queryDown: () => cell("query", "queries", 1),
    keyLeft: () => cell("key", "keys", -1),
    keyRight: () => cell("key", "keys", 1),
    headBack: () => head(-1),
    headOn: () => head(1),
    moduleBack: () => around("module", modules(), -1),
    moduleOn: () => around("module", modules(), 1),
    exampleBack: () => around("example", examples(), -1),
    exampleOn: () => around("example", examples(), 1),
    view: () =>
      viewer.scene &&
      viewer.change({
        view: viewer.scene.views[(viewer.scene.views.indexOf(viewer.scene.view) + 1) % viewer.scene.views.length],
      }),
    side: () => viewer.state.other && around("side", ["all", "a", "b", "difference"], 1),
    scale: () => viewer.scene && viewer.change({ scale: viewer.scene.scale.root ? "linear" : "root" }),
    range: () => viewer.scene && viewer.change({ range: viewer.scene.range === "fixed" ? "shared" : "fixed" }),
    order: () => around("order", ["layer", "entropy"], 1),
    zoomIn: () => viewer.zoom(0.5),
    zoomOut: () => viewer.zoom(2),
    zoomAll: () => viewer.change({ rows: "", columns: "" }),
    tile: () => around("tile", ["largest", "mean"], 1),
    find: () => !viewer.controls.long.hidden && viewer.controls.search.focus(),
    seek: (text, by, keys) => viewer.seek(text, by, keys),
    clear: () => viewer.choose({ query: -1, key: -1 }),
    png: () => viewer.export("png"),
    svg: () => viewer.export("svg"),
    link: () => viewer.host.link.address && viewer.copyLink(),
    help: () => viewer.help.open(),
  };
}
