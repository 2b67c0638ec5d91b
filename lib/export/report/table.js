/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the table: only rows in view exist ---- */

const COLUMNS = [
  {key: "id", text: "ID", help: "as in the profile, in the order of the graph", by: (v) => v.number, cell: (v) => v.id, kind: "num.wide"},
  {key: "name", text: "name", help: "of the value; opens it", by: (v) => label(v).toLowerCase(), cell: (v) => link(v), kind: "name"},
  {key: "node", text: "node", help: "that computes it", by: (v) => (v.node || "").toLowerCase(), cell: (v) => v.node && make("span", {}, v.node), kind: "name.wide"},
  {key: "op", text: "operator", help: "of the node; else the kind of value", by: (v) => v.op || v.kind, cell: (v) => v.op || v.kind, kind: "wide"},
  {key: "shape", text: "shape", help: "as it ran most often", by: (v) => v.shape.split(",").reduce((p, d) => p * (parseInt(d.replace(/\D/g, ""), 10) || 1), 1), cell: (v) => v.shape, kind: "wide"},
  {key: "min", text: "min", help: "the smallest finite element", by: (v) => v.min ?? Infinity, cell: (v) => number(v.min), kind: "num"},
  {key: "max", text: "max", help: "the largest finite element", by: (v) => v.max ?? -Infinity, cell: (v) => number(v.max), kind: "num"},
  {key: "std", text: "deviation", help: "standard deviation; ~: estimated", by: (v) => v.std ?? -1, cell: deviation, kind: "num.wide"},
  {key: "zeros", text: "zeros", help: "share of elements that are 0", by: (v) => (v.count ? v.zeros / v.count : -1), cell: (v) => (v.count && v.zeros !== undefined ? percent(v.zeros / v.count) : ""), kind: "num.wide"},
  {key: "sqnr", text: "SQNR", help: "signal-to-noise ratio in decibels, " + EVIDENCE + "; empty: float, or not known", by: (v) => sqnr(v) ?? 999, cell: (v) => decibels(sqnr(v)).replace("\u00a0dB", ""), kind: "num"},
  {key: "status", text: "status", help: "observed, derived from another value, constant, integer, dead (one number), or never seen", by: (v) => v.status,
    cell: (v) => (is_bad(v) ? make("span.bad", {}, "\u2717 " + v.status) : is_odd(v) ? make("span.look", {}, "! " + v.status) : is_mask(v) ? "mask" : v.status), kind: "wide"},
  {key: "histogram", text: "histogram", help: "from min to max, height by square root", cell: spark, kind: "wide"},
];
const table = {key: "id", down: false, shown: [], rows: new Map(), row: 30, first: -1};

function row_of(v, i) {
  if (!table.rows.has(v.id)) {
    if (table.rows.size > 600) table.rows.clear();
    table.rows.set(v.id, make("tr", {"data-id": v.id}, ...COLUMNS.map((c) => {
      const cell = c.cell(v);
      return make("td" + (c.kind ? "." + c.kind : ""), {title: cell && String(cell.textContent ?? cell).length > 16 ? cell.textContent ?? cell : null}, cell);
    })));
  }
  const row = table.rows.get(v.id);
  row.setAttribute("aria-rowindex", i + 2);
  return row;
}
/* Rows in view, and some around; the rest is two empty rows of their height. */
function paint_rows(all) {
  const box = $("rows"), body = document.querySelector("#table tbody"), n = all === true ? table.shown.length : Math.ceil(box.clientHeight / table.row) + 30;
  const first = all === true ? 0 : Math.max(0, Math.floor(box.scrollTop / table.row / 10) * 10 - 10);
  if (first === table.first) return;
  table.first = first;
  const end = Math.min(table.shown.length, first + n), focused = body.contains(document.activeElement) && document.activeElement;
  const space = (rows) => (rows ? make("tr.space", {"aria-hidden": "true"}, make("td", {colspan: COLUMNS.length, style: "height:" + rows * table.row + "px"})) : "");
  body.replaceChildren(...[space(first), ...table.shown.slice(first, end).map((v, i) => row_of(v, first + i)), space(table.shown.length - end)].filter(Boolean));
  if (focused && focused.isConnected) focused.focus({preventScroll: true});
}
function show_table() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), kind = $("kind").value, activations = $("activations").checked;
  const column = COLUMNS.find((c) => c.key === table.key);
  const text = (v) => v.text || (v.text = [v.id, v.name, v.op, v.node, v.kind, v.status, v.path].join(" ").toLowerCase());
  const order = (a, b) => { const x = column.by(a), y = column.by(b); return x < y ? -1 : x > y ? 1 : 0; };
  table.shown = VALUES.filter((v) => (!kind || v.kind === kind) && (!activations || is_activation(v)) && words.every((w) => text(v).includes(w)));
  table.shown.sort((a, b) => (table.down ? -1 : 1) * order(a, b));
  table.first = -1;
  $("rows").scrollTop = 0;
  $("table").setAttribute("aria-rowcount", table.shown.length + 1);
  $("count").textContent = count(table.shown.length) + " of " + plural(VALUES.length, "value");
  for (const th of document.querySelectorAll("#table th")) if (th.dataset.sorts)
    th.setAttribute("aria-sort", th.dataset.key === table.key ? (table.down ? "descending" : "ascending") : "none");
  paint_rows();
}
function sort_by(key, down) {
  table.down = down ?? (table.key === key && !table.down);
  table.key = key;
  show_table();
}
function start_table() {
  const head = COLUMNS.map((c) => make("th" + (c.kind ? "." + c.kind : ""), {scope: "col", "data-key": c.key, "data-sorts": c.by && "1", title: c.by ? null : c.help},
    c.by ? button(c.text, () => sort_by(c.key), {title: c.help}) : c.text));
  document.querySelector("#table thead").append(make("tr", {"aria-rowindex": 1}, ...head));
  fill("columns", ...COLUMNS.flatMap((c) => [make("dt", {}, c.text), make("dd", {}, c.help)]));
  for (const kind of [...new Set(VALUES.map((v) => v.kind))]) $("kind").append(make("option", {value: kind}, kind));
  $("search").addEventListener("input", show_table);
  $("kind").addEventListener("change", show_table);
  $("activations").addEventListener("change", show_table);
  $("rows").addEventListener("scroll", () => paint_rows());
  $("rows").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-id]");
    if (row && !event.target.closest("a, button")) location.hash = row.dataset.id;
  });
  window.addEventListener("beforeprint", () => { table.first = -1; paint_rows(true); });
  window.addEventListener("afterprint", () => { table.first = -1; paint_rows(); });
  new ResizeObserver(() => { table.first = -1; paint_rows(); }).observe($("rows"));
  table.row = parseFloat(getComputedStyle($("rows")).getPropertyValue("--row")) || 30;
  show_table();
}

