"use strict";
/* SPDX-License-Identifier: Apache-2.0 */
/* The report's page. Text from the model only ever goes in as text. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const VALUES = DATA.values, BY_ID = new Map(VALUES.map((v) => [v.id, v]));
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/* make("td.num", {title: "..."}, child...): children are nodes or texts. */
function make(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const svg = ["svg", "g", "rect", "path", "text", "line", "title", "polyline", "circle"].includes(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, fn] of Object.entries(value)) element.addEventListener(event, fn);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((c) => c !== undefined && c !== null && c !== ""));
  return element;
}
const fill = (id, ...children) => $(id).replaceChildren(...children.filter(Boolean));

function number(x) {
  if (x === undefined || x === null) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e6 || size < 1e-3 ? x.toExponential(3) : String(Number(x.toPrecision(5)));
}
const exact = (x) => String(Number(x.toPrecision(9)));
const deviation = (v) => (v.std_low === undefined ? "" : "~") + number(v.std);
const percent = (x) => (x === null || x === undefined ? "" : x > 0 && x < 0.0001 ? "<0.01 %" : (100 * x).toFixed(2) + " %");
const count = (n) => Number(n).toLocaleString("en");
const label = (v) => v.name || v.id;
const range = (v) => (v.min === undefined ? "never seen" : v.min === null ? "no finite number" : "[" + number(v.min) + ", " + number(v.max) + "]");
const link = (v, text) => make("a", {href: "#" + v.id}, text || label(v));
const best = (v) => Math.max(...(v.methods || []).map((m) => (m.sqnr === null ? 200 : m.sqnr)), -Infinity);
const is_bad = (v) => v.nan || v.inf || v.sentinel;
const is_odd = (v) => v.dead_channels || v.saturated || v.spike !== undefined || v.status === "dead" || v.status === "never";

/* ---- summary ---- */

function show_summary() {
  const s = DATA.summary, run = s.ledger.run;
  document.title = "Tidemark: " + s.title;
  $("title").textContent = s.title;
  $("subtitle").textContent = count(run) + " samples, " + count(VALUES.length) + " values";
  const warnings = DATA.warnings.map((w) => {
    const ids = [];
    w.ids.forEach((id, i) => ids.push(i ? ", " : "", link(BY_ID.get(id))));
    if (w.n > w.ids.length) ids.push(" and " + (w.n - w.ids.length) + " more");
    return make("p.warning." + w.level, {}, make("strong", {}, w.n + (w.n === 1 ? " value: " : " values: ")), w.text + ": ", ...ids);
  });
  if (s.ledger.failed > 0)
    warnings.unshift(make("p.warning.bad", {}, make("strong", {}, count(s.ledger.failed) + " samples failed"), " and are in no range"));
  fill("warnings", ...(warnings.length ? warnings : [make("p.warning.good", {}, "Nothing stands out: no NaN, no infinity, no dead or saturated value.")]));
  const kinds = {};
  for (const v of VALUES) kinds[v.kind] = (kinds[v.kind] || 0) + 1;
  const tiles = [[count(run), "samples run"], [count(s.ledger.offered - run), "skipped or failed"],
    [count(VALUES.length), "values"], [count((kinds.activation || 0) + (kinds.output || 0)), "activations"], [count(kinds.weight || 0), "weights"],
    [count(VALUES.reduce((sum, v) => sum + (v.kind === "weight" ? 0 : Number(v.count || 0)), 0)), "numbers observed"]];
  fill("tiles", ...tiles.map(([big, small]) => make("div.tile", {}, make("b", {}, big), make("span", {}, small))));
  const facts = make("dl", {});
  const fact = (name, text) => text && facts.append(make("dt", {}, name), make("dd", {}, text));
  fact("model", s.model + (s.format ? " (" + s.format + ")" : ""));
  fact("SHA-256", s.sha256);
  for (const d of s.sources) fact("data", (d.input ? d.input + " = " : "") + d.source + ", " + count(d.samples) + " samples");
  for (const [key, value] of s.settings) fact(key, value);
  fact("processor", s.isa);
  fact("kernels", s.kernels);
  fill("facts", facts);
  $("footer").textContent = "Made by " + s.producer + " " + s.version + ". This page holds all of its data; nothing was loaded from elsewhere.";
}

