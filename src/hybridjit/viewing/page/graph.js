"use strict";
/* The graph: what of it is in sight is drawn as SVG, moved by mouse, touch and keys. */

const MOST_DRAWN = 4000;
const MOST_TYPES = 3;
const SAVED = "saved";
const KINDS = [
  ["conv", /conv|correlation/i], ["gemm", /fullyconnected|dot|gemm|attention|interleaved/i], ["pool", /pool/i],
  ["norm", /norm|lrn|_bn_/i], ["softmax", /softmax/i], ["recurrent", /rnn|lstm|gru/i],
  ["view", /reshape|transpose|slice|concat|flatten|expand_dims|squeeze|split|swapaxes|tile|pad|stack|copy|identity|broadcast_to|broadcast_like/i],
  ["reduce", /^(sum|mean|max|min|prod|norm|arg)|_sum|_mean/i], ["gather", /take|embedding|gather|pick|one_hot/i],
];

/** The kind of an operator that no kernel has yet. */
function kindOfOperator(op) {
  const found = KINDS.find(([, pattern]) => pattern.test(op));
  return found ? found[0] : "pointwise";
}

class GraphView {
  constructor(panel, app) {
    this.app = app;
    this.panel = panel;
    this.fold = true;
    this.parameters = false;
    this.blocks = true;
    this.trees = new Map();
    this.unfolded = new Set();
    this.cache = new Map();
    this.camera = { x: 0, y: 0, k: 1 };
    this.drawn = new Map();
    this.build();
  }

