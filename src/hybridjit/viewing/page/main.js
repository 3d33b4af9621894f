"use strict";
/* The page: what is shown now, and how it changes. */

class App {
  constructor(found) {
    Model.load(found);
    this.track = Model.first;
    this.stop = this.track.stops[this.track.stops.length - 1];
    this.selection = null;
    this.listing = "";
    this.tab = "summary";
    this.seen = new Map();
    this.top();
    this.graph = new GraphView(document.getElementById("graph-panel"), this);
    this.inspector = document.getElementById("inspector");
    this.drawTabs();
    this.showTrack(this.track);
    document.addEventListener("keydown", (e) => this.key(e));
    addEventListener("beforeprint", () => this.drawAll());
  }

  top() {
    const found = Model.document;
    this.search = h("input", { type: "search", id: "search", placeholder: "search: name, operator, line  ( / )",
      "aria-label": "Search", autocomplete: "off", oninput: () => this.find(),
      onkeydown: (e) => this.searchKey(e) });
    this.hits = h("ul", { id: "hits", role: "listbox", "aria-label": "Found", hidden: true });
    const tracks = Model.tracks.length < 2 ? null : h("div", { class: "tools", id: "tracks", role: "toolbar",
      "aria-label": "Parts" }, Model.tracks.map((track) => h("button",
      { type: "button", "data-track": track.title, "aria-pressed": "false", onclick: () => this.showTrack(track) },
      track.title)));
    append(document.getElementById("top"), [
      h("h1", {}, name(found.name, 60), h("span", { class: "quiet" },
        ` ${found.mode} · ${Object.values(found.inputs).slice(0, 3).join(" ")}`)), tracks,
      h("div", { id: "searching" }, this.search, this.hits), h("button",
        { type: "button", id: "theme", onclick: () => this.theme() }, "theme")]);
  }

  /** The slider through the stages, with its name and what it did. */
  stageBar() {
    this.slider = h("input", { type: "range", id: "slider", min: 0, step: 1,
      "aria-label": "Stage of the compilation", oninput: () => this.goTo(this.track.stops[+this.slider.value]) });
    this.stageName = h("output", { id: "stage-name", for: "slider" });
    return h("div", { id: "stages" }, h("button", { type: "button", "aria-label": "Stage before",
      onclick: () => this.walk(-1) }, "‹"), this.slider,
      h("button", { type: "button", "aria-label": "Stage behind", onclick: () => this.walk(1) }, "›"),
        this.stageName);
  }