/* ---- histograms ---- */

function spark(v) {
  if (!v.bins) return "";
  const cells = [], n = 32, step = v.bins.length / n;
  for (let i = 0; i < n; i++) cells.push(v.bins.slice(i * step, (i + 1) * step).reduce((a, b) => a + b, 0));
  const most = Math.max(...cells) || 1;
  const path = cells.map((c, i) => "M" + (i * 3) + " 22V" + (22 - 21 * Math.sqrt(c / most)).toFixed(1) + "h2V22").join("");
  return make("svg.spark", {viewBox: "0 0 96 22", "aria-hidden": "true"}, make("path.bar", {d: path}));
}

/* Bars between min and max; thresholds of the methods as lines. */
function histogram(v, logarithmic) {
  const width = 640, height = 240, left = 8, bottom = 26, top = 14, inner = width - 2 * left;
  const most = Math.max(...v.bins) || 1, tall = height - bottom - top;
  const rise = (c) => (c <= 0 ? 0 : logarithmic ? Math.max(2, tall * Math.log1p(c) / Math.log1p(most)) : Math.max(1, tall * c / most));
  const x = (value) => left + inner * (value - v.min) / (v.max - v.min), base = height - bottom;
  const svg = make("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Histogram of " + label(v) + " from " + number(v.min) + " to " + number(v.max)});
  v.bins.forEach((c, i) => {
    const w = inner / v.bins.length, h = rise(c);
    const from = v.min + (v.max - v.min) * i / v.bins.length, to = v.min + (v.max - v.min) * (i + 1) / v.bins.length;
    if (h) svg.append(make("rect.bar", {x: (left + i * w).toFixed(2), y: (base - h).toFixed(2), width: Math.max(w - 1, 0.5).toFixed(2), height: h.toFixed(2)},
      make("title", {}, number(from) + " to " + number(to) + ": " + count(Math.round(c)))));
  });
  svg.append(make("path.axis", {d: "M" + left + " " + base + "H" + (width - left)}));
  (v.methods || []).forEach((m, i) => {
    for (const end of [m.low, m.high]) {
      if (end < v.min || end > v.max) continue;
      const at = x(end).toFixed(1);
      svg.append(make("path", {d: "M" + at + " " + top + "V" + base, stroke: "var(--m" + i % 6 + ")", "stroke-width": 2, "stroke-dasharray": i % 2 ? "4 3" : ""},
        make("title", {}, m.method + ": " + number(end))));
    }
  });
  const ticks = [v.min, ...(v.min < 0 && v.max > 0 ? [0] : []), v.max];
  ticks.forEach((t, i) => svg.append(make("text.soft", {x: x(t).toFixed(1), y: height - 8, "text-anchor": i === 0 ? "start" : i === ticks.length - 1 ? "end" : "middle"}, number(t))));
  return svg;
}

function channels(v) {
  const c = v.channels, n = c.min.length, width = 640, height = 160;
  const low = Math.min(...c.min.filter(Number.isFinite), 0), high = Math.max(...c.max.filter(Number.isFinite), 0), span = high - low || 1;
  const y = (value) => 6 + (height - 12) * (high - value) / span, w = width / n;
  const svg = make("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Range of each of " + c.n + " channels"});
  for (let i = 0; i < n; i++) {
    if (c.min[i] === null) continue;
    svg.append(make("rect.bar", {x: (i * w).toFixed(2), width: Math.max(w * 0.8, 0.6).toFixed(2), y: y(c.max[i]).toFixed(2), height: Math.max(y(c.min[i]) - y(c.max[i]), 1).toFixed(2)},
      make("title", {}, "channel " + i + ": [" + number(c.min[i]) + ", " + number(c.max[i]) + "]")));
  }
  svg.append(make("path.axis", {d: "M0 " + y(0).toFixed(1) + "H" + width}));
  return svg;
}

