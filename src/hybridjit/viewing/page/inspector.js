"use strict";
/* What is selected: from the user's line to machine code. */

function inspect(app) {
  const chosen = app.selection;
  if (!chosen) return h("p", { class: "quiet" },
    "Select an operator, a step, a buffer, a kernel or a parameter: everything that belongs to it is marked in every view. Keys: / search, [ and ] stages, arrows in the graph, Escape lets go.");
  const steps = [...chosen.steps];
  return [h("div", { class: "title" }, h("h2", {}, titleOf(app, chosen)),
    h("button", { type: "button", onclick: () => app.select(null), "aria-label": "Let go of the selection" }, "×")),
    chosen.type === "value" ? valueFacts(app, chosen) : null, chosen.type === "buffer" ? bufferFacts(app, chosen)
      : null,
    chosen.type === "kernel" ? stepsOfKernel(app, chosen) : steps.slice(0,
      12).map((step) => stepFacts(app, chosen.track, step, steps.length)),
    chosen.type !== "kernel" && steps.length > 12 ? h("p", { class: "quiet" },
      `and ${number(steps.length - 12)} more steps`) : null,
    [...chosen.kernels].slice(0, 4).map((kernel) => kernelCode(app, chosen.track.part.kernels[kernel]))];
}

function titleOf(app, chosen) {
  const { part } = chosen.track;
  if (chosen.type === "value") return [name(chosen.id, 70)];
  if (chosen.type === "step") return [`Step ${chosen.id}: `, name(part.steps[chosen.id].name, 60)];
  if (chosen.type === "kernel") return ["Kernel ", name(part.kernels[chosen.id].algorithm, 60)];
  const buffer = part.plan.buffers[chosen.id];
  return buffer.kind === "arena" ? `Arena +${buffer.offset}` : `${buffer.kind} ${buffer.index}`;
}

/** A value where it is now, or as the last stage had it that has it. */
function recordOf(app, chosen) {
  const now = app.stop.values.get(chosen.id);
  if (now && chosen.track === app.track) return [now, app.stop];
  for (const stop of [...chosen.track.stops].reverse()) {
    if (stop.values.has(chosen.id)) return [stop.values.get(chosen.id), stop];
  }
  return [null, null];
}

function valueFacts(app, chosen) {
  const [record, stop] = recordOf(app, chosen);
  const parameter = chosen.parameter;
  const users = stop ? stop.users.get(chosen.id) || [] : [];
  const choose = (value) => link(value, () => app.select({ type: "value", id: value }), 44);
  const found = parameter && parameter.histogram;
  return [facts([
    ["operator", record && (record.op || record.role)], ["type",
      record ? h("code", {}, record.types.join(" ")) : parameter && h("code", {}, parameter.type)],
    ["size", record && record.bytes ? bytes(record.bytes) : parameter && bytes(parameter.bytes)],
    ["attributes", record && Object.keys(record.attrs).length ? h("code", {}, name(attributes(record))) : null],
    ["your line", record && record.source ? [name(record.source),
      Model.lines[record.source] ? h("pre", { class: "line" }, shown(Model.lines[record.source])) : null] : null],
    ["reads", record && record.inputs.map(([source]) => [choose(source), " "])],
      ["read by", users.slice(0, 30).map((user) => [choose(user), " "])],
    ["seen at", stop && stop !== app.stop ? `${stop.title}, not at ${app.stop.title}` : null],
    ["numbers", found && [histogramChart(found, 300, 60), h("br"),
      `${few(found.low)} to ${few(found.high)}, mean ${few(found.mean)}, deviation ${few(found.deviation)}` + (found.not_finite ? `, ${number(found.not_finite)} not finite` : "") + (parameter.bytes / found.sampled > 8 ? `, of ${number(found.sampled)} sampled` : "")]],
  ]), lifeOf(app, chosen)];
}

function lifeOf(app, chosen) {
  const rows = chosen.track.life(chosen.id);
  if (rows.length < 2 && !(rows[0] && rows[0].rules.length)) return null;
  return h("details", {}, h("summary", {}, `Through the stages (${rows.length})`),
    h("ol", { class: "life" }, rows.map((row) => h("li", {},
    link(row.stop.title, () => app.goTo(row.stop)), " ", h("b", { class: row.what }, row.what), " ",
      row.what === "removed" ? null : h("code", {}, shown([row.record.op, ...row.record.types].join(" "))),
    row.rules.map((title) => h("div", {}, h("code", { class: "rule" }, shown(title))))))));
}

function bufferFacts(app, chosen) {
  const buffer = chosen.track.part.plan.buffers[chosen.id];
  return facts([["size", bytes(buffer.bytes)], ["alive", buffer.kind === "arena"
    ? `steps ${buffer.first} to ${buffer.last}` : null],
    ["holds", buffer.values.slice(0, 40).map((value) => [link(value,
      () => app.select({ type: "value", id: value }), 44), " "])]]);
}

