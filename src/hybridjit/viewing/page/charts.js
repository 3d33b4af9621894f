"use strict";
/* Pictures of a plan and of a profile: memory over steps, time, and the roofline. */

const PALETTE = 8;

/** Units across a chart: fewer on a narrow window, where 900 of them would make letters of 5 px. */
function across() {
  return Math.min(900, Math.max(360, window.innerWidth - 16));
}

/** The arena: address upwards, steps to the right; a rectangle for each buffer while it lives. */
function memoryChart(track, act) {
  const plan = track.part.plan;
  const count = track.part.steps.length;
  const [width, height, left, bottom] = [across(), 320, 62, 26];
  const arena = plan.buffers.map((buffer,
    i) => ({ ...buffer, place: i })).filter((buffer) => buffer.kind === "arena");
  if (!arena.length) return h("p", { class: "quiet" },
    "The arena is empty: every step reads inputs and weights, and writes outputs.");
  const x = (step) => left + (step / count) * (width - left - 8);
  const y = (address) => height - bottom - (address / plan.arena_bytes) * (height - bottom - 26);
  const boxes = arena.map((buffer) => s("rect", {
    class: `buffer shade-${buffer.place % PALETTE}`, "data-buffer": buffer.place, tabindex: 0, role: "button",
    "aria-label": `${bytes(buffer.bytes)} at ${buffer.offset}, steps ${buffer.first} to ${buffer.last}: ${shown(buffer.values.join(", ")).slice(0, 200)}`,
    x: x(buffer.first), width: Math.max(1, x(buffer.last + 1) - x(buffer.first) - 0.5),
    y: y(buffer.offset + buffer.bytes),
      height: Math.max(1, y(buffer.offset) - y(buffer.offset + buffer.bytes) - 0.5),
    onclick: () => act(buffer.place), onkeydown: (e) => e.key === "Enter" && act(buffer.place),
  }, s("title", {}, `${bytes(buffer.bytes)} at +${buffer.offset}, steps ${buffer.first} to ${buffer.last}\n${shown(buffer.values.join(", ")).slice(0, 300)}`)));
  const live = plan.live.map((value, step) => `${step ? "L" : "M"}${x(step)} ${y(value)}H${x(step + 1)}`).join("");
  const peak = plan.peak_step;
  return s("svg", { class: "chart memory", viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `Arena of ${bytes(plan.arena_bytes)} over ${count} steps` },
    axis(x, y, count, plan.arena_bytes, width, height, left, bottom), boxes,
    s("path", { class: "live", d: live }),
    s("g", { class: "peak" }, s("path", { d: `M${x(peak + 0.5)} ${y(0)}V${20}` }),
      s("text", { x: x(peak + 0.5) + (peak > count / 2 ? -5 : 5), y: 15,
        "text-anchor": peak > count / 2 ? "end" : "start" },
        `most alive: ${bytes(plan.live_bytes)} at step ${peak}`)));
}

function axis(x, y, count, most, width, height, left, bottom) {
  const parts = [];
  for (let i = 0; i <= 4; i++) {
    const value = (most * i) / 4;
    parts.push(s("path", { class: "grid", d: `M${left} ${y(value)}H${width - 8}` }),
      s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, bytes(value)));
  }
  const every = Math.max(1, Math.ceil((75 * count) / width));
  for (let step = 0; step < count; step += every) parts.push(s("text",
    { x: x(step + 0.5), y: height - bottom + 15, "text-anchor": "middle" }, step));
  return s("g", { class: "axis" }, parts, s("text", { x: width - 8, y: height - 1, "text-anchor": "end" }, "step"));
}

const MOST_ZOOM = 256;
const NAMES = 52;

/** The time line of one run, with names of its lanes. It scrolls sideways; the buttons, the keys + - 0
    and the wheel with Ctrl change its scale. */