function growth(v) {
  const width = 640, height = 140, points = v.growth.filter((p) => p[1] !== null), last = points[points.length - 1];
  const span = last[2] - last[1] || 1, most = Math.log2(last[0]) || 1;
  const x = (n) => 6 + (width - 12) * Math.log2(n) / most, y = (value) => 6 + (height - 28) * (last[2] - value) / span;
  const line = (k) => make("polyline.axis", {points: points.map((p) => x(p[0]).toFixed(1) + "," + y(p[k]).toFixed(1)).join(" ")});
  return make("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "The range after 1, 2, 4 and more samples"}, line(1), line(2),
    make("text.soft", {x: 6, y: height - 6}, "1 sample"), make("text.soft", {x: width - 6, y: height - 6, "text-anchor": "end"}, count(last[0]) + " samples"));
}

/* ---- a value ---- */

function facts_of(v) {
  const dl = make("dl", {});
  const put = (name, ...what) => dl.append(make("dt", {}, name), make("dd", {}, ...what));
  const at = (place) => (place ? " in sample " + place[0] + (place.length > 1 ? ", element " + place[1] : "") : "");
  put("ID", v.id);
  put("kind", v.kind + ", " + v.status + (v.rule ? " by " + v.rule : ""));
  put("type", v.dtype + " " + v.shape);
  if (v.op) put("made by", v.op + (v.node ? " " + v.node : ""));
  if (v.from.length) put("from", ...v.from.flatMap((id, i) => [i ? ", " : "", BY_ID.has(id) ? link(BY_ID.get(id)) : id]));
  const readers = VALUES.filter((other) => other.from.includes(v.id));
  if (readers.length) put("read for", ...readers.flatMap((r, i) => [i ? ", " : "", link(r)]));
  if (v.count !== undefined) put("numbers", count(v.count) + (v.zeros ? ", " + percent(v.zeros / v.count) + " zeros" : ""));
  if (v.min !== undefined && v.min !== null) {
    put("least", number(v.min) + at(v.min_at));
    put("greatest", number(v.max) + at(v.max_at));
  }
  if (v.mean !== undefined && v.mean !== null) put("mean, deviation", number(v.mean) + ", " + deviation(v) +
    (v.std_low === undefined ? "" : " (estimated; between " + exact(v.std_low) + " and " + exact(v.std_high) + ")"));
  if (v.nan) put("NaN", make("span.bad", {}, count(v.nan)));
  if (v.inf) put("infinite", make("span.bad", {}, count(v.inf)));
  if (v.sentinel) put("looks like", make("span.bad", {}, v.sentinel));
  if (v.saturated) put("saturated", make("span.look", {}, count(v.saturated) + " at one end"));
  if (v.spike !== undefined) put("spike", make("span.look", {}, "at " + number(v.spike)));
  if (v.dead_channels) put("dead channels", make("span.look", {}, v.dead_channels + " of " + v.channels.n));
  for (const end of ["top_min", "top_max"])
    if (v[end]) put(end === "top_min" ? "furthest down" : "furthest up", v[end].map(([x, s]) => number(x) + " (sample " + s + ")").join(", "));
  if (v.encoding) put("encoding", v.encoding.float ? "float: " + v.encoding.float : v.encoding.dtype ? v.encoding.dtype + " by " + v.encoding.method + (v.encoding.rule ? ", " + v.encoding.rule : "") +
    ", scale " + number(v.encoding.scale) + ", zero point " + v.encoding.zero_point + (v.encoding.n > 1 ? " (channel 0 of " + v.encoding.n + ")" : "") : "none");
  if (v.drift) put("before", "[" + number(v.drift.min) + ", " + number(v.drift.max) + "]" + (v.drift.change ? ", " + v.drift.change : ""));
  return dl;
}