  theme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  }

  // ---- what is shown ----------------------------------------------------------------------------

  showTrack(track) {
    const title = this.stop.title;
    this.track = track;
    this.slider.max = track.stops.length - 1;
    document.querySelectorAll("#tracks button").forEach((button) => button.setAttribute("aria-pressed",
      button.dataset.track === track.title));
    if (this.selection && this.selection.track !== track) this.selection = this.selection.type === "value"
      ? Model.resolve(track, this.selection) : null;
    this.goTo(track.stops.find((stop) => stop.title === title) || track.stops[track.stops.length - 1]);
    this.drawTabs();
    this.drawSelection();
  }

  goTo(stop) {
    this.stop = stop;
    const place = this.track.stops.indexOf(stop);
    this.slider.value = place;
    this.slider.setAttribute("aria-valuetext", stop.title);
    const changes = stop.kind === "stage"
      ? stop.stage.added.length + stop.stage.removed.length + stop.stage.changed.length : 0;
    replace(this.stageName, h("b", {}, stop.title), ` stage ${place + 1} of ${this.track.stops.length}: ${stop.description}`,
      changes ? h("span", { class: "changes" }, ` · ${plural(changes, "change")}`) : null);
    this.graph.show(this.track, stop, false);
    this.draw();
    say(`Stage ${stop.title}: ${stop.description}`);
  }

  walk(direction) {
    const next = this.track.stops[this.track.stops.indexOf(this.stop) + direction];
    if (next) this.goTo(next);
  }

  drawTabs() {
    const known = PANELS.filter((panel) => panel.has(this));
    if (!known.some((panel) => panel.id === this.tab)) this.tab = "summary";
    replace(document.getElementById("tabs"), known.map((panel) => h("button", {
      type: "button", role: "tab", id: "tab-" + panel.id, "aria-selected": panel.id === this.tab,
        "aria-controls": "panel-" + panel.id, tabindex: panel.id === this.tab ? 0 : -1,
      onclick: () => this.open(panel.id), onkeydown: (e) => this.tabKey(e, known),
    }, panel.title)));
    replace(document.getElementById("panels"), known.map((panel) => h("section",
      { role: "tabpanel", id: "panel-" + panel.id, class: "panel", "aria-labelledby": "tab-" + panel.id,
      "data-title": panel.title, hidden: panel.id !== this.tab })));
    this.seen.clear();
    this.draw();
  }

  open(id) {
    this.tab = id;
    document.querySelectorAll("[role=tab]").forEach((tab) => {
      const mine = tab.id === "tab-" + id;
      tab.setAttribute("aria-selected", mine);
      tab.tabIndex = mine ? 0 : -1;
    });
    document.querySelectorAll(".panel").forEach((panel) => (panel.hidden = panel.id !== "panel-" + id));
    this.draw();
  }

  /** Fill the tab that is open, if what it shows has changed since. */
  draw() {
    const panel = PANELS.find((known) => known.id === this.tab);
    const element = document.getElementById("panel-" + this.tab);
    if (!element) return;
    const state = ["stage", "values"].includes(panel.id) ? this.stop : this.track;
    if (this.seen.get(panel.id) !== state) {
      replace(element, panel.show(this));
      this.seen.set(panel.id, state);
    }
    this.markRows();
  }

  /** All tabs: what is printed. */
  drawAll() {
    const open = this.tab;
    for (const tab of document.querySelectorAll("[role=tab]")) {
      this.tab = tab.id.slice(4);
      this.draw();
    }
    this.tab = open;
  }

  // ---- selection --------------------------------------------------------------------------------

  /** Select {type, id}, or nothing; `from` is the view where it was done. */
  select(what, from) {
    this.selection = what && Model.resolve(this.track, what);
    this.drawSelection(from);
    if (!what) return say("Nothing is selected");
    const { steps } = this.selection;
    say(`${what.type} ${shown(String(what.type === "value" ? what.id : what.id))} selected` + (steps.size
      ? `, step ${[...steps].slice(0, 3).join(", ")}` : ""));
  }

  drawSelection(from) {
    const node = this.graph.mark(this.selection);
    if (node && from !== "graph") this.graph.reveal(node);
    replace(this.inspector, inspect(this));
    document.getElementById("side").classList.toggle("idle", !this.selection);
    this.inspector.scrollTop = 0;
    this.markRows();
  }

  /** Mark what belongs to the selection in tables and charts. */
  markRows() {
    const chosen = this.selection && this.selection.track === this.track ? this.selection : null;
    const keys = new Set();
    if (chosen) {
      chosen.values.forEach((value) => keys.add("value-" + value));
      chosen.steps.forEach((step) => keys.add("step-" + step));
      chosen.kernels.forEach((kernel) => keys.add("kernel-" + kernel));
      chosen.buffers.forEach((buffer) => keys.add("buffer-" + buffer));
    }
    let first = null;
    const panel = document.getElementById("panel-" + this.tab);
    for (const row of panel.querySelectorAll("[data-key]")) {
      const isMine = keys.has(row.dataset.key);
      row.classList.toggle("chosen", isMine);
      if (isMine && !first) first = row;
    }
    for (const element of panel.querySelectorAll("[data-step]")) element.classList.toggle("chosen",
      keys.has("step-" + element.dataset.step));
    for (const element of panel.querySelectorAll("[data-buffer]")) element.classList.toggle("chosen",
      keys.has("buffer-" + element.dataset.buffer));
    if (first && !panel.querySelector(".chart")) first.scrollIntoView({ block: "nearest" });
  }

  // ---- search and keys --------------------------------------------------------------------------

  /** What has all words in its name, operator or line; names that begin so come first. */
  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    const seen = new Set();
    for (const stop of words.length ? [this.stop, ...[...this.track.stops].reverse()] : []) {
      for (const value of stop.values.values()) {
        if (seen.has(value.name) || found.length >= 60) continue;
        const text = `${value.name} ${value.op} ${value.source}`.toLowerCase();
        if (words.every((word) => text.includes(word))) {
          found.push([value, stop]);
          seen.add(value.name);
        }
      }
    }
    found.sort((a, b) => b[0].name.toLowerCase().startsWith(words[0]) - a[0].name.toLowerCase().startsWith(words[0]));
    replace(this.hits, found.map(([value, stop]) => h("li", { role: "option", tabindex: -1,
      onclick: () => this.take(value, stop), onkeydown: (e) => this.hitKey(e, value, stop) },
      name(value.name, 44),
        h("span", { class: "quiet" },
        ` ${value.op || value.role}${stop === this.stop ? "" : " · " + stop.title}`))));
    if (words.length && !found.length) this.hits.append(h("li", { class: "quiet" }, "nothing found"));
    this.hits.hidden = !words.length;
    say(plural(found.length, "hit"));
  }

  take(value, stop) {
    this.hits.hidden = true;
    this.search.value = "";
    if (!this.stop.values.has(value.name)) this.goTo(stop);
    this.graph.openFor(value.name);
    this.select({ type: "value", id: value.name });
    this.graph.svg.focus({ preventScroll: true });
  }

  searchKey(event) {
    const first = this.hits.querySelector("[role=option]");
    if (event.key === "Enter" && first) first.click();
    if (event.key === "ArrowDown" && first) first.focus();
    if (event.key === "Escape") {
      this.search.value = "";
      this.hits.hidden = true;
      this.search.blur();
    }
    event.stopPropagation();
  }

  hitKey(event, value, stop) {
    const next = { ArrowDown: event.target.nextElementSibling, ArrowUp: event.target.previousElementSibling
      || this.search }[event.key];
    if (next) next.focus();
    if (event.key === "Enter") this.take(value, stop);
    if (event.key === "Escape") this.search.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  tabKey(event, known) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = known.findIndex((panel) => panel.id === this.tab);
    const next = known[(at + step + known.length) % known.length];
    this.open(next.id);
    document.getElementById("tab-" + next.id).focus();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=search]")) return;
    if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
    } else if (event.key === "[") this.walk(-1);
    else if (event.key === "]") this.walk(1);
    else if (event.key === "Escape") this.select(null);
  }
}

const app = new App(JSON.parse(document.getElementById("document").textContent));
document.documentElement.dataset.ready = "yes";
