/** Colours for a light page. Python reads them from this file too: one constant per line, as JSON. */

/** Colours from weight 0 to the largest, each darker than the previous one. */
export const ANCHORS = ["f4fafb", "cdeae5", "8fd0cf", "4aabc0", "2b7fb0", "25559a", "1e2f73", "0f1440"];
/** Text and lines. */
export const INK = "1b222c";
/** Marks: correct alignments. */
export const GOLD = "e66e00";