function methods_of(v) {
  const row = (m, i) => make("tr", {}, make("th", {scope: "row"}, make("span.key", {style: "background: var(--m" + i % 6 + ")"}), m.method),
    make("td.num", {}, number(m.low)), make("td.num", {}, number(m.high)), make("td.num", {}, m.sqnr === null ? "exact" : m.sqnr.toFixed(1) + " dB"), make("td.num", {}, percent(m.clipped)));
  const head = make("tr", {}, ...["method", "from", "to", "SQNR", "clipped"].map((t, i) => make(i ? "th.num" : "th", {scope: "col"}, t)));
  return make("div.scroll", {}, make("table", {}, make("caption.away", {}, "What each method would choose at 8 bits"), make("thead", {}, head), make("tbody", {}, ...v.methods.map(row))));
}

let logarithmic = false;
function show_value(v, focus) {
  const body = make("div.cols", {});
  $("h-value").textContent = label(v);
  body.append(make("div", {}, facts_of(v)));
  const pictures = make("div", {});
  if (v.bins) {
    const holder = make("div", {}, histogram(v, logarithmic));
    const toggle = make("button", {type: "button", id: "logarithmic", "aria-pressed": logarithmic, on: {click: () => {
      logarithmic = !logarithmic;
      toggle.setAttribute("aria-pressed", logarithmic);
      holder.replaceChildren(histogram(v, logarithmic));
    }}}, "Logarithmic");
    pictures.append(make("div.row", {}, make("h3", {}, "Histogram"), toggle), holder);
  }
  if (v.methods && v.methods.length) pictures.append(make("h3", {}, "Thresholds at 8 bits, and what is to be expected"), methods_of(v));
  if (v.methods && v.methods.length && DATA.summary.methods_left_out) pictures.append(make("p", {}, "Of so many values " + DATA.summary.methods_left_out.join(" and ") + " are left out here; tidemark calibrate has them."));
  if (v.channels && v.channels.n > 1) pictures.append(make("h3", {}, "Range of each channel (axis " + v.channels.axis + ", " + v.channels.n + " channels)"), channels(v));
  if (v.growth && v.growth.length > 1) pictures.append(make("h3", {}, "How the range grew"), growth(v));
  body.append(pictures);
  fill("value-body", body);
  $("value").hidden = false;
  for (const row of document.querySelectorAll("tr.open")) row.classList.remove("open");
  const row = document.querySelector("tr[data-id='" + v.id + "']");
  if (row) row.classList.add("open");
  if (focus) { $("value").scrollIntoView(); $("value").focus({preventScroll: true}); }
}

/* ---- the table ---- */

const COLUMNS = [
  {key: "id", text: "ID", by: (v) => Number(v.id.slice(1)), cell: (v) => v.id, kind: "num.wide"},
  {key: "name", text: "name", by: (v) => label(v).toLowerCase(), cell: (v) => link(v), kind: "name"},
  {key: "op", text: "operator", by: (v) => v.op || v.kind, cell: (v) => v.op || v.kind, kind: "wide"},
  {key: "status", text: "status", by: (v) => v.status, cell: (v) => (is_bad(v) ? make("span.bad", {}, v.status) : is_odd(v) ? make("span.look", {}, v.status) : v.status), kind: "wide"},
  {key: "min", text: "least", by: (v) => v.min ?? Infinity, cell: (v) => number(v.min), kind: "num"},
  {key: "max", text: "greatest", by: (v) => v.max ?? -Infinity, cell: (v) => number(v.max), kind: "num"},
  {key: "std", text: "deviation", by: (v) => v.std ?? -1, cell: deviation, kind: "num.wide"},
  {key: "zeros", text: "zeros", by: (v) => (v.count ? v.zeros / v.count : -1), cell: (v) => (v.count && v.zeros !== undefined ? percent(v.zeros / v.count) : ""), kind: "num.wide"},
  {key: "sqnr", text: "SQNR", by: (v) => (Number.isFinite(best(v)) ? best(v) : 999), cell: (v) => (Number.isFinite(best(v)) && best(v) < 200 ? best(v).toFixed(1) : ""), kind: "num"},
  {key: "histogram", text: "histogram", cell: spark, kind: "wide"},
];
const sorted = {key: "id", down: false};
let rows = new Map();