function timeLine(track, act) {
  const rows = lanes(track.part.profile);
  const box = h("div", { class: "lanes", tabindex: 0, role: "group", "aria-label": "Lanes; + and - change the scale",
    onkeydown: (e) => {
      const factor = { "+": 2, "=": 2, "-": 0.5, 0: 1 / MOST_ZOOM }[e.key];
      if (!factor || e.ctrlKey || e.metaKey) return;
      change(factor, box.clientWidth / 2);
      e.preventDefault();
    } });
  box.addEventListener("wheel", (e) => {
    if (!e.ctrlKey) return;
    change(e.deltaY < 0 ? 1.3 : 1 / 1.3, e.clientX - box.getBoundingClientRect().left);
    e.preventDefault();
  }, { passive: false });
  let zoom = 1;
  const width = across() - NAMES;
  const draw = () => replace(box, timeline(track, act, rows, width * zoom));
  /** Multiply the scale; the time at this distance from the left edge stays where it is. */
  function change(factor, left) {
    const part = (box.scrollLeft + left) / (box.scrollWidth || 1);
    zoom = Math.min(MOST_ZOOM, Math.max(1, zoom * factor));
    draw();
    box.querySelector("svg").style.width = `${100 * zoom}%`;
    box.scrollLeft = part * box.scrollWidth - left;
  }
  draw();
  const button = (label, text, act, kind) => h("button",
    { type: "button", class: kind, "aria-label": label, onclick: act }, text);
  const middle = () => box.clientWidth / 2;
  const names = s("svg", { class: "chart", viewBox: `0 0 ${NAMES} ${heightOf(rows)}`, "aria-hidden": "true" },
    rows.map((row) => s("text", { x: 0, y: row.top + row.high / 2 + 4 }, row.name)));
  const both = h("div", { class: "time-line" }, names, box);
  both.style.gridTemplateColumns = `${NAMES}fr ${width}fr`;
  return [h("div", { class: "tools", role: "toolbar", "aria-label": "Time line" },
    button("Zoom in on time", "+", () => change(2, middle()), "zoom-in"),
    button("Zoom out of time", "−", () => change(0.5, middle())),
    button("Whole time", "all", () => change(1 / MOST_ZOOM, 0)),
    h("span", { class: "quiet" }, `One run of ${plural(track.part.profile.rounds, "round")}: `
      + rows.map((row) => row.title).join("; "))), both];
}

function heightOf(rows) {
  const last = rows[rows.length - 1];
  return last.top + last.high + 24;
}

/** The rows of the time line: steps of native code, each thread's part of them, and Python. */
function lanes(profile) {
  const { threads, parts } = profile;
  const numbers = threads < 2 ? [] : [...new Set(parts.flatMap((timed) => timed.spans.map((span) => span[0])))].sort(
    (a, b) => a - b);
  const rows = [{ name: "steps", title: `steps are native code on ${plural(threads, "thread")}`, high: 36,
    spanOf: (timed) => (timed.kernel < 0 ? null : [0, timed.once]) }];
  for (const thread of numbers) rows.push({ name: `thread ${thread}`, high: 14, thread,
    title: `thread ${thread} is ${thread ? "a worker" : "the caller"}`,
    spanOf: (timed) => (timed.spans.find((span) => span[0] === thread) || []).slice(1) });
  if (parts.some((timed) => timed.kernel < 0)) rows.push({ name: "Python", title: "Python runs on the calling thread",
    high: 36, spanOf: (timed) => (timed.kernel < 0 ? [0, timed.once] : null) });
  let top = 4;
  for (const row of rows) {
    row.top = top;
    top += row.high + 4;
  }
  return rows;
}

