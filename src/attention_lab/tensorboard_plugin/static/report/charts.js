/** Curves of a run's numbers over its steps, a small chart for each, with what is under the pointer. */

import { make } from "../viewer/dom.js";
import { plain, visible } from "../viewer/labels.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, TOP, BELOW] = [330, 190, 52, 12, 24];

function draw(name, attributes, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

/** Round numbers within a range, about `most`, as numbers and as texts that differ. */
function ticks(low, high, most, least = 0) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10]
    .map((factor) => factor * power)
    .find((size) => size >= Math.max(least, rough * (1 - 1e-9)));
  const found = [];
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) {
    const text =
      digits > 6 || Math.abs(at * step) >= 1e6 ? (at * step).toExponential(1) : (at * step).toFixed(digits);
    found.push([at * step, text]);
  }
  return found;
}

function range(values, margin) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const wide = high - low || Math.max(1, Math.abs(high)) * 0.1;
  return [low - wide * margin, (high > low ? high : low + wide) + wide * margin];
}

/**
 * @param {string} name of the number
 * @param {{run: number, points: [number, number][]}[]} series of each run, by its place in the list of runs
 * @returns {HTMLElement}
 */
export function chart(name, series) {
  const points = series.flatMap((one) => one.points);
  const [left, right] = range(
    points.map(([step]) => step),
    0.01,
  );
  const [low, high] = range(
    points.map(([, value]) => value),
    0.06,
  );
  const x = (step) => LEFT + ((step - left) / (right - left)) * (WIDTH - LEFT - 10);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BELOW);
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": visible(name, 100),
  });
  for (const [value, text] of ticks(low, high, 4)) {
    svg.append(draw("line", { class: "rule", x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { class: "tick", x: LEFT - 7, y: y(value) + 3.5, "text-anchor": "end" }, text));
  }
  for (const [step, text] of ticks(left, right, 6, 1)) {
    svg.append(draw("text", { class: "tick", x: x(step), y: HEIGHT - 7, "text-anchor": "middle" }, text));
  }
  for (const { run, points: line } of series) {
    const hue = `run run-${run % 6}`;
    if (line.length > 1)
      svg.append(
        draw("path", {
          class: hue,
          d: `M${line.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join("L")}`,
        }),
      );
    const [step, value] = line[line.length - 1];
    svg.append(
      draw("circle", { class: `${hue} dot`, cx: x(step), cy: y(value), r: line.length > 1 ? 2.4 : 3.4 }),
    );
  }
  const said = make("output");
  const cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BELOW, x1: -9, x2: -9 });
  svg.append(cursor);
  const last = () => {
    cursor.setAttribute("x1", -9);
    cursor.setAttribute("x2", -9);
    said.textContent = series.map(({ points: line }) => plain(line[line.length - 1][1])).join("  ·  ");
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted =
      left +
      ((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - 10)) * (right - left);
    const near = series.map(({ points: line }) =>
      line.reduce((best, one) => (Math.abs(one[0] - wanted) < Math.abs(best[0] - wanted) ? one : best)),
    );
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(near[0][0]));
    said.textContent = `step ${plain(near[0][0])}: ${near.map(([, value]) => plain(value)).join("  ·  ")}`;
  });
  svg.addEventListener("pointerleave", last);
  last();
  return make(
    "figure.chart",
    {},
    make("figcaption", {}, make("span", { textContent: visible(name, 100), title: visible(name) }), said),
    svg,
  );
}
