"use strict";
/* The tabs beside the graph. Each is a title, whether there is anything to show, and what it shows. */

const PANELS = [
  { id: "summary", title: "Summary", has: () => true, show: summary },
  { id: "stage", title: "Stage", has: () => true, show: stagePanel },
  { id: "time", title: "Time", has: (app) => app.track.part && app.track.part.profile, show: timePanel },
  { id: "roofline", title: "Roofline", has: (app) => app.track.part && app.track.part.profile,
    show: rooflinePanel },
  { id: "memory", title: "Memory", has: (app) => app.track.part, show: memoryPanel },
  { id: "kernels", title: "Kernels", has: (app) => app.track.part, show: kernelsPanel },
  { id: "parameters", title: "Parameters", has: () => Model.document.parameters.length, show: parametersPanel },
  { id: "training", title: "Training", has: () => Model.document.training, show: trainingPanel },
  { id: "values", title: "Values", has: () => true, show: valuesPanel },
  { id: "comparison", title: "Against", has: () => Model.document.comparison, show: comparisonPanel },
];

function summary(app) {
  const found = Model.document;
  const part = app.track.part || Model.first.part;
  const profile = part && part.profile;
  const params = found.parameters.reduce((sum, parameter) => sum + parameter.bytes, 0);
  const times = Object.entries(part ? part.times : {});
  return [
    facts([
      ["network", name(found.name, 80)], ["inputs", Object.entries(found.inputs).map(([key, type]) => [name(key,
        60), " ", h("code", {}, type), h("br")])],
      ["compiled for", found.machine.text],
        ["parameters", `${plural(found.parameters.length, "array")}, ${bytes(params)}`],
      ["steps", part && `${plural(part.steps.length, "step")}, ${plural(part.kernels.length, "kernel")}, ${plural(part.steps.filter((step) => !step.calls.length).length, "host step")}`],
      ["arena", part && `${bytes(part.plan.arena_bytes)}; most alive ${bytes(part.plan.live_bytes)}`],
      ["batch", part && part.samples > 1
        && `${part.samples} samples run one after the other: what is shown is one of them`],
      ["a run takes", profile
        && `${time(profile.whole)} on ${plural(profile.threads, "thread")}; steps together ${time(profile.total)} in ${plural(profile.rounds, "round")}`],
    ]),
    profile && isDisturbed(profile) ? h("p", { class: "warning" },
      `The steps together differ from a run that was not watched by ${percent(Math.abs(excess(profile)), 0)}: `,
      "something else used the machine. Measure again before you believe a step's time.") : null,
    profile ? slowest(app, app.track.part ? app.track : Model.first)
      : h("p", { class: "quiet" },
      "Nothing was measured: --profile, or profile=True, adds the time of every step."),
    times.length ? [h("h3", {}, "Compiling"), timesTable(times)] : null,
    part && part.notes.length ? h("details", {}, h("summary", {}, `Why: ${plural(part.notes.length, "note")}`),
      h("ul", {}, part.notes.map((note) => h("li", {}, name(note))))) : null,
  ];
}

/** By which part of a run its steps and their start differ from it. */
function excess(profile) {
  return (profile.total + profile.start) / profile.whole - 1;
}

/** Whether a run that takes a millisecond or more is off by more than 5%. */
function isDisturbed(profile) {
  return profile.whole >= 1e-3 && Math.abs(excess(profile)) > 0.05;
}

function slowest(app, track) {
  const rows = [...track.timed].sort((a, b) => b[1].seconds - a[1].seconds).slice(0, 8);
  const list = rows.map(([step, row]) => h("li", {},
    h("span", { class: "meter" }, meter(row.share)), " ", percent(row.share), " ", time(row.seconds), " ",
    link(track.part.steps[step].name, () => app.select({ type: "step", id: step }), 44), " ",
      h("span", { class: "quiet" }, track.part.steps[step].algorithm)));
  return [h("h3", {}, "Where the time goes"), h("ol", { class: "slowest" }, list)];
}

function meter(share) {
  return s("svg", { class: "meter", viewBox: "0 0 80 10", width: 80, height: 10, "aria-hidden": "true" },
    s("rect", { class: "back", width: 80, height: 10 }), s("rect",
    { width: Math.max(0.5, 80 * Math.min(1, share)), height: 10 }));
}