/** The steps of one run, end to end, in the lane of native code or of Python, and each thread's parts. */
function timeline(track, act, rows, width) {
  const { parts } = track.part.profile;
  const whole = parts.reduce((sum, timed) => sum + timed.once, 0) || 1;
  const height = heightOf(rows);
  let now = 0;
  const bars = parts.map((timed) => {
    const found = rows.map((row) => [row, row.spanOf(timed)]).filter(([, span]) => span && span.length);
    const begin = now;
    now += timed.once;
    // Thousands of steps on many threads have parts that nobody can see at this scale.
    const isSeen = ([row, span]) => row.thread === undefined || ((span[1] - span[0]) / whole) * width > 0.2;
    return found.filter(isSeen).map(([row, span]) => bar(track, act, timed, row, ((begin + span[0]) / whole) * width,
      ((span[1] - span[0]) / whole) * width, span[1] - span[0]));
  });
  const count = Math.round(width / 225);
  const ticks = Array.from({ length: count + 1 }, (_, i) => i / count).map((part) => s("text",
    { x: part * width, y: height - 8, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" },
    time(part * whole)));
  return s("svg", { class: "chart timeline", viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `Timeline of ${time(whole)}` }, bars, s("g", { class: "axis" }, ticks));
}

/** A step, or a thread's part of it, in a lane. */
function bar(track, act, timed, row, at, wide, seconds) {
  const step = track.part.steps[timed.step];
  const isPart = row.thread !== undefined;
  const text = `step ${timed.step}${isPart ? " on " + row.name : ""}, ${time(seconds)}`;
  return s("g", {}, s("rect", {
    class: `bar kind-${step.kind}${isPart ? " part" : ""}`, "data-step": timed.step, x: at, y: row.top, height: row.high,
      width: Math.max(0.5, wide - 0.4), tabindex: wide > 4 && !isPart ? 0 : null, role: "button",
    "aria-label": `${text}, ${shown(step.name)}`,
      onclick: () => act(timed.step), onkeydown: (e) => e.key === "Enter" && act(timed.step),
  }, s("title", {}, `${text}\n${shown(step.name)}\n${timed.algorithm}\nmean ${time(timed.seconds)}, ${percent(timed.share)}`)),
  wide > 40 && !isPart ? s("text", { class: "inside", x: at + 4, y: row.top + 22 },
    begun(timed.algorithm, Math.floor((wide - 8) / 6.5))) : null);
}

/** Operations a second over operations a byte, both logarithmic, under this CPU's two lines. */
function roofline(track, act) {
  const profile = track.part.profile;
  const points = [...track.timed].map(([step, row]) => ({ step, ...row })).filter((row) => row.flops > 0
    && row.bytes > 0 && row.seconds > 0);
  if (!points.length) return h("p", { class: "quiet" }, "No step counts operations.");
  const [width, height, left, bottom] = [across(), 380, 66, 40];
  const ridge = profile.peak / profile.bandwidth;
  const intensities = [...points.map((p) => p.flops / p.bytes), ridge];
  const rates = [...points.map((p) => p.flops / p.seconds), profile.peak];
  const [x0, x1] = [Math.log10(Math.min(...intensities) / 2), Math.log10(Math.max(...intensities) * 2)];
  const [y0, y1] = [Math.log10(Math.min(...rates) / 2), Math.log10(Math.max(...rates) * 1.6)];
  const x = (value) => left + ((Math.log10(value) - x0) / (x1 - x0)) * (width - left - 12);
  const y = (value) => height - bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (height - bottom - 12);
  const low = 10 ** x0;
  const start = low * profile.bandwidth < 10 ** y0 ? 10 ** y0 / profile.bandwidth : low;
  const roof = `M${x(start)} ${y(start * profile.bandwidth)}L${x(ridge)} ${y(profile.peak)}H${width - 12}`;
  const dots = points.sort((a, b) => b.seconds - a.seconds).map((p) => {
    const step = track.part.steps[p.step];
    return s("circle", {
      class: "dot kind-" + step.kind, "data-step": p.step, cx: x(p.flops / p.bytes), cy: y(p.flops / p.seconds),
        r: 3.5 + 22 * Math.sqrt(p.share), tabindex: 0, role: "button",
      "aria-label": `step ${p.step}, ${percent(p.of_peak, 0)} of peak, ${shown(step.name)}`,
        onclick: () => act(p.step), onkeydown: (e) => e.key === "Enter" && act(p.step),
    }, s("title", {}, `step ${p.step} ${shown(step.name)}\n${step.algorithm}\n${(1e-9 * p.flops / p.seconds).toFixed(1)} GFLOP/s, ${percent(p.of_peak, 0)} of peak\n${few(p.flops / p.bytes)} operations a byte\n${time(p.seconds)}`));
  });
  const ticks = [];
  for (let e = Math.ceil(x0); e <= x1; e++) ticks.push(s("path",
    { class: "grid", d: `M${x(10 ** e)} 12V${height - bottom}` }),
    s("text", { x: x(10 ** e), y: height - bottom + 16, "text-anchor": "middle" }, few(10 ** e)));
  for (let e = Math.ceil(y0); e <= y1; e++) ticks.push(s("path",
    { class: "grid", d: `M${left} ${y(10 ** e)}H${width - 12}` }),
    s("text", { x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end" }, powerOfTen(e)));
  return s("svg", { class: "chart roofline", viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Roofline" },
    s("g", { class: "axis" }, ticks, s("text", { x: width - 12, y: height - 6, "text-anchor": "end" },
      "operations a byte"), s("text", { x: left + 4, y: 10 }, "FLOP/s")),
    s("path", { class: "roof", d: roof }), dots,
    s("text", { class: "note", x: width - 16, y: y(profile.peak) - 6, "text-anchor": "end" },
      `peak ${(1e-9 * profile.peak).toFixed(0)} GFLOP/s on ${plural(profile.threads, "thread")}`),
    besideSlope(x(start), y(start * profile.bandwidth), x(ridge), y(profile.peak),
      `memory ${(1e-9 * profile.bandwidth).toFixed(1)} GB/s`));
}

/** 10 to this power with the letter of its thousands: "10 M", "0.1" below 1. */
function powerOfTen(exponent) {
  const thousands = Math.min(4, Math.max(0, Math.floor(exponent / 3)));
  return `${few(10 ** (exponent - 3 * thousands))} ${["", "k", "M", "G", "T"][thousands]}`.trim();
}

/** Text along a slanted line and above it, in its middle. */
function besideSlope(x0, y0, x1, y1, text) {
  const turn = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
  const [cx, cy] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return s("text", { class: "note", "text-anchor": "middle", x: cx, y: cy,
    transform: `rotate(${turn.toFixed(1)} ${cx.toFixed(1)} ${cy.toFixed(1)}) translate(0 -7)` }, text);
}

/** Bars of several parts in one line, each with its name and share; parts without time are left out. */
function stackedBar(label, parts) {
  const [width, height] = [across(), 46];
  const total = parts.reduce((sum, part) => sum + part.seconds, 0) || 1;
  let at = 0;
  const bars = parts.filter((part) => part.seconds > 0).map((part, i) => {
    const wide = (part.seconds / total) * width;
    const text = `${part.name} ${time(part.seconds)} (${percent(part.seconds / total)})`;
    const most = Math.floor((wide - 12) / 6.6);
    const label = [text, `${part.name} ${percent(part.seconds / total)}`, part.name].find((one) => one.length <= most);
    const bar = s("g", {}, s("rect", { class: `shade-${i % PALETTE}`, x: at, y: 4, height: 34, width: Math.max(0.5, wide - 1) },
      s("title", {}, text)), label ? s("text", { class: "inside", x: at + 6, y: 25 }, label) : null);
    at += wide;
    return bar;
  });
  return s("svg", { class: "chart stacked", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${label}: ${parts.map((part) => `${part.name} ${time(part.seconds)}`).join(", ")}` }, bars);
}

/** A pair of bars for each row: before and after. */
function pairedBars(label, rows) {
  const most = Math.max(...rows.flatMap((row) => row.seconds.map((seconds) => seconds || 0)), 1e-12);
  const width = across();
  const [line, left] = [34, 0.29 * width];
  const bars = rows.map((row, i) => [
    s("text", { x: left - 8, y: i * line + 20, "text-anchor": "end" }, cut(shown(row.name), Math.floor((left - 8) / 6.8))),
    row.seconds.map((seconds, j) => [s("rect", { class: `shade-${j}`, x: left, y: i * line + 4 + 13 * j, height: 11,
      width: Math.max(0.5, ((seconds || 0) / most) * (width - left - 90)) }),
    s("text", { x: left + 6 + ((seconds || 0) / most) * (width - left - 90), y: i * line + 13 + 13 * j },
      seconds === null ? "none" : time(seconds))])]);
  return s("svg", { class: "chart paired", viewBox: `0 0 ${width} ${rows.length * line + 4}`, role: "img",
    "aria-label": label }, bars);
}

/** A small histogram of a parameter's numbers. */
function histogramChart(found, wide = 150, high = 26) {
  if (!found) return "";
  const most = Math.max(...found.counts, 1);
  const step = wide / found.counts.length;
  const bars = found.counts.map((count, i) => s("rect", { x: i * step, width: Math.max(0.5, step - 0.5),
    y: high - (high - 1) * (count / most), height: (high - 1) * (count / most) }));
  return s("svg", { class: "histogram", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img",
    "aria-label": `from ${few(found.low)} to ${few(found.high)}, mean ${few(found.mean)}` }, bars);
}
