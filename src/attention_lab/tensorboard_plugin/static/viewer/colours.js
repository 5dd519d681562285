/** Colours of the maps and of everything around them, for light and dark pages. */

import { ANCHORS, GOLD, INK } from "./ramp.js";

const DARK_ANCHORS = ["141c28", "1b2f4f", "1f4a7c", "2b74a4", "4aa3bb", "86cbc9", "c6e9e1", "f6fcfa"];
const DIVERGING = {
  light: {
    below: ["f6f8f9", "d9c8e2", "a87cb9", "73398c", "3d0f52"],
    above: ["f6f8f9", "c3e2c4", "73b87f", "2c8048", "0a4421"],
  },
  dark: {
    below: ["161d29", "3a2a52", "704687", "b07fc4", "ead2f2"],
    above: ["161d29", "1d4033", "2f7050", "67b183", "c9efd3"],
  },
};
const SHADES = 256;

/** Colours of everything but weights: ink, paper, lines, gold. */
export const THEMES = {
  light: {
    dark: false,
    paper: "#ffffff",
    ink: `#${INK}`,
    quiet: "#626a75",
    line: "#c9d0d8",
    faint: "#e6eaee",
    gold: `#${GOLD}`,
    accent: "#0b6e99",
    hatch: ["#eef0f2", "#c3c9d0"],
    tag: "#ffffffee",
  },
  dark: {
    dark: true,
    paper: "#10151d",
    ink: "#e4e9ef",
    quiet: "#98a3b0",
    line: "#3a4654",
    faint: "#232c38",
    gold: "#ff9b3d",
    accent: "#5fc0d8",
    hatch: ["#1b232e", "#384452"],
    tag: "#10151dee",
  },
};

const rgb = (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** CIE 1976 L* of an sRGB colour in 0..255; equal steps of it look equal. */
function lightness(colour) {
  const [r, g, b] = colour.map((c) =>
    c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4,
  );
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return luminance > (6 / 29) ** 3 ? 116 * Math.cbrt(luminance) - 16 : luminance * (29 / 3) ** 3;
}

/** SHADES colours through the anchors, spaced so that lightness changes in equal steps. */
function ramp(anchors) {
  const fine = [];
  const points = anchors.map(rgb);
  for (let at = 0; at < 2048; at += 1) {
    const along = (at / 2047) * (points.length - 1);
    const left = Math.min(Math.floor(along), points.length - 2);
    fine.push(points[left].map((c, channel) => c + (along - left) * (points[left + 1][channel] - c)));
  }
  const levels = fine.map(lightness);
  const [first, last] = [levels[0], levels[levels.length - 1]];
  const colours = [];
  let at = 0;
  for (let shade = 0; shade < SHADES; shade += 1) {
    const wanted = first + ((last - first) * shade) / (SHADES - 1);
    while (at < fine.length - 1 && Math.abs(levels[at + 1] - wanted) <= Math.abs(levels[at] - wanted))
      at += 1;
    colours.push(fine[at].map(Math.round));
  }
  return colours;
}

const ramps = new Map();

function cachedRamp(key, anchors) {
  if (!ramps.has(key)) ramps.set(key, ramp(anchors));
  return ramps.get(key);
}

/**
 * The colour at a position on the scale.
 * @param {{dark: boolean}} theme
 * @param {number} part position on the scale, 0..1, or -1..1 if it diverges
 * @param {boolean} [diverging]
 * @returns {number[]} red, green, blue
 */
export function colourOf(theme, part, diverging = false) {
  const side = theme.dark ? "dark" : "light";
  const shade = Math.round(Math.min(1, Math.abs(part)) * (SHADES - 1));
  if (!diverging) return cachedRamp(side, theme.dark ? DARK_ANCHORS : ANCHORS)[part < 0 ? 0 : shade];
  const half = part < 0 ? "below" : "above";
  return cachedRamp(side + half, DIVERGING[side][half])[shade];
}

/**
 * The position of a weight on the scale, 0..1, or -1..1 if it diverges.
 * @param {number} weight
 * @param {{root: boolean, maximum: number}} scale
 */
export function partOf(weight, scale) {
  const part = Math.max(-1, Math.min(1, weight / scale.maximum));
  return scale.root ? Math.sign(part) * Math.sqrt(Math.abs(part)) : part;
}

/** @returns {string} the css colour of red, green, blue */
export const css = ([r, g, b], alpha = 1) =>
  alpha === 1 ? `rgb(${r},${g},${b})` : `rgba(${r},${g},${b},${alpha})`;

/** White or black, whichever has more contrast to a colour: at least 4.5. */
export const inkOn = (colour) => (lightness(colour) < 49.5 ? "#ffffff" : "#000000");

/** A css colour as one little-endian pixel of ImageData. */
export function pixelOf(colour) {
  const [r, g, b] = typeof colour === "string" ? rgb(colour.slice(1, 7)) : colour;
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

const tables = new Map();

/**
 * The pixel for every stored value, so that painting a cell takes one look-up.
 * @param {object} theme
 * @param {{root: boolean, maximum: number}} scale
 * @param {{diverging: boolean, value: function(number): number}} kind how stored numbers encode weights
 * @returns {Uint32Array} of 65536
 */
export function lookUp(theme, scale, kind) {
  const key = [theme.dark, scale.root, scale.maximum, kind.name].join();
  if (!tables.has(key)) {
    if (tables.size > 12) tables.clear();
    const table = new Uint32Array(65536);
    for (let stored = 0; stored < 65536; stored += 1) {
      table[stored] = pixelOf(colourOf(theme, partOf(kind.value(stored), scale), kind.diverging));
    }
    tables.set(key, table);
  }
  return tables.get(key);
}