function timesTable(times) {
  const total = times.reduce((sum, [, took]) => sum + took, 0) || 1;
  const rows = times.map(([key, took]) => ({ key, took }));
  return table("Each stage of the compilation", [
    { title: "stage", value: (row) => row.key }, { title: "ms", right: true, value: (row) => row.took,
      show: (row) => milliseconds(row.took) },
    { title: "share", value: (row) => row.took / total, show: (row) => meter(row.took / total) }], rows);
}

function stagePanel(app) {
  const { stop } = app;
  const choose = (value) => app.select({ type: "value", id: value });
  const names = (list) => h("p", { class: "names" }, list.slice(0,
    200).map((value) => [link(value, () => choose(value), 60), " "]),
    list.length > 200 ? `and ${number(list.length - 200)} more` : null);
  const part = (title, list) => (list.length ? [h("h3", {}, `${title} (${number(list.length)})`), names(list)]
    : null);
  const isStage = stop.kind === "stage";
  const counts = Object.entries(stop.stage.counts).map(([op, count]) => ({ op, count }));
  return [
    h("h2", {}, stop.title), h("p", {}, stop.description),
    isStage && !stop.isNew && !stop.stage.rules.length && app.track.stops.indexOf(stop) > 1
      ? h("p", { class: "quiet" }, "Nothing changed.") : null,
    isStage && stop.stage.rules.length ? [h("h3", {}, "Rules that fired"),
      h("ul", { class: "rules" }, stop.stage.rules.map((rule) => h("li", {}, h("code", {}, shown(rule.title)),
      h("details", {}, h("summary", {}, plural(rule.values.length, "time")), names(rule.values)))))] : null,
    isStage ? [part("Changed", stop.stage.changed), part("Added", stop.stage.added),
      part("Removed", stop.stage.removed)] : null,
    isStage && stop.stage.notes.length ? [h("h3", {}, "Notes"),
      h("ul", {}, stop.stage.notes.map((note) => h("li", {}, name(note))))] : null,
    counts.length ? table("Operators", [{ title: "operator", value: (row) => row.op },
      { title: "uses", right: true, value: (row) => row.count }], counts) : null,
  ];
}

function timePanel(app) {
  const { track } = app;
  const profile = track.part.profile;
  const rows = profile.parts.map((timed) => ({ ...timed, key: "step-" + timed.step,
    record: track.part.steps[timed.step] }));
  const rate = (row) => (row.seconds ? 1e-9 * row.flops / row.seconds : 0);
  return [timeLine(track, (step) => app.select({ type: "step", id: step })), sums(app, rows),
    table(`Every kernel call; steps together ${time(profile.total)}, a run that was not watched ${time(profile.whole)}`, [
      { title: "step", right: true, value: (row) => row.step },
        { title: "ms", right: true, value: (row) => row.seconds, show: (row) => milliseconds(row.seconds) },
      { title: "share", right: true, value: (row) => row.share, show: (row) => percent(row.share) },
        { title: "GFLOP/s", right: true, value: rate, show: (row) => (row.flops ? rate(row).toFixed(1) : "") },
      { title: "of peak", right: true, value: (row) => row.of_peak,
        show: (row) => (row.flops ? percent(row.of_peak, 0) : "") },
      { title: "GB/s", right: true, value: (row) => (row.seconds ? row.bytes / row.seconds : 0),
        show: (row) => (row.seconds ? (1e-9 * row.bytes / row.seconds).toFixed(1) : "") },
      { title: "algorithm", value: (row) => row.algorithm }, { title: "operator", main: true,
        value: (row) => row.record.name, show: (row) => name(row.record.name, 40) },
      { title: "fused", value: (row) => row.record.fused.join(", "),
        show: (row) => name(row.record.fused.join(", ")) }, { title: "line", value: (row) => row.record.source,
        show: (row) => lineOf(row.record.source, 30) },
    ], rows, (row) => app.select({ type: "step", id: row.step }))];
}

/** The outermost block around a step, below the network itself. */
function blockOf(tree, step) {
  const path = blockPath(step);
  return path[tree.depth(path)] || step;
}

/** Times by block, by operator and by kernel: a table of each, folded. */
function sums(app, rows) {
  const { track } = app;
  const last = track.stops[track.stops.length - 1];
  const tree = app.graph.tree || new Blocks([]);
  const operator = (row) => {
    const members = row.record.members.map((member) => last.values.get(member)).filter((value) => value && value.op);
    return members.length ? members[0].op : row.record.kind;
  };
  const kernel = (row) => (row.kernel < 0 ? row.algorithm : track.part.kernels[row.kernel].algorithm);
  const block = (row) => blockOf(tree, row.record.name);
  const folded = [["block", block], ["operator", operator], ["kernel", kernel]];
  return folded.map(([title, key]) => h("details", { class: "sums", "data-by": title },
    h("summary", {}, `Sums by ${title}`), sumTable(title, summed(rows, key))));
}

