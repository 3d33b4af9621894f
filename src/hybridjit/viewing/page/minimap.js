"use strict";
/* The whole graph in a corner, with a frame around the part in sight; a click or drag moves there. */

const MAP = { width: 110, height: 150 };

class MiniMap {
  constructor(view) {
    this.view = view;
    this.shapes = s("g", {});
    this.frame = s("rect", { class: "frame" });
    this.svg = s("svg", { id: "minimap", width: MAP.width, height: MAP.height, "aria-hidden": "true",
      viewBox: `0 0 ${MAP.width} ${MAP.height}` },
      this.shapes, this.frame);
    const go = (e) => e.buttons && this.go(e);
    this.svg.addEventListener("pointerdown", (e) => {
      this.svg.setPointerCapture(e.pointerId);
      this.go(e);
    });
    this.svg.addEventListener("pointermove", go);
  }

  get scale() {
    const { width, height } = this.view.size;
    return Math.min((MAP.width - 8) / (width || 1), (MAP.height - 8) / (height || 1));
  }

  draw() {
    const { view } = this;
    const { x, y, k } = view.camera;
    const [width, height] = [view.svg.clientWidth, view.svg.clientHeight];
    const fits = x >= 0 && y >= 0 && view.size.width * k + x <= width && view.size.height * k + y <= height;
    this.svg.toggleAttribute("hidden", fits || !view.nodes.length);
    if (this.nodes !== view.nodes) this.shape();
    const f = this.scale;
    const box = { x: 4 - (x / k) * f, y: 4 - (y / k) * f, width: (width / k) * f, height: (height / k) * f };
    for (const [key, value] of Object.entries(box)) this.frame.setAttribute(key, value.toFixed(1));
  }

  /** A path for the nodes of each kind. */
  shape() {
    const { nodes } = this.view;
    const f = this.scale;
    const paths = new Map();
    for (const node of nodes) {
      const [w, t] = [Math.max(1.5, node.width * f), Math.max(1.5, node.height * f)];
      const d = `M${(4 + node.x * f - w / 2).toFixed(1)} ${(4 + node.y * f - t / 2).toFixed(1)}h${w.toFixed(1)}v${t.toFixed(1)}h${(-w).toFixed(1)}z`;
      paths.set(node.kind, (paths.get(node.kind) || "") + d);
    }
    replace(this.shapes, [...paths].map(([kind, d]) => s("path", { class: "kind-" + kind, d })));
    this.nodes = nodes;
  }

  go(event) {
    const corner = this.svg.getBoundingClientRect();
    const { camera, svg } = this.view;
    const [f, shown] = [this.scale, MAP.width / (corner.width || 1)];
    const [gx, gy] = [((event.clientX - corner.left) * shown - 4) / f,
      ((event.clientY - corner.top) * shown - 4) / f];
    this.view.move({ x: svg.clientWidth / 2 - gx * camera.k, y: svg.clientHeight / 2 - gy * camera.k });
  }
}
