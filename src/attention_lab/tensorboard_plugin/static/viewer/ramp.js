/** The colours of weights on a light page, which Python reads from here too: one constant a line, as JSON. */

/** From no weight to the largest, each darker than the one before. */
export const ANCHORS = ["f4fafb", "cdeae5", "8fd0cf", "4aabc0", "2b7fb0", "25559a", "1e2f73", "0f1440"];
/** Text and lines. */
export const INK = "1b222c";
/** What is marked: true alignments. */
export const GOLD = "e66e00";