function row_of(v) {
  if (!rows.has(v.id)) rows.set(v.id, make("tr", {"data-id": v.id}, ...COLUMNS.map((c) => make("td" + (c.kind ? "." + c.kind : ""), {}, c.cell(v)))));
  return rows.get(v.id);
}
function show_table() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), kind = $("kind").value;
  const column = COLUMNS.find((c) => c.key === sorted.key);
  const text = (v) => [v.id, v.name, v.op, v.node, v.kind, v.status, v.path].join(" ").toLowerCase();
  const chosen = VALUES.filter((v) => (!kind || v.kind === kind) && words.every((w) => text(v).includes(w)));
  const order = (a, b) => { const x = column.by(a), y = column.by(b); return x < y ? -1 : x > y ? 1 : 0; };
  chosen.sort((a, b) => (sorted.down ? -1 : 1) * order(a, b));
  document.querySelector("#table tbody").replaceChildren(...chosen.map(row_of));
  $("count").textContent = count(chosen.length) + " of " + count(VALUES.length) + " values";
  for (const th of document.querySelectorAll("#table th"))
    th.setAttribute("aria-sort", th.dataset.key === sorted.key ? (sorted.down ? "descending" : "ascending") : "none");
}
function start_table() {
  const head = COLUMNS.map((c) => make("th" + (c.kind ? "." + c.kind : ""), {scope: "col", "data-key": c.key}, !c.by ? c.text : make("button", {type: "button", on: {click: () => {
    sorted.down = sorted.key === c.key && !sorted.down;
    sorted.key = c.key;
    show_table();
  }}}, c.text)));
  document.querySelector("#table thead").append(make("tr", {}, ...head));
  for (const kind of [...new Set(VALUES.map((v) => v.kind))]) $("kind").append(make("option", {value: kind}, kind));
  $("search").addEventListener("input", show_table);
  $("kind").addEventListener("change", show_table);
  show_table();
}

function small_table(headers, lines) {
  const head = make("tr", {}, ...headers.map((h, i) => make(i ? "th.num" : "th", {scope: "col"}, h)));
  return make("div.scroll", {}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines.map((cells) => make("tr", {}, ...cells.map((c, i) => make(i ? "td.num" : "td.name", {}, c)))))));
}
function show_worst() {
  const chosen = VALUES.filter((v) => v.kind !== "weight" && Number.isFinite(best(v)) && best(v) < 200).sort((a, b) => best(a) - best(b)).slice(0, 15);
  fill("worst-body", chosen.length ? small_table(["value", "range", "SQNR", "best method"], chosen.map((v) => [link(v), range(v), best(v).toFixed(1) + " dB", v.methods.find((m) => m.sqnr === best(v)).method]))
    : make("p", {}, "No value has a histogram."));
}
function show_drift() {
  if (!DATA.summary.other) return;
  const worse = (v) => Math.max(v.drift.share ?? 1, v.drift.distance ?? 0);
  const chosen = VALUES.filter((v) => v.drift).sort((a, b) => worse(b) - worse(a)).slice(0, 50);
  $("drift").hidden = $("drift-link").hidden = false;
  $("drift-hint").textContent = "Against a profile of " + DATA.summary.other.model + " over " + count(DATA.summary.other.run) + " samples; worst first. Distance: Jensen-Shannon, 0 to 1.";
  fill("drift-body", small_table(["value", "now", "before", "range moved", "distance", "change"], chosen.map((v) => [link(v), range(v), "[" + number(v.drift.min) + ", " + number(v.drift.max) + "]",
    v.drift.share === null ? "" : percent(v.drift.share), v.drift.distance === undefined ? "" : v.drift.distance.toFixed(3), v.drift.change])));
}

