/** Curves of numbers over training steps: one chart per metric, for all runs and all parts of the data. */

import { make } from "../viewer/dom.js";
import { extremes, multiples, number, plain, visible } from "../viewer/labels.js";
import { breakable, withoutShared } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, TOP, BELOW] = [330, 204, 52, 12, 38];
const NAMED = 8; // most names below the chart

function draw(name, attributes, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

/** Round numbers within a range, at least three and about `most`, as numbers and as distinct texts. */
export function ticks(low, high, most, least = 0) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const steps = [10, 5, 2.5, 2, 1, 0.5, 0.25, 0.2].map((factor) => factor * power);
  const allowed = steps.filter((step) => step >= least && (!least || Number.isInteger(step)));
  const count = (step) => multiples(low, high, step).length;
  const step = allowed.find((one) => count(one) >= 3) ?? allowed.at(-1) ?? Math.max(least, steps[0]);
  const digits = [0, 1, 2, 3, 4, 5, 6].find((one) => Math.abs(step - Number(step.toFixed(one))) < step * 1e-6);
  return multiples(low, high, step).map((at) => {
    const large = digits === undefined || Math.abs(at * step) >= 1e6;
    return [at * step, large ? (at * step).toExponential(1) : (at * step).toFixed(digits)];
  });
}

function range(values, margin) {
  const [low, high] = extremes(values);
  const wide = high - low || Math.max(1, Math.abs(high)) * 0.1;
  return [low - wide * margin, (high > low ? high : low + wide) + wide * margin];
}

/**
 * @param {string} name of the number
 * @param {{name: string, of: string, setting: string, hue: number, again: boolean, dashed: boolean, points: [number, number][]}[]} series
 *   its lines: each is `of` a run; runs with the same setting share its name and hue
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
  const x = (step) => LEFT + ((step - left) / (right - left)) * (WIDTH - LEFT - 12);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BELOW);
  const steps = [...new Set(points.map(([step]) => step))].sort((a, b) => a - b);
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "slider", // over the steps, so that keys read what the pointer does
    tabindex: 0,
    "aria-label": visible(name, 100),
    "aria-valuemin": steps[0],
    "aria-valuemax": steps.at(-1),
  });
  for (const [value, text] of ticks(low, high, 5)) {
    svg.append(draw("line", { class: "rule", x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { class: "tick", x: LEFT - 7, y: y(value) + 3.5, "text-anchor": "end" }, text));
  }
  for (const [step, text] of ticks(left, right, 5, 1)) {
    svg.append(draw("text", { class: "tick", x: x(step), y: HEIGHT - 22, "text-anchor": "middle" }, text));
  }
  svg.append(draw("text", { class: "tick", x: (LEFT + WIDTH - 12) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "step"));
  for (const one of series) drawLine(svg, one.points, x, y, `${classes(one)}${one.again ? " again" : ""}`);
  const cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BELOW, x1: -9, x2: -9 });
  svg.append(cursor);
  const step = make("span.step");
  const values = series.map((one) => make("b", { title: visible(one.of, 100) }));
  const settings = withoutShared(series.map(({ setting }) => setting));
  const called = series.map(({ name: part }, at) => [settings[at], part].filter(Boolean).join(" "));
  const named = [...Map.groupBy(series.keys(), (at) => JSON.stringify([called[at], classes(series[at])])).values()];
  const shown = named.slice(0, NAMED);
  const spoken = (places) => `${called[places[0]]} ${places.map((at) => values[at].textContent).join(" ")}`.trim();
  const say = (found, at) => {
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, at === null ? -9 : x(at));
    step.textContent = at === null ? "" : `step ${plain(at)}`;
    found.forEach(([, value], place) => (values[place].textContent = number(value)));
    svg.ariaValueNow = at ?? steps.at(-1);
    svg.ariaValueText = `step ${plain(at ?? steps.at(-1))}: ${visible(shown.map(spoken).join(", "), 600)}`;
  };
  const last = () =>
    say(
      series.map(({ points: line }) => line[line.length - 1]),
      null,
    );
  const nearest = (wanted) =>
    series.map(({ points: line }) =>
      line.reduce((best, one) => (Math.abs(one[0] - wanted) < Math.abs(best[0] - wanted) ? one : best)),
    );
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const along = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - 12);
    const near = nearest(left + along * (right - left));
    say(near, near[0][0]);
  });
  svg.addEventListener("keydown", (event) => {
    const now = steps.indexOf(Number(svg.ariaValueNow));
    const [back, on] = [Math.max(0, now - 1), Math.min(steps.length - 1, now + 1)];
    const keys = { ArrowLeft: back, ArrowDown: back, ArrowRight: on, ArrowUp: on, Home: 0, End: steps.length - 1 };
    const chosen = steps[keys[event.key]];
    if (chosen === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    say(nearest(chosen), chosen);
  });
  for (const end of ["pointerleave", "blur"]) svg.addEventListener(end, last);
  last();
  const key = shown.map((places) => {
    const one = series[places[0]];
    const numbers = places.flatMap((at) => [" ", values[at]]);
    const title = visible(one.setting);
    return make(`span.${classes(one).replaceAll(" ", ".")}`, { title }, ...breakable(called[places[0]]), ...numbers);
  });
  return make(
    "figure.chart",
    {},
    make("figcaption", {}, make("span", {}, ...breakable(name)), step),
    svg,
    make("div.key", {}, ...key),
  );
}

const classes = ({ hue, dashed }) => `run run-${hue % 6}${dashed ? " dashed" : ""}`;

function drawLine(svg, line, x, y, look) {
  if (line.length > 1) {
    const d = `M${line.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join("L")}`;
    svg.append(draw("path", { class: look, d }));
  }
  const [step, value] = line[line.length - 1];
  svg.append(
    draw("circle", { class: `${look} dot`, cx: x(step), cy: y(value), r: line.length > 1 ? 2.4 : 3.4 }),
  );
}
