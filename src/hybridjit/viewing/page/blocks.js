"use strict";
/* Blocks of a network. A traced network has the blocks around each value in its document; in a graph
   from a file they follow from the names: net_stage1_conv0_fwd is in the block stage1 of net.
   Kernels and values that a block contains fold into one node. */

const FEW_UNITS = 30;
const MOST = 0.8;

/** The names of the blocks around a value, outermost first, and of its layer. */
function blockPath(value) {
  const name = value.split(":")[0];
  const bare = name.replace(/_(fwd|bwd|output|backward)$/, "");
  return Model.blocks.get(name) || Model.blocks.get(bare) || Model.blocks.get(`${bare}_fwd`)
    || bare.split("_").filter(Boolean);
}

/** The words with which most of the paths begin, of which each has more. */
function commonStart(paths) {
  const start = [];
  for (let i = 0; ; i++) {
    const counts = new Map();
    for (const path of paths) {
      if (path.length > i + 1 && start.every((word, j) => path[j] === word)) {
        counts.set(path[i], (counts.get(path[i]) || 0) + 1);
      }
    }
    const [word, count] = [...counts].sort((a, b) => b[1] - a[1])[0] || ["", 0];
    if (count < MOST * paths.length || !count) return start;
    start.push(word);
  }
}

class Blocks {
  /** The blocks of all units, which are lists of names; the first name decides. */
  constructor(units) {
    this.opened = new Set();
    this.paths = new Map(units.map((unit) => [unit, blockPath(unit)]));
    const paths = [...this.paths.values()].filter((path) => path.length);
    this.shared = commonStart(paths);
    this.sizes = new Map();
    for (const path of paths) {
      for (let i = this.depth(path) + 1; i <= path.length; i++) {
        const key = path.slice(0, i).join("/");
        this.sizes.set(key, (this.sizes.get(key) || 0) + 1);
      }
    }
  }

  /** The number of words that a path has in common with most others; 0 for the others. */
  depth(path) {
    return this.shared.every((word, i) => path[i] === word) ? this.shared.length : 0;
  }

  get isUseful() {
    return [...this.sizes.values()].some((size) => size > 1);
  }

  /** The outermost closed block around a unit with more than one unit; "" if there is none. */
  around(unit) {
    const path = this.paths.get(unit) || [];
    for (let i = this.depth(path) + 1; i <= path.length; i++) {
      const key = path.slice(0, i).join("/");
      if (this.sizes.get(key) > 1 && !this.opened.has(key)) return key;
    }
    return "";
  }

  /** Open every block around a unit. */
  openAround(unit) {
    for (let key = this.around(unit); key; key = this.around(unit)) this.opened.add(key);
  }

  /** The name without the prefix that all names share. */
  shortName(key) {
    const words = key.split("/");
    return words.slice(this.depth(words)).join("/");
  }
}