/* ---- the network ---- */

/* Boxes: inputs, and nodes (values that one node makes share a box). Edges: a value to its readers' boxes. */
function boxes_and_edges() {
  const boxes = new Map(), box_of = new Map(), edges = [];
  for (const v of VALUES) {
    if (v.kind === "weight" || (!v.op && v.kind !== "input")) continue;
    const key = v.op ? (v.node ? "n:" + (v.path || "") + ":" + v.node + ":" + v.op : v.id) : v.id;
    if (!boxes.has(key)) boxes.set(key, {values: [], text: v.op || label(v), from: new Set()});
    boxes.get(key).values.push(v);
    box_of.set(v.id, boxes.get(key));
  }
  for (const box of boxes.values())
    for (const v of box.values)
      for (const id of v.from) {
        const source = box_of.get(id);
        if (source && source !== box && !box.from.has(id)) {
          box.from.add(id);
          edges.push({value: BY_ID.get(id), source, target: box});
        }
      }
  return {boxes: [...boxes.values()], edges};
}

/* Layers by the longest path; within a layer, boxes near the middle of those they read. */
function lay_out(boxes, edges) {
  boxes.forEach((b) => { b.layer = 0; b.in = []; b.out = []; });
  for (const e of edges) { e.target.in.push(e.source); e.source.out.push(e.target); }
  const waiting = new Map(boxes.map((b) => [b, b.in.length])), ready = boxes.filter((b) => !b.in.length);
  const order = [];
  while (ready.length) {
    const b = ready.pop();
    order.push(b);
    b.constant = b.values[0].kind !== "input" && b.in.every((source) => source.constant);
    for (const t of b.out) {
      t.layer = Math.max(t.layer, b.layer + 1);
      waiting.set(t, waiting.get(t) - 1);
      if (!waiting.get(t)) ready.push(t);
    }
  }
  for (const b of order.reverse()) if (b.constant && b.out.length) b.layer = Math.min(...b.out.map((t) => t.layer)) - 1;
  const layers = [];
  for (const b of boxes) (layers[b.layer] = layers[b.layer] || []).push(b);
  const place = () => layers.forEach((layer) => layer.forEach((b, i) => { b.at = i - (layer.length - 1) / 2; }));
  const middle = (list) => (list.length ? list.reduce((s, b) => s + b.at, 0) / list.length : 0);
  place();
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) layer.sort((a, b) => middle(sweep % 2 ? a.out : a.in) - middle(sweep % 2 ? b.out : b.in));
    place();
  }
  for (const b of boxes) { b.x = b.at * 190; b.y = b.layer * 84; }
  return layers.length;
}

