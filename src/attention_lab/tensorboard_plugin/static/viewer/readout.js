/** The line with the numbers of the cell under the cursor. */

import { make } from "./dom.js";
import { token, visible } from "./labels.js";

/**
 * @param {number|null} weight null if masked
 * @param {object} record which knows weights to within 1/65534, or small weights better if it stores square roots
 */
const number = (weight, record) => {
  if (weight === null) return "masked";
  const size = Math.abs(weight);
  if (size === 0 || size >= 0.001) return weight.toFixed(4);
  return size >= 0.0001 || record.stored ? weight.toFixed(5) : weight.toExponential(1);
};

export class Readout {
  constructor() {
    this.element = make("div.al-readout", { "aria-live": "off", "aria-atomic": "true" });
  }

  /** @param {{name: string, record: object, head: number, difference: boolean}[]} panels */
  update(panels, { query, key }) {
    const parts = [];
    const say = (name, value, data) =>
      parts.push(
        make(
          "span.al-fact",
          data ? { "data-fact": data } : {},
          make("span.al-fact-name", { textContent: name }),
          make("b", { textContent: value }),
        ),
      );
    this.element.toggleAttribute("data-panels", panels.length > 1); // room for both lines, so that nothing below moves
    const label = (text, at) => `${token(visible(text, 60))} (${at + 1})`;
    const pair = panels.filter(({ difference }) => !difference);
    /** Say what the queries or keys are called; once, unless two runs differ. */
    const named = (side, count, at) => {
      const those = (pair.length ? pair : panels).filter(({ record }) => at >= 0 && at < record[count]);
      const labels = those.map(({ record }) => label(record[side](at), at));
      if (new Set(labels).size < 2) labels.slice(0, 1).forEach((one) => say(side, one, side));
      else labels.forEach((one, number) => say(`${those[number].name} ${side}`, one, side));
      return labels.length > 0;
    };
    const has = { query: named("query", "queries", query), key: named("key", "keys", key) };
    if (panels.length > 1 && (has.query || has.key)) parts.push(make("span.al-break"));
    for (const { record: one, head, name, difference } of panels) {
      const before = panels.length > 1 ? `${name} ` : "";
      if (has.key && !has.query && !difference && key < one.keys) {
        const { sum, largest, from } = one.column(head, key);
        say(`${before}received`, `${sum.toFixed(3)} of ${one.queries.toLocaleString("en")} queries`, "received");
        if (from >= 0) say("most from", `${label(one.query(from), from)} ${largest.toFixed(4)}`, "most");
      }
      const inside = query < one.queries && key < one.keys;
      if (has.query && has.key && inside) {
        const weight = one.at(head, query, key);
        const sign = difference && weight > 0 ? "+" : "";
        say(
          difference ? "B − A" : `${before}weight`,
          `${one.exact(head, query, key) ? "" : "about "}${sign}${number(weight, one).replace("-", "−")}`,
          difference ? "difference" : "weight",
        );
      }
      if (has.query && !difference && query < one.queries) {
        const row = one.facts(head, query);
        if (row.attended) say(`${before}entropy`, `${row.entropy.toFixed(3)} nats`, "entropy");
        say(`${before}row sum`, row.attended ? row.sum.toFixed(3) : "no key", "sum");
      }
    }
    if (!parts.length)
      parts.push(
        make("span.al-hint", {
          textContent: "Point at a weight to read it; click to pin it. Press ? for help.",
        }),
      );
    this.element.replaceChildren(...parts);
  }
}
