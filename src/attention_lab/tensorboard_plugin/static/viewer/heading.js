/** What a saved view says above its maps, and what its file is called. */

import { visible } from "./labels.js";
import { isPicture } from "./pixels.js";
import { sideBySide, wholeName } from "./run_names.js";

const LONGEST = 100; // most characters of an input or an output

/**
 * @param {{compared: {name: string, run: string, record: object}[], head: number}} scene
 * @param {{example: string, module: string}} state
 * @param {number|null} step null if there are none to go through
 * @returns {{title: string, text: string, file: string[]}} two lines, and the parts of the file's name
 */
export function headingOf({ compared, head }, { example, module }, step) {
  const place = [example, module, `head ${head + 1}`, step === null ? "" : `step ${step}`];
  const names = sideBySide(compared.map(({ run }) => run));
  const runs = compared.map(({ name, run }) => (compared.length > 1 ? `${name} ${names.get(run)}` : wholeName(run)));
  const parts = [...runs, ...place].filter((part) => part.trim()); // the run of a view without runs has a blank name
  return { title: visible(parts.join(" · ")), text: textOf(compared), file: parts };
}

/** The input and the output; those of two runs as far as they differ. */
function textOf(compared) {
  const texts = compared.map(({ name, record: { header } }) => ({
    name,
    input: isPicture(header.input) ? "" : visible(header.input, LONGEST),
    output: visible(header.output, LONGEST),
  }));
  const line = (...parts) => parts.filter(Boolean).join(" → ");
  const same = (part) => texts.every((one) => one[part] === texts[0][part]);
  const each = (said) => texts.map((one) => `${one.name}: ${said(one)}`).join(" · ");
  if (!same("input")) return each(({ input, output }) => line(input, output));
  return line(texts[0].input, same("output") ? texts[0].output : each(({ output }) => output));
}
