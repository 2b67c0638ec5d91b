"use strict";
/* SPDX-License-Identifier: Apache-2.0 */
/* The report's page: its data and what all parts use. Text from the model only ever goes in as text. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "path", "text", "line", "title", "polyline", "circle", "style"]);

/* make("td.num", {title: "..."}, child...): children are nodes or texts. */
function make(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, fn] of Object.entries(value)) element.addEventListener(event, fn);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((c) => c !== undefined && c !== null && c !== ""));
  return element;
}
const fill = (id, ...children) => $(id).replaceChildren(...children.filter(Boolean));
const button = (text, click, more) => make("button", {type: "button", on: {click}, ...more}, text);

/* ---- the values ---- */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/* Two letters are 12 bits, from 0 to 1. */
function unpack(text) {
  const out = [];
  for (let i = 0; i + 1 < text.length; i += 2) out.push((64 * LETTERS.indexOf(text[i]) + LETTERS.indexOf(text[i + 1])) / 4095);
  return out;
}
function decode(row) {
  const v = {};
  DATA.columns.forEach((key, i) => { v[key] = row[i] === null ? undefined : row[i]; });
  Object.assign(v, v.more);
  v.number = v.id;
  v.id = "p" + v.id;
  v.kind = DATA.kinds[v.kind];
  v.status = DATA.statuses[v.status];
  v.from = v.from.map((n) => "p" + n);
  if (v.count !== undefined) v.count = Number(v.count);
  return v;
}
const VALUES = DATA.values.map(decode), BY_ID = new Map(VALUES.map((v) => [v.id, v]));
DATA.values = null;
const READERS = new Map();
for (const v of VALUES) for (const id of v.from) READERS.has(id) ? READERS.get(id).push(v) : READERS.set(id, [v]);
const is_float = (v) => v.status !== "integer" && v.dtype.includes("float");
const is_activation = (v) => v.kind !== "weight";

/* Values that depend on what is in the inputs: not constants, nor shapes and what is computed from them. All, where nothing does. */
const FROM_INPUTS = new Set();
for (const v of VALUES)
  if (v.kind === "input" || (v.op && v.op !== "Shape" && v.op !== "Size" && v.kind !== "weight" && v.from.some((id) => FROM_INPUTS.has(id)))) FROM_INPUTS.add(v.id);
const is_folded = (v) => Boolean(v.op && v.kind !== "weight" && FROM_INPUTS.size && !FROM_INPUTS.has(v.id));

function methods(v) {
  const list = [];
  for (let i = 0; i + 4 < v.methods.length; i += 5) {
    const [m, low, high, sqnr, clipped] = v.methods.slice(i, i + 5);
    list.push({method: DATA.methods[m], low, high, sqnr, clipped});
  }
  return list;
}
const best = (v) => Math.max(...methods(v).map((m) => m.sqnr ?? Infinity), -Infinity);
function bins(v) {
  return unpack(v.bins).map((share) => Math.expm1(share * Math.log1p(v.peak)));
}

/* Measured by simulate, else expected of the encodings, else the best method's at 8 bits. Infinity: exact; undefined: not known. */
const MEASURED = DATA.simulation && new Map(DATA.simulation.rows.map(([id, sqnr, quantized, output]) =>
  ["p" + id, {sqnr: sqnr ?? Infinity, quantized, output}]));
const EVIDENCE = MEASURED ? "measured by simulate" : DATA.summary.bytes !== undefined ? "expected of the encodings" : "expected at 8 bits by the best method";
function sqnr(v) {
  if (MEASURED) return MEASURED.get(v.id)?.sqnr;
  if (DATA.summary.bytes !== undefined) return v.encoding?.sqnr;
  return Number.isFinite(best(v)) ? best(v) : undefined;
}

/* ---- what stands out ---- */

/* Values that come to a Softmax through operators that keep masks. */
const KEEPS_MASKS = new Set(["Add", "Sub", "Mul", "Where", "Expand", "Unsqueeze", "Squeeze", "Reshape", "Slice", "Cast", "Concat",
  "Transpose", "Min", "Max", "Identity", "Gather", "Tile", "Trilu", "ConstantOfShape"]);
const MASKING = new Set();
for (const v of [...VALUES].reverse())
  if (/softmax/i.test(v.op) || (KEEPS_MASKS.has(v.op) && MASKING.has(v.id))) v.from.forEach((id) => MASKING.add(id));
const is_mask = (v) => MASKING.has(v.id) && !v.nan && !v.posinf && Boolean(v.neginf || v.sentinel);
const is_bad = (v) => Boolean(v.nan || v.posinf || v.neginf) && !is_mask(v);
/* Not those that masks switch off. */
const has_dead = (v) => Boolean(v.dead_channels) && !(/softmax/i.test(v.op) && v.from.some((id) => BY_ID.has(id) && is_mask(BY_ID.get(id))));
const is_odd = (v) => !is_folded(v) && (Boolean(has_dead(v) || v.saturated || (v.sentinel && !is_mask(v))) || v.spike !== undefined ||
  (v.kind !== "weight" && (v.status === "dead" || v.status === "never")));

/* ---- texts ---- */

function number(x) {
  if (x === undefined || x === null) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e6 || size < 1e-3 ? x.toExponential(3) : String(Number(x.toPrecision(5)));
}
const short = (x) => (x === undefined || x === null ? "?" : x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(3))));
const exact = (x) => String(Number(x.toPrecision(9)));
const deviation = (v) => (v.std_low === undefined ? "" : "~") + number(v.std);
const percent = (x) => (x === null || x === undefined ? "" : x > 0 && x < 0.0001 ? "<0.01\u00a0%" : (100 * x).toFixed(2) + "\u00a0%");
const count = (n) => Number(n).toLocaleString("en");
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");
const decibels = (x) => (x === undefined || x === null ? "" : x === Infinity ? "exact" : x.toFixed(1) + "\u00a0dB");
const bytes = (n) => (n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : n >= 1e6 ? (n / 1e6).toFixed(2) + " MB" : n >= 1e3 ? (n / 1e3).toFixed(1) + " kB" : n + " B");
const label = (v) => v.name || v.id;
const interval = (low, high) => "[" + number(low) + ", " + number(high) + "]";
const range = (v) => (v.count === undefined ? "never seen" : v.min === undefined ? "no finite number" : interval(v.min, v.max));
const link = (v, text) => make("a", {href: "#" + v.id, title: label(v)}, text || label(v));
const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "\u2026" : text);
/* Links to the first of a list of values, and how many more there are. */
function links(list, most) {
  const out = list.slice(0, most).flatMap((v, i) => [i ? ", " : "", link(v)]);
  return list.length > most ? [...out, " and " + count(list.length - most) + " more"] : out;
}

const TEXTS = new Set(["operator", "cause", "remedy", "change", "over time", "noise in the outputs"]);
const WIDE = new Set(["operator", "range", "99 % within", "cause", "itself, expected", "before", "now"]); /* not on a phone */
function small_table(caption, headers, lines) {
  const num = headers.map((h, i) => (i && !TEXTS.has(h) ? ".num" : h === "cause" || h === "remedy" ? ".words" : "") + (WIDE.has(h) ? ".wide" : ""));
  const head = make("tr", {}, ...headers.map((h, i) => make("th" + num[i], {scope: "col"}, h)));
  const body = lines.map((cells) => make("tr", {}, ...cells.map((c, i) => make("td" + (i ? num[i] : ".name"), {}, c))));
  return make("div.scroll", {tabindex: 0, role: "region", "aria-label": "Table: " + caption},
    make("table", {}, make("caption.away", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}
