/** Labels as they can be shown: any text at all, made to fit one line of a given width. */

const LONGEST = 300; // characters that are looked at; none is drawn wider than a panel

/**
 * A label on one line: control characters as pictures of themselves, those that turn the direction of text around
 * left out, since they would reach into the text beside it.
 * @param {*} label
 * @param {number} [longest] characters kept
 * @returns {string}
 */
export function visible(label, longest = LONGEST) {
  const text = String(label ?? "");
  const start = text.slice(0, longest + 2); // two units more: no emoji is cut in half
  const points = Array.from(start).slice(0, longest);
  const cut = text.length > points.join("").length;
  const shown = points.map((character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "␡";
    if (code >= 0x80 && code < 0xa0) return "�";
    if ((code >= 0xd800 && code < 0xe000) || code === 0xfffe || code === 0xffff) return "�";
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return "";
    return character;
  });
  return shown.join("") + (cut ? "…" : "");
}

/** A label that is only space, or nothing, by a sign that can be seen. */
export function token(label) {
  const text = visible(label);
  if (text === "") return "∅";
  return /^\s+$/u.test(text) ? "␣".repeat(Math.min(text.length, 3)) : text;
}

/**
 * The label cut to `room` pixels, with an ellipsis.
 * @param {function(string): number} measure width of a text in pixels
 */
export function fitted(measure, label, room) {
  const text = token(label);
  if (measure(text) <= room) return text;
  const points = Array.from(text);
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(`${points.slice(0, middle).join("")}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${points.slice(0, low).join("")}…`;
}

/** Every how many cells a label stands, so that labels are at least `least` pixels apart. */
export function every(cell, least) {
  const needed = least / cell;
  for (const step of [1, 2, 5, 10, 20, 25, 50, 100, 200, 500]) if (step >= needed) return step;
  return Math.ceil(needed);
}

/** A weight as people read it. */
export function short(weight) {
  const size = Math.abs(weight);
  if (weight === 0) return "0";
  if (size >= 0.1) return weight.toFixed(2);
  return size >= 0.001 ? weight.toFixed(3) : weight.toExponential(0);
}

/** A number of a curve or an axis. */
export function plain(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString("en");
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