function start_graph() {
  const {boxes, edges} = boxes_and_edges(), width = 150, height = 34;
  if (!boxes.length) { $("network").hidden = true; return; }
  lay_out(boxes, edges);
  const drawing = make("svg", {"aria-hidden": "false"}), lines = make("g", {}), shapes = make("g", {});
  const open = (v) => { location.hash = v.id; };
  for (const e of edges) {
    const x1 = e.source.x, y1 = e.source.y + height / 2, x2 = e.target.x, y2 = e.target.y - height / 2, bend = Math.max(20, (y2 - y1) / 2);
    const aside = e.target.layer - e.source.layer > 1 ? 100 : 0;
    lines.append(make("path", {d: "M" + x1 + " " + y1 + "C" + (x1 + aside) + " " + (y1 + bend) + " " + (x2 + aside) + " " + (y2 - bend) + " " + x2 + " " + y2}));
  }
  for (const b of boxes) {
    const v = b.values[0], broken = b.values.some(is_bad), warn = b.values.some(is_odd);
    const go = () => open(v);
    shapes.append(make("g.box" + (broken ? ".broken" : warn ? ".warn" : ""), {tabindex: 0, role: "link", "aria-label": b.text + ", " + label(v) + ", " + range(v), transform: "translate(" + b.x + " " + b.y + ")",
      on: {click: go, keydown: (event) => { if (event.key === "Enter") { event.preventDefault(); go(); } }}},
      make("rect", {x: -width / 2, y: -height / 2, width, height}), make("text", {"text-anchor": "middle", y: 4}, b.text.length > 20 ? b.text.slice(0, 19) + "\u2026" : b.text), make("title", {}, label(v))));
    b.values.forEach((value, i) => shapes.append(make("text.range.soft", {x: b.x + 6, y: b.y + height / 2 + 15 + 13 * i, on: {click: () => open(value)}}, range(value))));
  }
  drawing.append(lines, shapes);
  fill("graph", drawing);
  const xs = boxes.map((b) => b.x), ys = boxes.map((b) => b.y);
  const whole = {x: Math.min(...xs) - 120, y: Math.min(...ys) - 40, w: Math.max(...xs) - Math.min(...xs) + 240, h: Math.max(...ys) - Math.min(...ys) + 100};
  const holder = $("graph"), view = {};
  const draw = () => drawing.setAttribute("viewBox", [view.x, view.y, view.w, view.h].join(" "));
  const start = () => {  /* the first layers, readable */
    const shown = Math.max(holder.clientWidth, 300) * 1.1;
    Object.assign(view, {w: shown, h: shown * Math.max(holder.clientHeight, 200) / Math.max(holder.clientWidth, 300)});
    Object.assign(view, {x: whole.x + (whole.w - view.w) / 2, y: whole.y});
    draw();
  };
  const zoom = (factor) => { view.x += view.w * (1 - factor) / 2; view.y += view.h * (1 - factor) / 2; view.w *= factor; view.h *= factor; draw(); };
  const move = (dx, dy) => { view.x += dx; view.y += dy; draw(); };
  start();
  $("zoom-in").addEventListener("click", () => zoom(0.7));
  $("zoom-out").addEventListener("click", () => zoom(1.4));
  $("zoom-all").addEventListener("click", () => { Object.assign(view, whole); draw(); });
  holder.addEventListener("keydown", (event) => {
    const step = view.w / 8, moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
    if (moves[event.key]) move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else return;
    event.preventDefault();
  });
  holder.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 0.87); } }, {passive: false});
  let from = null;
  holder.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; });
  window.addEventListener("pointermove", (event) => {
    if (!from) return;
    const scale = Math.max(view.w / holder.clientWidth, view.h / holder.clientHeight);
    move((from[0] - event.clientX) * scale, (from[1] - event.clientY) * scale);
    from = [event.clientX, event.clientY];
  });
  window.addEventListener("pointerup", () => { from = null; });
}

/* ---- the page ---- */

function follow_hash() {
  const v = BY_ID.get(location.hash.slice(1));
  if (v) show_value(v, true);
}
function start_theme() {
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").setAttribute("aria-pressed", dark);
    $("theme").textContent = dark ? "Light" : "Dark";
  };
  set(window.matchMedia("(prefers-color-scheme: dark)").matches);
  $("theme").addEventListener("click", () => set(document.documentElement.dataset.theme !== "dark"));
}
start_theme();
show_summary();
start_table();
show_worst();
show_drift();
start_graph();
$("close").addEventListener("click", () => { $("value").hidden = true; history.replaceState(null, "", "#values"); });
window.addEventListener("hashchange", follow_hash);
follow_hash();
