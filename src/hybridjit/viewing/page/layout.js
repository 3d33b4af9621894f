"use strict";
/* Places for the nodes of a graph, from above to below. dagre draws more beautifully; its time grows
   faster than the graph (0.4 s for 200 nodes, 2 to 6 s for 1,000), so larger ones are layered here. */

const MOST_FOR_DAGRE = 240;
const NODE_GAP = 18;
const RANK_GAP = 42;

/** Sets x and y (the middle) of every node, and points of every edge; returns the size. */
function layOut(nodes, edges) {
  return nodes.length <= MOST_FOR_DAGRE ? byDagre(nodes, edges) : byLayers(nodes, edges);
}

function byDagre(nodes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: NODE_GAP, ranksep: RANK_GAP, marginx: 10, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach((node, i) => graph.setNode("n" + i, { width: node.width, height: node.height }));
  edges.forEach((edge) => graph.setEdge("n" + edge.from, "n" + edge.to));
  dagre.layout(graph);
  nodes.forEach((node, i) => ({ x: node.x, y: node.y } = graph.node("n" + i)));
  edges.forEach((edge) => (edge.points = graph.edge("n" + edge.from, "n" + edge.to).points));
  return { width: graph.graph().width || 0, height: graph.graph().height || 0 };
}

function byLayers(nodes, edges) {
  const before = nodes.map(() => []);
  const after = nodes.map(() => []);
  for (const edge of edges) {
    before[edge.to].push(edge.from);
    after[edge.from].push(edge.to);
  }
  const layers = ranked(before, after);
  for (let round = 0; round < 4; round++) {
    const down = round % 2 === 0;
    const ordered = down ? layers : [...layers].reverse();
    for (const layer of ordered) place(layer, nodes, down ? before : after);
  }
  let y = 10;
  let left = Infinity;
  let right = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((i) => nodes[i].height));
    for (const i of layer) {
      nodes[i].y = y + height / 2;
      left = Math.min(left, nodes[i].x - nodes[i].width / 2);
      right = Math.max(right, nodes[i].x + nodes[i].width / 2);
    }
    y += height + RANK_GAP;
  }
  nodes.forEach((node) => (node.x += 10 - left));
  for (const edge of edges) {
    const [a, b] = [nodes[edge.from], nodes[edge.to]];
    edge.points = [{ x: a.x, y: a.y + a.height / 2 }, { x: b.x, y: b.y - b.height / 2 }];
  }
  return { width: right - left + 20, height: y };
}

/** The nodes of each rank: one more than the last that a node reads. Nodes come after their inputs. */
function ranked(before, after) {
  const left = before.map((list) => list.length);
  const rank = before.map(() => 0);
  const ready = left.flatMap((count, i) => (count ? [] : [i]));
  const layers = [];
  const done = new Set();
  while (ready.length || done.size < before.length) {
    const i = ready.length ? ready.pop() : left.findIndex((count, j) => !done.has(j)); // in a cycle of blocks
    if (done.has(i)) continue;
    done.add(i);
    (layers[rank[i]] = layers[rank[i]] || []).push(i);
    for (const user of after[i]) {
      rank[user] = Math.max(rank[user], rank[i] + 1);
      if (--left[user] === 0) ready.push(user);
    }
  }
  return layers;
}

/** Each node of a layer in the middle of its neighbours, as far as there is room. */
function place(layer, nodes, neighbours) {
  const wanted = new Map(layer.map((i) => {
    const near = neighbours[i].map((j) => nodes[j].x || 0);
    return [i, near.length ? near.reduce((a, b) => a + b, 0) / near.length : nodes[i].x || 0];
  }));
  layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
  let end = -Infinity;
  let shift = 0;
  for (const i of layer) {
    const node = nodes[i];
    node.x = Math.max(wanted.get(i), end + node.width / 2);
    end = node.x + node.width / 2 + NODE_GAP;
    shift += node.x - wanted.get(i);
  }
  for (const i of layer) nodes[i].x -= shift / layer.length;
}
