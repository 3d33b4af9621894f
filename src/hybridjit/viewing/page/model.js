"use strict";
/* The document, indexed: tracks (executables, and the joint graph of training) with their stops,
   and what belongs to what: value, step, kernel, bytes, time, parameter. */

/** One graph that the slider stops at. kind: "stage", "bind" or "plan". */
class Stop {
  constructor(stage, places, values, kind) {
    this.stage = stage;
    this.kind = kind;
    this.title = kind === "stage" ? stage.name : kind;
    this.description = kind === "plan" ? "kernels in order, each with its place in memory"
      : kind === "bind" ? "computed when parameters are bound, by NumPy" : stage.description;
    this.values = new Map(places.map((place) => [values[place].name, values[place]]));
    this.isNew = kind === "stage" && (stage.added.length + stage.removed.length + stage.changed.length > 0);
    this.marks = new Map();
    if (kind === "stage") {
      for (const value of stage.added) this.marks.set(value, "added");
      for (const value of stage.changed) this.marks.set(value, "changed");
    }
  }

  /** The values that read each value. */
  get users() {
    if (!this._users) {
      this._users = new Map();
      for (const value of this.values.values()) {
        for (const [source] of value.inputs) {
          if (!this._users.has(source)) this._users.set(source, []);
          this._users.get(source).push(value.name);
        }
      }
    }
    return this._users;
  }
}

/** An executable, or the joint graph of training (part null), with all of its stops. */
class Track {
  constructor(title, part, place, stages, values) {
    this.title = title;
    this.part = part;
    this.place = place;
    this.stops = [];
    for (const stage of stages) {
      this.stops.push(new Stop(stage, stage.values, values, "stage"));
      if (stage.bind.length) this.stops.push(new Stop(stage, stage.bind, values, "bind"));
    }
    if (part && stages.length) {
      const last = stages[stages.length - 1];
      this.stops.push(new Stop(last, last.values, values, "plan"));
    }
    this.stepOf = new Map();
    this.groupOf = new Map();
    this.timed = new Map();
    this.kernelTime = new Map();
    if (part) this.index();
  }

  index() {
    for (const step of this.part.steps) {
      for (const member of step.members) this.stepOf.set(member, step.number);
    }
    for (const timed of this.part.profile ? this.part.profile.parts : []) {
      const row = this.timed.get(timed.step) || { seconds: 0, share: 0, flops: 0, bytes: timed.bytes, of_peak: 0 };
      row.seconds += timed.seconds;
      row.share += timed.share;
      row.flops += timed.flops;
      row.of_peak += timed.of_peak * timed.seconds;
      this.timed.set(timed.step, row);
      this.kernelTime.set(timed.kernel, (this.kernelTime.get(timed.kernel) || 0) + timed.seconds);
    }
    for (const row of this.timed.values()) row.of_peak = row.seconds ? row.of_peak / row.seconds : 0;
  }

  /** The steps of a value: its own; else of what reads it from the last stage on that has it. */
  stepsOf(value) {
    if (!this.part) return [];
    if (this.stepOf.has(value)) return [this.stepOf.get(value)];
    const seen = new Set([value]);
    for (let i = this.stops.length - 1; i >= 0; i--) {
      const found = new Set();
      const pending = this.stops[i].values.has(value) ? [value] : [];
      while (pending.length) {
        for (const user of this.stops[i].users.get(pending.pop()) || []) {
          if (seen.has(user)) continue;
          seen.add(user);
          if (this.stepOf.has(user)) found.add(this.stepOf.get(user));
          else pending.push(user);
        }
      }
      if (found.size) return [...found].sort((a, b) => a - b);
    }
    return [];
  }

  /** What each stage did to a value: [stop, what, rules]. */
  life(value) {
    const rows = [];
    let before = null;
    for (const stop of this.stops) {
      if (stop.kind !== "stage") continue;
      const now = stop.values.get(value);
      const rules = stop.stage.rules.filter((rule) => rule.values.includes(value)).map((rule) => rule.title);
      const what = now && !before ? "added" : !now && before ? "removed" : now
        && stop.marks.get(value) === "changed" ? "changed" : "";
      if (what || rules.length) rows.push({ stop, what, rules, record: now || before });
      before = now;
    }
    return rows;
  }
}

const Model = {
  /** All tracks of a document. */
  load(found) {
    this.document = found;
    this.blocks = new Map(Object.entries(found.blocks));
    this.tracks = found.parts.map((part, i) => new Track(part.name, part, i, part.stages, found.values));
    if (found.training) this.tracks.unshift(new Track("joint", null, -1, found.training.stages, found.values));
    this.lines = found.lines;
  },

  /** The track of the first part: what is shown first. */
  get first() {
    return this.tracks.find((track) => track.part) || this.tracks[0];
  },

  /** All that belongs to values, steps, a kernel, a buffer or a parameter of a track. */
  resolve(track, what) {
    const chosen = { track, type: what.type, id: what.id, values: new Set(), steps: new Set(), kernels: new Set(),
      buffers: new Set(), parameter: null };
    if (what.type === "value") this.ofValue(chosen, what.id);
    if (what.type === "step") chosen.steps.add(what.id);
    if (what.type === "kernel"
      && track.part) track.part.kernels[what.id].steps.forEach((step) => chosen.steps.add(step));
    if (what.type === "buffer" && track.part) this.ofBuffer(chosen, track.part, what.id);
    if (track.part) this.ofSteps(chosen, track.part, what.type);
    return chosen;
  },

  ofValue(chosen, value) {
    chosen.values.add(value);
    const parameter = this.document.parameters.find((known) => known.name === value);
    if (parameter) chosen.parameter = parameter;
    const own = parameter && chosen.track.part ? parameter.steps[chosen.track.place] : [];
    for (const step of own.length ? own : chosen.track.stepsOf(value)) chosen.steps.add(step);
  },

  ofBuffer(chosen, part, place) {
    chosen.buffers.add(place);
    for (const step of part.steps) {
      if ([...step.reads, ...step.writes].some((view) => view.buffer === place)) chosen.steps.add(step.number);
    }
  },

  ofSteps(chosen, part, type) {
    for (const place of chosen.steps) {
      const step = part.steps[place];
      if (type !== "value") step.members.forEach((member) => chosen.values.add(member));
      step.calls.forEach((call) => chosen.kernels.add(call.kernel));
      if (type !== "buffer") step.writes.forEach((view) => chosen.buffers.add(view.buffer));
    }
    if (type === "kernel") chosen.kernels = new Set([chosen.id]);
  },
};
