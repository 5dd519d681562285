/** Everything there is to see: runs, their examples, modules and steps. */

import { extremes } from "./labels.js";
import { isPicture } from "./pixels.js";
import { distinct } from "./run_names.js";

/** Compares two names as people count: example 2 comes before example 10. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;

/** The two parts of a tag, at its first slash: the example and its module, or a part of the data and its metric. */
export function splitTag(tag) {
  const at = tag.indexOf("/");
  return at < 0 ? [tag, ""] : [tag.slice(0, at), tag.slice(at + 1)];
}

export class Catalogue {
  /** @param {Object} runs {run: {tag: {steps, wall_times}}} */
  constructor(runs) {
    this.tree = new Map();
    for (const run of Object.keys(runs).sort(natural)) {
      const examples = new Map();
      for (const tag of Object.keys(runs[run]).sort(natural)) {
        const [example, module] = splitTag(tag);
        if (!examples.has(example)) examples.set(example, new Map());
        const { steps, wall_times: times = [], input = "", shape = null } = runs[run][tag];
        if (steps.length) examples.get(example).set(module, { tag, steps, times, input, shape });
      }
      this.tree.set(run, new Map([...examples].filter(([, modules]) => modules.size)));
    }
  }

  runs() {
    return [...this.tree].filter(([, examples]) => examples.size).map(([run]) => run);
  }

  /** The run that was started last, or the first of those whose times are unknown; "" without runs. */
  newest() {
    const startOf = (run) => {
      const modules = [...this.tree.get(run).values()].flatMap((found) => [...found.values()]);
      const starts = modules.map(({ times }) => Number(times[0])); // TensorBoard sends the text NaN if it is not one
      return extremes(starts.map((start) => (Number.isFinite(start) ? start : 0)))[0];
    };
    const runs = this.runs();
    const starts = runs.map(startOf);
    return runs[starts.indexOf(extremes(starts)[1])] ?? "";
  }

  /** @returns {Map<string, string>} a short name for each run; see `distinct` */
  names() {
    this.short ??= distinct(this.runs());
    return this.short;
  }

  examples(run) {
    return [...(this.tree.get(run)?.keys() ?? [])];
  }

  modules(run, example) {
    return [...(this.tree.get(run)?.get(example)?.keys() ?? [])];
  }

  /** The text of an example, if the log contains it and it is text. */
  text(run, example) {
    const modules = [...(this.tree.get(run)?.get(example)?.values() ?? [])];
    const text = modules.find(({ input }) => input)?.input ?? "";
    return isPicture(text) ? "" : text;
  }

  /** The example to show first: the first of medium length among those with several rows and columns. */
  telling(run) {
    const sized = this.examples(run).map((example) => {
      const shapes = [...this.tree.get(run).get(example).values()].map(({ shape }) => shape ?? [1, 1, 1]);
      const [rows, columns] = [1, 2].map((axis) => Math.max(...shapes.map((shape) => shape[axis])));
      return { example, rows, columns };
    });
    const several = sized.filter(({ rows, columns }) => rows > 2 && columns > 2);
    const ordered = (several.length ? several : sized).sort((a, b) => a.rows - b.rows || a.columns - b.columns);
    const medium = ordered[Math.floor(ordered.length / 2)];
    return ordered.find((one) => one.rows === medium.rows && one.columns === medium.columns)?.example ?? "";
  }

  /** All steps of an example, in order. */
  steps(run, example) {
    const found = new Set();
    for (const { steps } of this.tree.get(run)?.get(example)?.values() ?? [])
      steps.forEach((step) => found.add(step));
    return [...found].sort((a, b) => a - b);
  }

  /**
   * The place of the module's record that is nearest to a step.
   * @returns {{run: string, tag: string, step: number, time: number}|null}
   */
  nearest(run, example, module, wanted) {
    const series = this.tree.get(run)?.get(example)?.get(module);
    if (!series) return null;
    const best = nearest(series.steps, wanted);
    return { run, tag: series.tag, step: series.steps[best], time: series.times[best] ?? 0 };
  }
}

/** The index of the number nearest to another. */
export function nearest(numbers, wanted) {
  return numbers.reduce(
    (best, one, at) => (Math.abs(one - wanted) < Math.abs(numbers[best] - wanted) ? at : best),
    0,
  );
}