  build() {
    this.edgesLayer = s("g", { class: "edges" });
    this.nodesLayer = s("g", { class: "nodes" });
    this.world = s("g", { class: "world" }, this.edgesLayer, this.nodesLayer);
    this.labels = s("g", { class: "labels" });
    this.svg = s("svg", {
      id: "graph", tabindex: 0, role: "application",
      "aria-label": "Graph. Up and down go along edges, left and right to neighbours, Enter unfolds a group, plus and minus zoom, bracket keys change the stage.",
    }, s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7,
      markerHeight: 7, orient: "auto-start-reverse" },
      s("path", { d: "M0 0L8 4L0 8z" }))), this.world, this.labels);
    this.message = h("p", { id: "graph-message", class: "quiet", hidden: true });
    const tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Graph" },
      this.check("blocks", "blocks as one node"), this.check("fold", "kernels as one node"), this.check("parameters", "parameters and what follows from them"),
      h("button", { type: "button", onclick: () => this.zoom(1.25), "aria-label": "Zoom in" }, "+"),
      h("button", { type: "button", onclick: () => this.zoom(0.8), "aria-label": "Zoom out" }, "−"),
      h("button", { type: "button", onclick: () => this.fit(true) }, "fit"));
    this.opened = h("div", { class: "tools", id: "opened", role: "toolbar", "aria-label": "Open blocks", hidden: true });
    this.map = new MiniMap(this);
    this.panel.append(this.app.stageBar(), tools, this.opened, this.message, this.svg, this.map.svg);
    this.listen();
    new ResizeObserver(() => this.move()).observe(this.svg);
  }

  check(key, text) {
    const input = h("input", { type: "checkbox", id: "check-" + key, onchange: () => {
      this[key] = input.checked;
      this.show(this.app.track, this.app.stop, true);
    } });
    input.checked = this[key];
    return h("label", { for: "check-" + key }, input, " " + text);
  }

  listen() {
    const svg = this.svg;
    let drag = null;
    svg.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      drag = { x: e.clientX, y: e.clientY, moved: false, from: { ...this.camera } };
      svg.setPointerCapture(e.pointerId);
    });
    svg.addEventListener("pointermove", (e) => {
      if (!drag) return;
      const [dx, dy] = [e.clientX - drag.x, e.clientY - drag.y];
      drag.moved = drag.moved || Math.abs(dx) + Math.abs(dy) > 4;
      if (drag.moved) this.move({ x: drag.from.x + dx, y: drag.from.y + dy });
    });
    svg.addEventListener("pointerup", (e) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (clicked) this.click(this.nodeAt(e));
    });
    svg.addEventListener("pointercancel", () => (drag = null));
    svg.addEventListener("dblclick", (e) => this.toggle(this.nodeAt(e)));
    svg.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.ctrlKey || e.metaKey || e.shiftKey === false
        && Math.abs(e.deltaY) >= 50) this.zoom(Math.exp(-e.deltaY / 500), e);
      else this.move({ x: this.camera.x - e.deltaX, y: this.camera.y - e.deltaY });
    }, { passive: false });
    svg.addEventListener("keydown", (e) => this.key(e));
  }

  nodeAt(event) {
    const found = document.elementFromPoint(event.clientX, event.clientY);
    const element = found && found.closest(".node");
    return element ? this.nodes[+element.dataset.node] : null;
  }

  click(node) {
    if (!node) return;
    this.svg.focus({ preventScroll: true });
    this.app.select(node.step >= 0 && node.isGroup ? { type: "step", id: node.step }
      : { type: "value", id: node.names[0] }, "graph");
  }

  toggle(node) {
    if (node && node.block) {
      this.tree.opened.add(node.block);
      return this.show(this.app.track, this.app.stop, true);
    }
    if (!node || !this.app.stop.stage.groups.length) return;
    const group = this.groups.get(node.names[0]);
    if (!group || group.members.length < 2) return;
    if (!this.unfolded.delete(group.name)) this.unfolded.add(group.name);
    this.show(this.app.track, this.app.stop, true);
  }

  key(event) {
    const steps = { ArrowUp: ["before", 0], ArrowDown: ["after", 0], ArrowLeft: ["beside", -1],
      ArrowRight: ["beside", 1] };
    if (event.key in steps) {
      event.preventDefault();
      this.go(...steps[event.key]);
    } else if (event.key === "Enter") this.toggle(this.current());
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit(true);
  }

  /** The node that is chosen, or the first. */
  current() {
    return this.nodes.find((node) => node.isChosen) || null;
  }

  go(where, direction) {
    const now = this.current();
    if (!now) return this.click(this.nodes.find((node) => node.kind !== "parameter"));
    const at = this.nodes.indexOf(now);
    let next = null;
    if (where === "before") next = this.edges.find((edge) => edge.to === at
      && this.nodes[edge.from].kind !== "parameter");
    if (where === "after") next = this.edges.find((edge) => edge.from === at);
    if (next) next = this.nodes[where === "before" ? next.from : next.to];
    if (where === "beside") {
      const same = this.nodes.filter((node) => Math.abs(node.y - now.y) < 12).sort((a, b) => a.x - b.x);
      next = same[same.indexOf(now) + direction];
    }
    if (next) {
      this.click(next);
      this.reveal(next);
    }
  }

  /** Draw a stop of a track; `keep` leaves the camera where it is. */
  show(track, stop, keep) {
    this.groups = new Map(stop.kind === "bind" ? []
      : stop.stage.groups.flatMap((group) => group.members.map((member) => [member, group])));
    this.tree = this.treeOf(track, stop);
    this.listOpened();
    const { nodes, edges, size } = this.graphOf(track, stop);
    Object.assign(this, { nodes, edges, size });
    const missing = stop.values.size === 0
      ? "There are too many values in this stage to list: the counts of its operators are under Stage."
      : nodes.length === 0
        ? `This graph has ${number(stop.values.size)} values, more than can be drawn: they are listed under Values.` : "";
    this.message.hidden = !missing;
    this.message.textContent = missing;
    this.svg.setAttribute("aria-describedby", missing ? "graph-message" : "");
    this.drawn.forEach((element) => element.remove());
    this.drawn.clear();
    this.mark(this.app.selection);
    const chosen = this.current();
    if (!keep || !this.wasShown) this.fit(false);
    this.wasShown = true;
    if (chosen) this.reveal(chosen);
    this.move();
  }

  graphOf(track, stop) {
    const key = [track.title, track.stops.indexOf(stop), this.fold, this.parameters, this.blocks,
      [...this.tree.opened].join("\n"), [...this.unfolded].join("\n")].join("|");
    if (!this.cache.has(key)) {
      const found = this.made(track, stop);
      found.size = found.nodes.length ? layOut(found.nodes, found.edges) : { width: 0, height: 0 };
      if (this.cache.size > 40) this.cache.clear();
      this.cache.set(key, found);
    }
    return this.cache.get(key);
  }

  /** Nodes, folded where that is wanted, and an edge for each pair of them. */
  made(track, stop) {
    const nodes = [];
    const nodeOf = new Map();
    const fixed = this.fixed(track, stop);
    for (const value of stop.values.values()) {
      const isLeaf = value.role !== "operator" && fixed.has(value.name);
      if (fixed.has(value.name) && !this.parameters) continue;
      const group = value.role === "operator" && this.fold ? this.groups.get(value.name) : null;
      if (group && !this.unfolded.has(group.name)) {
        if (!nodeOf.has(group)) nodeOf.set(group, nodes.push(this.groupNode(group, track, stop)) - 1);
        nodeOf.set(value.name, nodeOf.get(group));
      } else nodeOf.set(value.name, nodes.push(this.valueNode(value, isLeaf, track, stop)) - 1);
    }
    const folded = this.foldsBlocks(nodes) ? this.inBlocks(nodes, nodeOf) : nodes;
    if (folded.length > MOST_DRAWN) return { nodes: [], edges: [] };
    return { nodes: folded, edges: this.edgesOf(stop, folded, nodeOf) };
  }

  /** The blocks of a stop; those that were opened stay open in other stops of the track. */
  treeOf(track, stop) {
    const key = [track.title, track.stops.indexOf(stop)].join("|");
    if (!this.trees.has(key)) {
      const units = [...stop.values.values()].filter((value) => value.role === "operator")
        .map((value) => this.unitOf(value.name));
      this.trees.set(key, new Blocks([...new Set(units)]));
    }
    const tree = this.trees.get(key);
    if (this.tree) this.tree.opened.forEach((block) => (block === SAVED || tree.sizes.has(block)) && tree.opened.add(block));
    return tree;
  }

  /** The name of a value's group, which is that of its layer, or its own. */
  unitOf(value) {
    return (this.groups.get(value) || { name: value }).name;
  }

  /** Whether blocks are folded: only graphs that are larger than a screen. */
  foldsBlocks(nodes) {
    return this.blocks && this.tree.isUseful && nodes.length > FEW_UNITS;
  }

  /** One node for all units of each closed block; nodeOf is renumbered. */
  inBlocks(nodes, nodeOf) {
    const found = [];
    const places = new Map();
    const made = nodes.map((node) => {
      const block = node.kind === "input" ? this.savedBlock(node.names[0]) : node.kind === "parameter" ? ""
        : this.tree.around(this.unitOf(node.names[0]));
      if (!block) return found.push(node) - 1;
      if (!places.has(block)) places.set(block, found.push({ block, inside: [] }) - 1);
      found[places.get(block)].inside.push(node);
      return places.get(block);
    });
    nodeOf.forEach((place, value) => nodeOf.set(value, made[place]));
    return found.map((node) => (node.block ? this.blockNode(node) : node));
  }

  /** The values that a forward graph saved are one block of inputs of the backward graph. */
  savedBlock(input) {
    return /^saved\d+$/.test(input) && !this.tree.opened.has(SAVED) ? SAVED : "";
  }

  blockNode({ block, inside }) {
    const times = inside.map((node) => node.time).filter((seconds) => seconds !== null);
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    return this.sized({
      title: this.tree.shortName(block), names: inside.flatMap((node) => node.names), kind: "block", block,
      isGroup: false, step: -1, steps: new Set(inside.map((node) => node.step).filter((step) => step >= 0)),
      sub: plural(inside.length, this.fold && this.groups.size && block !== SAVED ? "kernel" : "value"), lead: "block",
      time: times.length ? sum(times) : null, share: sum(inside.map((node) => node.share)),
      mark: inside.map((node) => node.mark).find(Boolean) || "", count: inside.length,
    });
  }

  /** A button for each open block, which closes it. */
  listOpened() {
    const open = [...this.tree.opened];
    this.opened.hidden = !open.length || !this.blocks;
    replace(this.opened, open.map((block) => h("button", { type: "button", "data-block": block,
      "aria-label": `Close the block ${block}`, onclick: () => this.close(block) },
      `${this.tree.shortName(block)} ×`)));
  }

  close(block) {
    this.trees.forEach((tree) => tree.opened.delete(block));
    this.show(this.app.track, this.app.stop, true);
  }

  /** Show a value itself: open the blocks around it. */
  openFor(value) {
    const { steps } = Model.resolve(this.app.track, { type: "value", id: value });
    const { part } = this.app.track;
    const readers = part ? [...steps].flatMap((step) => part.steps[step].members) : [];
    for (const known of this.tree.paths.has(value) || this.groups.has(value) ? [value] : readers) {
      this.tree.openAround(this.unitOf(known));
    }
    this.show(this.app.track, this.app.stop, true);
  }

  /** Parameters, and what follows from them alone without a step of its own. */
  fixed(track, stop) {
    const fixed = new Set(Model.document.parameters.map((parameter) => parameter.name));
    if (stop.kind === "bind") return fixed;
    for (const value of stop.values.values()) {
      const isFixed = value.inputs.length && !track.stepOf.has(value.name)
        && value.inputs.every(([source]) => fixed.has(source));
      if (value.role === "parameter" || isFixed) fixed.add(value.name);
    }
    return fixed;
  }

  edgesOf(stop, nodes, nodeOf) {
    const edges = new Map();
    for (const value of stop.values.values()) {
      const to = nodeOf.get(value.name);
      for (const [source, index] of value.inputs) {
        const from = nodeOf.get(source);
        if (from === undefined || to === undefined || from === to) continue;
        const key = from * nodes.length + to;
        if (!edges.has(key)) edges.set(key, { from, to, type: stop.values.get(source).types[index] || "" });
      }
    }
    const labelled = new Map();  // for each node the types that its edges have, in rows below it
    for (const edge of edges.values()) {
      const types = labelled.get(edge.from) || labelled.set(edge.from, []).get(edge.from);
      if (types.includes(edge.type)) edge.type = "";
      else types.push(edge.type);
      edge.row = types.length - 1;
    }
    // The rows of many types, as those of a block of saved values, would cover other nodes.
    for (const edge of edges.values()) if (labelled.get(edge.from).length > MOST_TYPES) edge.type = "";
    return [...edges.values()];
  }

  groupNode(group, track, stop) {
    const step = track.stepOf.get(group.members[0]);
    const record = track.part && step !== undefined ? track.part.steps[step] : null;
    const ops = group.members.map((member) => stop.values.get(member).op);
    const title = record && stop.kind === "plan" && group.kind !== "pointwise" ? record.algorithm : ops.length > 3
      ? [...ops.slice(0, 2), `+${ops.length - 2}`].join(" · ") : ops.join(" · ");
    const timed = step === undefined ? null : track.timed.get(step);
    return this.sized({
      title, names: group.members, kind: group.kind, isGroup: true, step: step === undefined ? -1 : step,
      sub: group.name, lead: record ? "step " + step : group.kind, time: timed ? timed.seconds : null,
        share: timed ? timed.share : 0,
      mark: group.members.map((member) => stop.marks.get(member)).find(Boolean) || "", count: group.members.length,
    });
  }

  valueNode(value, isLeaf, track, stop) {
    const group = this.groups.get(value.name);
    const step = track.stepOf.get(value.name);
    const kind = isLeaf ? "parameter" : value.role !== "operator" ? "input" : group ? group.kind
      : kindOfOperator(value.op);
    return this.sized({
      title: value.op || (isLeaf ? "parameter" : value.role), names: [value.name], kind, isGroup: false,
      step: step === undefined ? -1 : step, sub: value.name, lead: group && step !== undefined ? "step " + step
        : "",
      time: null, share: 0, mark: stop.marks.get(value.name) || "", count: 1,
    });
  }

  sized(node) {
    node.title = cut(shown(node.title), 34);
    node.sub = cut(shown(node.sub), 30);
    const lead = node.lead ? node.lead.length * 6 + 12 : 0;
    const letter = node.kind === "block" ? 8.2 : 7.4;  // titles of blocks are larger
    node.width = Math.min(290, Math.max(96, node.title.length * letter + lead + 26,
      node.sub.length * 6.1 + (node.time === null ? 0 : 66) + 22));
    node.height = 42;
    return node;
  }

  // ---- drawing ---------------------------------------------------------------------------------

  /** Move the camera, and draw what comes into sight. */
  move(change) {
    Object.assign(this.camera, change);
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      const { x, y, k } = this.camera;
      this.world.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
      this.svg.classList.toggle("far", k < 0.55);
      this.cull();
      this.labels.replaceChildren(...(k < 0.55 ? this.farLabels() : []));
      this.map.draw();
    });
  }

  /** Elements for what is in sight and a little around it; none for the rest. */
  cull() {
    const { x, y, k } = this.camera;
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    const margin = 200;
    const [left, top, right, bottom] = [(-x - margin) / k, (-y - margin) / k, (width - x + margin) / k,
      (height - y + margin) / k];
    const sees = (x0, y0, x1, y1) => x1 >= left && x0 <= right && y1 >= top && y0 <= bottom;
    this.nodes.forEach((node, i) => this.keep("n" + i, sees(node.x - node.width / 2, node.y - 22,
      node.x + node.width / 2, node.y + 22), () => this.nodeElement(node, i), this.nodesLayer));
    this.edges.forEach((edge, i) => {
      const [a, b] = [edge.points[0], edge.points[edge.points.length - 1]];
      const seen = sees(Math.min(a.x, b.x) - 60, Math.min(a.y, b.y), Math.max(a.x, b.x) + 60, Math.max(a.y, b.y));
      this.keep("e" + i, seen, () => this.edgeElement(edge), this.edgesLayer);
    });
  }

  /** Titles of as many nodes as have room in the size of the screen; costly nodes come first. */
  farLabels() {
    const { x, y, k } = this.camera;
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    const taken = [];
    const labels = [];
    const order = [...this.nodes].filter((node) => node.kind !== "parameter").sort((a, b) => b.share - a.share);
    for (const node of order) {
      if (labels.length >= 80) break;
      const text = cut(node.block || node.time !== null ? node.title : node.sub || node.title, 24);
      const half = text.length * 3.4;
      const [cx, cy] = [node.x * k + x, node.y * k + y];
      if (cx < half || cx > width - half || cy < 8 || cy > height - 8) continue;
      if (taken.some((box) => Math.abs(box.cx - cx) < box.half + half + 6 && Math.abs(box.cy - cy) < 15)) continue;
      taken.push({ cx, cy, half });
      labels.push(s("text", { x: cx, y: cy + 4, "text-anchor": "middle" }, text));
    }
    return labels;
  }

  keep(key, wanted, make, layer) {
    const known = this.drawn.get(key);
    if (wanted && !known) {
      const element = make();
      layer.append(element);
      this.drawn.set(key, element);
    } else if (!wanted && known) {
      known.remove();
      this.drawn.delete(key);
    }
  }

  nodeElement(node, i) {
    const [w, top] = [node.width, node.height];
    const timed = node.time === null ? null : s("text", { class: "time", x: w - 8, y: 34, "text-anchor": "end" },
      time(node.time));
    const heat = node.share ? s("rect", { class: "heat", x: 5, y: top - 4,
      width: Math.max(1, (w - 6) * Math.min(1, node.share * 4)), height: 3 }) : null;
    const sign = { added: "+", changed: "~" }[node.mark];
    return s("g", { class: "node " + this.classesOf(node), "data-node": i, id: "node-" + i,
      transform: `translate(${node.x - w / 2} ${node.y - top / 2})`, role: "img",
      "aria-label": `${node.title} ${node.sub}` },
      s("rect", { class: "box", width: w, height: top, rx: 5 }),
        s("rect", { class: "stripe kind-" + node.kind, width: 5, height: top, rx: 2 }),
      s("text", { class: "title", x: 13, y: 17 }, node.title), node.lead
        ? s("text", { class: "lead", x: w - 8, y: 17, "text-anchor": "end" }, node.lead) : null,
      s("text", { class: "sub", x: 13, y: 34, direction: "ltr" }, node.sub), timed, heat,
      sign ? s("text", { class: "sign " + node.mark, x: w + 4, y: 16 }, sign) : null);
  }

  classesOf(node) {
    return [node.mark, node.isChosen ? "chosen" : "", node.isRelated ? "related" : ""].join(" ");
  }

  edgeElement(edge) {
    const [first, ...rest] = edge.points;
    let d = `M${first.x} ${first.y}`;
    if (rest.length === 1) {
      const middle = (first.y + rest[0].y) / 2;
      d += `C${first.x} ${middle} ${rest[0].x} ${middle} ${rest[0].x} ${rest[0].y}`;
    } else {
      rest.forEach((point, i) => {
        const next = rest[i + 1];
        d += next ? `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`
          : `L${point.x} ${point.y}`;
      });
    }
    const label = edge.type ? s("text", { class: "type", x: first.x + 4, y: first.y + 13 + 12 * edge.row },
      cut(edge.type, 30))
      : null;
    return s("g", { class: "edge" }, s("path", { d, "marker-end": "url(#arrow)" }), label);
  }

  // ---- selection and camera --------------------------------------------------------------------

  /** Mark what is selected; returns whether a node is. */
  mark(selection) {
    for (const [i, node] of this.nodes.entries()) {
      node.isChosen = node.isRelated = false;
      if (!selection || selection.track !== this.app.track) continue;
      const isStep = node.step >= 0 && selection.steps.has(node.step)
        || node.steps && [...selection.steps].some((step) => node.steps.has(step));
      node.isRelated = isStep || node.names.some((known) => selection.values.has(known));
      node.isChosen = selection.type === "value" ? node.names.includes(selection.id) : selection.type === "step"
        ? node.step === selection.id : false;
      if (node.isChosen) this.svg.setAttribute("aria-activedescendant", "node-" + i);
    }
    if (selection && !this.nodes.some((node) => node.isChosen)) {
      const first = this.nodes.find((node) => node.isRelated);
      if (first) first.isChosen = true;
    }
    this.nodes.forEach((node, i) => {
      const element = this.drawn.get("n" + i);
      if (element) element.setAttribute("class", "node " + this.classesOf(node));
    });
    return this.current();
  }

  /** Bring a node into sight, if it is not. */
  reveal(node) {
    const { x, y, k } = this.camera;
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    const [nx, ny] = [node.x * k + x, node.y * k + y];
    const inside = nx > 60 && nx < width - 60 && ny > 40 && ny < height - 40 && k > 0.32;
    if (inside) return;
    const scale = Math.max(k, 0.7);
    this.move({ k: scale, x: width / 2 - node.x * scale, y: height / 2 - node.y * scale });
  }

  zoom(factor, event) {
    const box = this.svg.getBoundingClientRect();
    const [cx, cy] = event ? [event.clientX - box.left, event.clientY - box.top] : [box.width / 2, box.height / 2];
    const k = Math.min(3, Math.max(0.02, this.camera.k * factor));
    const ratio = k / this.camera.k;
    this.move({ k, x: cx - (cx - this.camera.x) * ratio, y: cy - (cy - this.camera.y) * ratio });
  }

  /** All of the graph (`whole`), or as much of its beginning as can be read. */
  fit(whole) {
    const [width, height] = [this.svg.clientWidth || 800, this.svg.clientHeight || 600];
    const { width: w, height: t } = this.size;
    const all = Math.min(1.2, (width - 20) / (w || 1), (height - 20) / (t || 1));
    const k = whole ? all : Math.max(all, Math.min(1, Math.max(0.7, (width - 20) / (w || 1))));
    const first = this.nodes.reduce((top, node) => (top && top.y <= node.y ? top : node), null);
    const map = t * k > height ? Math.min(MAP.width, width / 4) + 16 : 0;  // a high graph leaves it room
    const room = w * k <= width - map ? width - map : width;
    const x = w * k <= width || !first ? (room - w * k) / 2 : width / 2 - first.x * k;
    this.move({ k, x, y: t * k <= height ? (height - t * k) / 2 : 10 });
  }
}