function summed(rows, key) {
  const found = new Map();
  for (const row of rows) {
    const sum = found.get(key(row)) || { key: key(row), seconds: 0, share: 0, flops: 0, calls: 0 };
    sum.seconds += row.seconds;
    sum.share += row.share;
    sum.flops += row.flops;
    sum.calls += 1;
    found.set(key(row), sum);
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds);
}

function sumTable(title, rows) {
  return table(`Times by ${title}`, [{ title, value: (row) => row.key, show: (row) => name(row.key, 60) },
    { title: "calls", right: true, value: (row) => row.calls },
    { title: "ms", right: true, value: (row) => row.seconds, show: (row) => milliseconds(row.seconds) },
    { title: "share", right: true, value: (row) => row.share, show: (row) => percent(row.share) },
    { title: "", value: (row) => row.share, show: (row) => meter(row.share) },
    { title: "GFLOP/s", right: true, value: (row) => (row.flops ? 1e-9 * row.flops / row.seconds : 0),
      show: (row) => (row.flops ? (1e-9 * row.flops / row.seconds).toFixed(1) : "") }], rows);
}

function rooflinePanel(app) {
  return [roofline(app.track, (step) => app.select({ type: "step", id: step })),
    h("p", { class: "quiet" },
      "Circles are steps, as large as their time. Bytes count each element that a step reads or writes once; the lines are the peak of this CPU's cores and what they read from memory, measured when this page was made. What fits into caches may lie above the slanted line, and Winograd above the flat one.")];
}

