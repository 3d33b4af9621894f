"use strict";
/* Elements and texts. Nothing here or elsewhere takes markup: every text becomes a text node. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: attributes, listeners (onclick: f), and children: elements or texts. */
function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || (value === false && !key.startsWith("aria-"))) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A stranger's text with what cannot be seen, or turns text around, written out. */
function shown(text) {
  return String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** A name, kept apart from the direction of the text around it. */
function name(text, limit) {
  const full = shown(text);
  const parts = cut(full, limit).split(/(?<=[_:,/])/);
  return h("bdi", { class: "name", title: limit && full.length > limit ? full : null },
    parts.map((part, i) => (i ? [h("wbr"), part] : part)));
}

/** The text in at most `limit` characters: its beginning and its end, where names differ. */
function cut(text, limit) {
  if (!limit || text.length <= limit) return text;
  const tail = Math.floor(limit * 0.6);
  return text.slice(0, limit - tail - 1) + "…" + text.slice(-tail);
}

/** The first `limit` characters of a text, which say what kind of kernel it is. */
function begun(text, limit) {
  return text.length <= limit ? text : text.slice(0, limit - 1) + "…";
}

const BYTES = ["B", "KB", "MB", "GB", "TB"];

function bytes(count) {
  let unit = 0;
  while (count >= 1000 && unit < BYTES.length - 1) {
    count /= 1000;
    unit++;
  }
  return (unit && count < 100 ? count.toPrecision(3) : Math.round(count)) + " " + BYTES[unit];
}

function milliseconds(seconds) {
  return seconds === 0 ? "0" : (1e3 * seconds).toFixed(seconds >= 1e-3 ? 3 : seconds >= 1e-5 ? 4 : 6);
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds && seconds < 1e-5 ? (1e6 * seconds).toFixed(2) + " µs" : milliseconds(seconds) + " ms";
}

function percent(share, digits = 1) {
  return (100 * share).toFixed(digits) + "%";
}

function number(value) {
  return value.toLocaleString("en");
}

function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A number in a few digits. */
function few(value) {
  const size = Math.abs(value);
  return size === 0 || (size >= 1e-3 && size < 1e5) ? String(+value.toPrecision(4)) : value.toExponential(2);
}

/** A button that looks like a link. */
function link(text, act, limit) {
  return h("button", { class: "link", type: "button", onclick: act }, name(text, limit));
}

/** Terms and what they are; rows without a value are left out. */
function facts(rows) {
  const kept = rows.filter(([, value]) => value && value.length !== 0);
  return h("dl", { class: "facts" }, kept.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

/** Say something to who does not see the page change. */
function say(text) {
  document.getElementById("said").textContent = text;
}

const MOST_ROWS = 1000;

/**
 * A table that sorts by its headings. given: {title, value(row), show(row), right, wide, main} for each
 * column, left out where all of it is empty; act(row) is what a click or Enter does; row.key is what
 * is marked. More than MOST_ROWS rows are cut.
 */
function table(caption, given, rows, act) {
  const columns = given.filter((column) => rows.some((row) => column.value(row) !== ""));
  let order = null;
  let down = false;
  const body = h("tbody");
  const heads = columns.map((column, i) =>
    h("th", { scope: "col", class: column.right ? "right" : null },
      h("button", { type: "button", class: "sort", onclick: () => sort(i) }, column.title)));
  function sort(i) {
    down = order === i ? !down : Boolean(columns[i].right);
    order = i;
    draw();
  }
  function draw() {
    const sorted = order === null ? rows : [...rows].sort((a, b) => compare(columns[order].value(a),
      columns[order].value(b)) * (down ? -1 : 1));
    heads.forEach((head, i) => {
      if (i === order) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    replace(body, sorted.slice(0, MOST_ROWS).map(row));
  }
  function row(record) {
    const cells = columns.map((column, i) => {
      const content = column.show ? column.show(record) : String(column.value(record));
      const acts = act && i === (columns.findIndex((c) => c.main) + 1 || 1) - 1;
      return h("td", { class: column.right ? "right" : column.wide ? "wide" : null },
        acts ? h("button", { type: "button", class: "link", onclick: () => act(record) }, content) : content);
    });
    return h("tr", { "data-key": record.key, onclick: (e) => act && !e.target.closest("button") && act(record) },
      cells);
  }
  draw();
  const more = rows.length > MOST_ROWS ? h("p", { class: "quiet" },
    `The first ${number(MOST_ROWS)} of ${number(rows.length)} rows; sort or search for the others.`) : null;
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, heads)), body), more);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}