function stepsOfKernel(app, chosen) {
  const kernel = chosen.track.part.kernels[chosen.id];
  const total = chosen.track.kernelTime.get(chosen.id);
  return facts([["time", total ? time(total) + " in all calls" : null],
    ["steps", kernel.steps.map((step) => [link(`${step} ${chosen.track.part.steps[step].name}`,
      () => app.select({ type: "step", id: step }), 48), " "])]]);
}

function stepFacts(app, track, place, count) {
  const step = track.part.steps[place];
  const timed = track.timed.get(place);
  const [reads, writes] = [step.reads, step.writes].map((views) => views.slice(0,
    24).map((view) => viewOf(app, track, view)));
  const body = facts([
    ["algorithm", step.algorithm], ["values", step.members.map((member) => [link(member,
      () => app.select({ type: "value", id: member }), 44), " "])],
    ["fused", shown(step.fused.join(", "))], ["your line", step.source ? lineOf(step.source, 80) : null],
    ["time", timed && `${time(timed.seconds)}, ${percent(timed.share)} of all; ` + (timed.flops
      ? `${(1e-9 * timed.flops / timed.seconds).toFixed(1)} GFLOP/s, ${percent(timed.of_peak, 0)} of peak; `
      : "") + `${bytes(timed.bytes)}, ${(1e-9 * timed.bytes / timed.seconds).toFixed(1)} GB/s`],
    ["moves", timed ? null : bytes(step.bytes)], ["reads", reads], ["writes", writes],
      ["note", step.note && name(step.note)],
    ["chosen", step.calls.filter((call) => call.reason).map((call) => h("div", {}, shown(call.reason)))],
    ["weights", [...new Set(step.calls.flatMap((call) => call.weights))].map((text) => h("div", {},
      name(text, 110)))],
    ["kernels", [...new Set(step.calls.map((call) => call.kernel))].map((kernel) => [link(track.part.kernels[kernel].algorithm, () => app.select({ type: "kernel", id: kernel })), " "])],
  ]);
  return h("details", { open: count < 3 }, h("summary", {}, `Step ${place} `, name(step.name, 50)), body);
}

function viewOf(app, track, view) {
  const buffer = track.part.plan.buffers[view.buffer];
  const where = buffer.kind === "arena" ? `arena +${buffer.offset}` : `${buffer.kind} ${buffer.index}`;
  return h("div", {}, link(view.value[0], () => app.select({ type: "value", id: view.value[0] }), 40), " ",
    h("code", {}, `${view.dtype}[${view.shape}]`), " in ",
    link(where, () => app.select({ type: "buffer", id: view.buffer })), " ",
      h("span", { class: "quiet" }, `strides ${view.strides}` + (view.offset ? ` at ${view.offset}` : "")));
}

/** A kernel's spec and code; the texts are made when they are opened. */
function kernelCode(app, kernel) {
  const box = h("div", { class: "code-box" });
  const buttons = ["assembly", "llvm"].filter((which) => kernel[which]).map((which) => h("button",
    { type: "button", "aria-pressed": "false", "data-which": which, onclick: (e) => {
    const open = e.target.getAttribute("aria-pressed") === "true";
    buttons.forEach((button) => button.setAttribute("aria-pressed", "false"));
    replace(box);
    if (open) return;
    e.target.setAttribute("aria-pressed", "true");
    app.listing = which;
    showListing(box, kernel[which]);
  } }, which === "llvm" ? "LLVM IR" : "assembly"));
  const element = h("div", { class: "kernel" }, h("h3", {}, "Kernel ", h("code", {}, shown(kernel.name))),
    h("p", {}, h("code", { class: "spec" }, shown(kernel.spec))), h("div", { class: "tools" }, buttons), box);
  const wanted = buttons.find((button) => button.dataset.which === app.listing);
  if (wanted) {
    wanted.setAttribute("aria-pressed", "true");
    showListing(box, kernel[app.listing]);
  }
  return element;
}

function showListing(box, code) {
  const lines = code.text.split("\n");
  const [first, last] = code.hot;
  const hot = first >= 0 ? h("mark", { class: "hot" }, lines.slice(first, last + 1).join("\n") + "\n") : null;
  const pre = h("pre", { class: "code", tabindex: 0, "aria-label": "Code" },
    first > 0 ? lines.slice(0, first).join("\n") + "\n" : null, hot, lines.slice(last + 1).join("\n"));
  replace(box, h("p", { class: "quiet" }, `${plural(code.lines, "line")}` + (hot
    ? `; the innermost loop that multiplies most is marked` : "")), pre);
  if (hot) requestAnimationFrame(() => (pre.scrollTop = hot.offsetTop - 30));
}