function memoryPanel(app) {
  const { track } = app;
  const plan = track.part.plan;
  const all = plan.buffers.map((buffer, i) => ({ ...buffer, place: i, key: "buffer-" + i }));
  const rows = [...all.filter((row) => row.kind === "arena"), ...all.filter((row) => row.kind !== "arena")];
  const act = (place) => app.select({ type: "buffer", id: place });
  return [memoryChart(track, act),
    plan.notes.length ? h("ul", {}, plan.notes.map((note) => h("li", {},
      name(note.replace(/\b(\d{4,}) B\b/, (_, count) => bytes(+count)))))) : null,
    table(`Memory of ${plural(plan.buffers.length, "buffer")}; arena ${bytes(plan.arena_bytes)}`, [
      { title: "where", main: true, value: (row) => row.kind + (row.kind === "arena"
        ? row.offset.toString().padStart(12) : row.index.toString().padStart(12)),
        show: (row) => (row.kind === "arena" ? "arena +" + row.offset : row.kind + " " + row.index) },
      { title: "size", right: true, value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
      { title: "steps", right: true, value: (row) => row.first,
        show: (row) => (row.kind === "arena" ? `${row.first} to ${row.last}` : "") },
      { title: "holds", value: (row) => row.values.join(" "), show: (row) => name(row.values.join(", "), 70) }],
        rows, (row) => act(row.place))];
}

function kernelsPanel(app) {
  const { track } = app;
  const rows = track.part.kernels.map((kernel, i) => ({ ...kernel, place: i, key: "kernel-" + i,
    seconds: track.kernelTime.get(i) || 0 }));
  const timed = track.part.profile ? [{ title: "ms", right: true, value: (row) => row.seconds,
    show: (row) => milliseconds(row.seconds) }] : [];
  return table(`${plural(rows.length, "kernel")}: steps with equal specs share one`, [
    { title: "algorithm", main: true, value: (row) => row.algorithm },
      { title: "steps", right: true, value: (row) => row.steps.length }, ...timed,
    { title: "spec", wide: true, value: (row) => row.spec, show: (row) => h("code", { class: "spec" },
      shown(row.spec)) }], rows, (row) => app.select({ type: "kernel", id: row.place }));
}

function parametersPanel(app) {
  const rows = Model.document.parameters.map((parameter) => ({ ...parameter, key: "value-" + parameter.name }));
  const at = Math.max(0, app.track.place);
  return table(plural(rows.length, "parameter"), [
    { title: "name", main: true, value: (row) => row.name, show: (row) => name(row.name, 48) },
      { title: "type", value: (row) => row.type }, { title: "size", right: true, value: (row) => row.bytes,
      show: (row) => bytes(row.bytes) },
    { title: "numbers", value: (row) => (row.histogram ? row.histogram.deviation : 0),
      show: (row) => histogramChart(row.histogram) },
    { title: "mean", right: true, value: (row) => (row.histogram ? row.histogram.mean : 0),
      show: (row) => (row.histogram ? few(row.histogram.mean) : "") },
    { title: "deviation", right: true, value: (row) => (row.histogram ? row.histogram.deviation : 0),
      show: (row) => (row.histogram ? few(row.histogram.deviation) : "") },
    { title: "steps", right: true, value: (row) => row.steps[at][0] ?? -1,
      show: (row) => row.steps[at].join(", ") }], rows, (row) => app.select({ type: "value", id: row.name }));
}

function trainingPanel(app) {
  const found = Model.document.training;
  const choose = (value) => app.select({ type: "value", id: value });
  const saved = found.saved.map((row) => ({ ...row, key: "value-" + row.value[0] }));
  const kept = saved.reduce((sum, row) => sum + row.bytes, 0);
  const took = found.updates.some((row) => row.seconds !== null);
  const parts = Model.tracks.filter((track) => track.part && track.part.profile)
    .map((track) => ({ name: track.title, seconds: track.part.profile.total }));
  const updating = found.updates.reduce((sum, row) => sum + (row.seconds || 0), 0);
  return [
    parts.length ? stackedBar("A step of training", [...parts, { name: "update", seconds: updating }]) : null,
    h("p", {}, `Between forward and backward ${plural(saved.length, "value")} of ${bytes(kept)} are saved; what is cheap is computed again. ${plural(found.gradients.length, "gradient")}, ${plural(found.states.length, "moving state")}.`),
    table("Saved", [{ title: "value", main: true, value: (row) => row.value[0],
      show: (row) => name(row.value[0], 44) }, { title: "type", value: (row) => row.type },
      { title: "size", right: true, value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
      { title: "why", wide: true, value: (row) => row.reason,
        show: (row) => name(row.reason.replace(/^saved .*?, \d+ B: (?=read by)/, "")) }], saved,
      (row) => choose(row.value[0])),
    table("The optimizer's step", [{ title: "parameter", main: true, value: (row) => row.name,
      show: (row) => name(row.name, 44) }, { title: "rule", value: (row) => row.rule },
      ...(took ? [{ title: "ms", right: true, value: (row) => row.seconds || 0,
        show: (row) => (row.seconds === null ? "" : milliseconds(row.seconds)) }] : []),
        { title: "bytes", right: true, value: (row) => row.bytes, show: (row) => bytes(row.bytes) }],
        found.updates.map((row) => ({ ...row, key: "value-" + row.name })), (row) => choose(row.name)),
    found.states.length ? [h("h3", {}, "States that training moves"),
      h("p", { class: "names" }, found.states.map((state) => [link(state, () => choose(state), 60), " "]))] : null];
}

function valuesPanel(app) {
  const rows = [...app.stop.values.values()].map((value) => ({ ...value, key: "value-" + value.name }));
  if (!rows.length) return [h("p", {},
    "There are too many values in this stage to list: these are the counts of its operators."),
    table("Operators", [{ title: "operator", value: (row) => row.key },
    { title: "uses", right: true, value: (row) => row.count }],
    Object.entries(app.stop.stage.counts).map(([key, count]) => ({ key, count })))];
  return table(`${plural(rows.length, "value")} at ${app.stop.title}`, [
    { title: "name", main: true, value: (row) => row.name, show: (row) => name(row.name, 44) },
      { title: "operator", value: (row) => row.op || row.role },
      { title: "type", value: (row) => row.types.join(" "), show: (row) => name(row.types.join(" ")) },
    { title: "attributes", wide: true, value: (row) => attributes(row), show: (row) => name(attributes(row), 90) },
      { title: "line", value: (row) => row.source, show: (row) => lineOf(row.source, 30) }], rows,
      (row) => app.select({ type: "value", id: row.name }));
}

function attributes(value) {
  return Object.entries(value.attrs).map(([key, text]) => `${key}=${text}`).join(" ");
}

/** The end of `file:line in function`, all of it in a title. */
function lineOf(source, limit) {
  if (!source) return "";
  const short = source.split("/").pop().replace(/ in \S+$/, "");
  const found = name(short, limit);
  found.title = shown(source);
  return found;
}

/** The steps that take longest in either run, as a pair of bars each. */
function sideBySide(rows) {
  const timed = rows.filter((row) => row.seconds[0] !== null || row.seconds[1] !== null)
    .sort((a, b) => Math.max(...b.seconds) - Math.max(...a.seconds)).slice(0, 20);
  return timed.length ? [h("p", { class: "quiet" }, "The longest steps: before above, after below."),
    pairedBars("Longest steps before and after", timed)] : null;
}

/** Sums of both runs by operator, block and kernel, with the ratio of after to before. */
function pairedSums(changes) {
  const trees = [0, 1].map((run) => new Blocks(changes.filter((row) => row.steps[run] >= 0).map((row) => row.name)));
  const folded = [["operator", (row, run) => row.operators[run]], ["block", (row, run) => blockOf(trees[run], row.name)],
    ["kernel", (row, run) => row.algorithms[run]]];
  return folded.map(([title, key], i) => h("details", { class: "sums", "data-by": title, open: i === 0 },
    h("summary", {}, `Both by ${title}`), pairedTable(title, changes, key)));
}

function pairedTable(title, changes, key) {
  const found = new Map();
  for (const row of changes) {
    for (const run of [0, 1]) {
      if (row.steps[run] < 0) continue;
      const sum = found.get(key(row, run)) || { key: key(row, run), calls: [0, 0], seconds: [0, 0] };
      sum.calls[run] += 1;
      sum.seconds[run] += row.seconds[run] || 0;
      found.set(sum.key, sum);
    }
  }
  const rows = [...found.values()].sort((a, b) => Math.max(...b.seconds) - Math.max(...a.seconds));
  const isTimed = rows.some((row) => row.seconds[0] || row.seconds[1]);
  const of = (heading, run, list, show) => ({ title: `${heading} ${["before", "after"][run]}`, right: true,
    value: (row) => row[list][run], show: (row) => (row.calls[run] ? show(row[list][run]) : "") });
  const ratio = (row) => (row.seconds[0] && row.seconds[1] ? row.seconds[1] / row.seconds[0] : 0);
  return table(`Before and after by ${title}; the ratio is after to before`, [{ title, value: (row) => row.key, show: (row) => name(row.key, 60) },
    of("steps", 0, "calls", number), of("steps", 1, "calls", number),
    ...(isTimed ? [of("ms", 0, "seconds", milliseconds), of("ms", 1, "seconds", milliseconds),
      { title: "ratio", right: true, value: ratio, show: (row) => (ratio(row) ? ratio(row).toFixed(2) : "") }] : [])],
  rows);
}

function comparisonPanel(app) {
  const found = Model.document.comparison;
  const signs = { same: "", "other kernel": "≠ other kernel", new: "+ new", gone: "− gone" };
  return [h("p", {}, "Before: ", name(found.before, 60)), found.parts.map((part) => {
    const pair = (title, [before, after], show) => [title, before === null || after === null ? null
      : `${show(before)} → ${show(after)}${before ? ` (${after >= before ? "+" : ""}${percent(after / before - 1)})` : ""}`];
    const rows = part.changes.map((change) => ({ ...change, key: change.steps[1] >= 0 ? "step-" + change.steps[1]
      : "" }));
    const gain = (row) => (row.seconds[0] !== null && row.seconds[1] !== null ? row.seconds[1] - row.seconds[0]
      : 0);
    return [h("h3", {}, part.name), pairedSums(part.changes), facts([pair("steps", part.steps, number),
      pair("arena", part.arena_bytes, bytes), pair("most alive", part.live_bytes, bytes),
      pair("time", part.seconds, time)]), sideBySide(rows),
      table("Steps, by name", [{ title: "step", main: true, value: (row) => row.name,
        show: (row) => name(row.name, 44) }, { title: "what", value: (row) => signs[row.what] },
        { title: "before ms", right: true, value: (row) => row.seconds[0] || 0,
          show: (row) => (row.seconds[0] === null ? "" : milliseconds(row.seconds[0])) },
          { title: "after ms", right: true, value: (row) => row.seconds[1] || 0,
          show: (row) => (row.seconds[1] === null ? "" : milliseconds(row.seconds[1])) },
        { title: "difference", right: true, value: gain, show: (row) => (gain(row)
          ? (gain(row) > 0 ? "+" : "−") + milliseconds(Math.abs(gain(row))) : "") },
        { title: "kernels", wide: true, value: (row) => row.specs.join(" "),
          show: (row) => (row.what === "other kernel" ? h("details", {}, h("summary", {}, "specs"),
          h("code", { class: "spec" }, shown(row.specs[0])), h("br"),
          h("code", { class: "spec" }, shown(row.specs[1]))) : "") }],
      rows, (row) => row.steps[1] >= 0 && app.select({ type: "step", id: row.steps[1] }))];
  })];
}
