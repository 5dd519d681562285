/** Make any text fit on one line of a given width, to be shown as a label. */

const LONGEST = 300; // characters that are considered; no label is wider than a panel
const PLAIN = /^[ -~]*$/; // most labels, which are shown unchanged
const PILE = /(\p{M}{8})\p{M}+/gu; // more marks on one letter than any script has, which would cover what is above and below

/**
 * A label on one line. A tab becomes a space, a line break ↵, and other control characters become visible symbols. Characters that
 * reverse the direction of text, and marks piled on one letter, are left out, since they would affect the text around the label.
 * @param {*} label
 * @param {number} [longest] characters kept
 * @returns {string}
 */
export function visible(label, longest = LONGEST) {
  const text = String(label ?? "");
  if (text.length <= longest && PLAIN.test(text)) return text;
  const start = text.slice(0, longest + 2); // two units more, so that no emoji is cut in half
  const points = Array.from(start).slice(0, longest);
  const cut = text.length > points.join("").length;
  const shown = points.map((character) => {
    const code = character.codePointAt(0);
    if (code === 0x09) return " ";
    if (code === 0x0a) return "↵";
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "␡";
    if (code >= 0x80 && code < 0xa0) return "�";
    if ((code >= 0xd800 && code < 0xe000) || code === 0xfffe || code === 0xffff) return "�";
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return "";
    return character;
  });
  return shown.join("").replace(PILE, "$1") + (cut ? "…" : "");
}

const INVISIBLE = /^[\s\p{Default_Ignorable_Code_Point}\p{Cf}]+$/u;

/**
 * A label, with a visible sign in place of one that is empty, only spaces, or only characters without a glyph, such as
 * U+200B. An accent that stands alone gets a circle to stand on.
 */
export function token(label) {
  const text = visible(label);
  if (text === "") return "∅";
  if (pixelRow(text)) return "row of pixels";
  if (/^\s+$/u.test(text)) return "␣".repeat(Math.min(text.length, 3));
  if (INVISIBLE.test(text)) {
    const codes = Array.from(text, (one) => one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
    return codes.map((code) => `U+${code}`).join(" ");
  }
  return /^\p{M}/u.test(text) ? `◌${text}` : text;
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

/** The number of cells from one label to the next, so that labels are at least `least` pixels apart. */
export function every(cell, least) {
  const needed = least / cell;
  for (const step of [1, 2, 5, 10, 20, 25, 50, 100, 200, 500]) if (step >= needed) return step;
  return Math.ceil(needed);
}

const MOST_TICKS = 1000; // no axis has room for as many

/**
 * The whole numbers whose products with a tick's `step` lie in a range. They are counted beforehand, since adding 1 to a
 * number above 2^53 does not change it; none if they cannot be, or the range is infinite.
 */
export function multiples(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  const count = last - first + 1;
  return Array.from({ length: step < Infinity && count <= MOST_TICKS ? count : 0 }, (_, at) => first + at);
}

/** The smallest and the largest of any number of numbers; as arguments of a function, 130,000 would be too many. */
export function extremes(numbers) {
  let [low, high] = [Infinity, -Infinity];
  for (const one of numbers) [low, high] = [Math.min(low, one), Math.max(high, one)];
  return [low, high];
}

/** A weight, rounded for reading. */
export function short(weight) {
  const size = Math.abs(weight);
  if (weight === 0) return "0";
  if (size >= 0.1) return weight.toFixed(2);
  return size >= 0.001 ? weight.toFixed(3) : weight.toExponential(0);
}

/** A result as on the console, in the leaderboard and in the report: four digits, or all before the decimal point. */
export function number(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return String(value);
  if (size >= 1000 || (Number.isInteger(value) && value > 1))
    return value.toLocaleString("en", { maximumFractionDigits: 0, roundingMode: "halfEven" });
  if (size === 0 || size >= 1e-4) return value ? value.toPrecision(4) : "0.000";
  return value.toExponential(3).replace(/e-(\d)$/u, "e-0$1");
}

/** A number on an axis, or a step. */
export function plain(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString("en");
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

const SHADES = "·░▒▓█"; // from paper to ink

/**
 * A label that is a row of pixels, such as those of a picture that is read row by row.
 * @returns {number[]|null} from 0 (paper) to 1 (ink); null for any other label
 */
export function pixelRow(label) {
  const points = Array.from(String(label ?? "").slice(0, LONGEST));
  if (points.length < 4 || !points.every((point) => SHADES.includes(point))) return null;
  return points.map((point) => SHADES.indexOf(point) / (SHADES.length - 1));
}