/* ---- drift, and time lines ---- */

/* Entries of a value's line: [min, max, distance, share of the range that moved, change]; [] where it was not. */
const DRIFT = 0.1;
const worse = (d) => Math.max(d[3] ?? (d[4] ? 1 : 0), d[2] ?? 0);
function has_drifted(v) {
  const d = v.line && v.line[0];
  return Boolean(d && d.length && v.kind !== "weight" && (d[4] || d[3] > DRIFT || d[2] > DRIFT));
}
function drifted() {
  return VALUES.filter(has_drifted).sort((a, b) => worse(b.line[0]) - worse(a.line[0]));
}
/* Min and max in each profile, oldest first; the last point is this one. */
function time_line(v, width, height, texts) {
  const points = [...v.line.map((d) => (d.length && d[0] !== null ? d : null)), [v.min, v.max]], known = points.filter((p) => p && p[0] !== undefined);
  const low = Math.min(...known.map((p) => p[0])), high = Math.max(...known.map((p) => p[1])), foot = texts ? 20 : 2;
  const x = (i) => 6 + (width - 12) * i / Math.max(points.length - 1, 1), y = (n) => 4 + (height - foot - 8) * (high - n) / (high - low || 1);
  const line = (k) => make("polyline.axis", {points: points.map((p, i) => p && p[k] !== undefined && x(i).toFixed(1) + "," + y(p[k]).toFixed(1)).filter(Boolean).join(" ")});
  const bars = points.map((p, i) => p && p[0] !== undefined && "M" + x(i).toFixed(1) + " " + y(p[0]).toFixed(1) + "V" + y(p[1]).toFixed(1)).filter(Boolean).join("");
  const svg = make("svg", {viewBox: "0 0 " + width + " " + height, width: texts ? null : width, height: texts ? null : height, role: "img",
    "aria-label": "Range over time: " + points.map((p) => (p && p[0] !== undefined ? interval(p[0], p[1]) : "unknown")).join(", ")}, make("path.outer", {d: bars, "stroke-width": 5}), line(0), line(1));
  if (texts) svg.append(...points.map((p, i) => make("text.soft", {x: x(i), y: height - 4, "text-anchor": i === 0 ? "start" : i === points.length - 1 ? "end" : "middle"}, i === points.length - 1 ? "now" : "profile " + (i + 1))));
  return svg;
}
function show_drift() {
  const earlier = DATA.summary.earlier;
  if (!earlier.length) return;
  $("drift").hidden = $("drift-link").hidden = false;
  const moved = drifted(), first = earlier[0], compared = VALUES.filter((v) => v.kind !== "weight" && v.line[0].length).length;
  $("drift-hint").textContent = "Against " + (earlier.length > 1 ? "the first of " + earlier.length + " earlier profiles" : "an earlier profile") + ", of " + first.model + " over " + plural(first.run, "sample") + ". A value drifted if an end moved by more than 10 % of its range, if the Jensen-Shannon distance of the histograms (0 to 1) exceeds 0.1, or if it became NaN, dead or alive.";
  const only = (key, text) => first[key][0] ? make("p", {}, plural(first[key][0], "value") + " only " + text + ": " + first[key].slice(1, 9).join(", ") + (first[key][0] > 8 ? ", \u2026" : "")) : "";
  const rows = moved.slice(0, 50).map((v) => {
    const d = v.line[0];
    return [link(v), time_line(v, 110, 26), d[0] === null ? "" : interval(d[0], d[1]), range(v), percent(d[3]), d[2] === null ? "" : d[2].toFixed(3), d[4]];
  });
  fill("drift-body", make("p", {}, make("strong", {}, moved.length ? plural(moved.length, "value") + " of " + count(compared) + " drifted" : "None of " + plural(compared, "value") + " drifted"), moved.length > 50 ? "; the 50 worst:" : moved.length ? ":" : "."),
    moved.length && small_table("What drifted, worst first", ["value", "over time", "before", "now", "range moved", "distance", "change"], rows), only("only_before", "before"), only("only_now", "now"));
}
