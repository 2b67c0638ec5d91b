/* SPDX-License-Identifier: Apache-2.0 */
/* ---- histograms ---- */

function spark(v) {
  if (!v.bins) return "";
  const cells = [], n = 32, all = bins(v), step = all.length / n;
  for (let i = 0; i < n; i++) cells.push(all.slice(i * step, (i + 1) * step).reduce((a, b) => a + b, 0));
  const most = Math.max(...cells) || 1;
  const path = cells.map((c, i) => "M" + (i * 3) + " 22V" + (22 - 21 * Math.sqrt(c / most)).toFixed(1) + "h2V22").join("");
  return make("svg.spark", {viewBox: "0 0 96 22", "aria-hidden": "true"}, make("path.bar", {d: path}));
}

/* Bars between min and max; thresholds of the methods as lines. */
function histogram(v, logarithmic) {
  const width = 480, height = 240, left = 8, bottom = 26, top = 14, inner = width - 2 * left;
  const all = bins(v), most = Math.max(...all) || 1, tall = height - bottom - top;
  const rise = (c) => (c <= 0 ? 0 : logarithmic ? Math.max(2, tall * Math.log1p(c) / Math.log1p(most)) : Math.max(1, tall * c / most));
  const x = (value) => left + inner * (value - v.min) / (v.max - v.min), base = height - bottom;
  const svg = make("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Histogram of " + label(v) + " from " + number(v.min) + " to " + number(v.max)});
  all.forEach((c, i) => {
    const w = inner / all.length, h = rise(c);
    const from = v.min + (v.max - v.min) * i / all.length, to = v.min + (v.max - v.min) * (i + 1) / all.length;
    if (h) svg.append(make("rect.bar", {x: (left + i * w).toFixed(2), y: (base - h).toFixed(2), width: Math.max(w - 1, 0.5).toFixed(2), height: h.toFixed(2)},
      make("title", {}, number(from) + " to " + number(to) + ": about " + count(Math.round(c)))));
  });
  svg.append(make("path.axis", {d: "M" + left + " " + base + "H" + (width - left)}));
  methods(v).forEach((m, i) => {
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
  const [, n, packed] = v.channels, codes = unpack(packed), groups = codes.length / 2, width = 480, height = 160, each = n / groups;
  const y = (share) => 6 + (height - 12) * (1 - share), w = width / groups, real = (share) => v.min + share * (v.max - v.min);
  const svg = make("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Range of each of " + n + " channels"});
  for (let i = 0; i < groups; i++) {
    const low = codes[2 * i], high = codes[2 * i + 1];
    if (low > high) continue;
    svg.append(make("rect.bar", {x: (i * w).toFixed(2), width: Math.max(w * 0.8, 0.6).toFixed(2), y: y(high).toFixed(2), height: Math.max(y(low) - y(high), 1).toFixed(2)},
      make("title", {}, (each > 1 ? "channels " + Math.floor(i * each) + " to " + (Math.floor((i + 1) * each) - 1) : "channel " + i) + ": " + interval(real(low), real(high)))));
  }
  const zero = (0 - v.min) / (v.max - v.min);
  if (zero >= 0 && zero <= 1) svg.append(make("path.axis", {d: "M0 " + y(zero).toFixed(1) + "H" + width}));
  return svg;
}

function growth(v) {
  const width = 480, height = 140, points = v.growth.filter((p) => p[1] !== null), last = points[points.length - 1];
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
  const known = (id, i) => [i ? ", " : "", BY_ID.has(id) ? link(BY_ID.get(id)) : id];
  put("ID", v.id);
  put("kind", v.kind + ", " + v.status + (v.rule ? " by " + v.rule : ""));
  put("type", v.dtype + " " + v.shape);
  if (v.op) put("node", v.op + (v.node ? " " + v.node : ""));
  if (v.attributes) put("attributes", make("span.lines", {}, v.attributes));
  if (v.from.length) put("computed from", ...v.from.flatMap(known));
  if (READERS.has(v.id)) put("read for", ...links(READERS.get(v.id), 8));
  if (v.count !== undefined) put("count", count(v.count) + (v.zeros ? ", " + percent(v.zeros / v.count) + " zeros" : ""));
  if (v.min !== undefined) {
    put("min", number(v.min) + at(v.min_at));
    if (v.p1 !== undefined) put("1 % and 99 %", "about " + number(v.p1) + " and " + number(v.p99));
    put("max", number(v.max) + at(v.max_at));
  }
  if (v.mean !== undefined) put("mean, deviation", number(v.mean) + ", " + deviation(v) +
    (v.std_low === undefined ? "" : " (estimated; between " + exact(v.std_low) + " and " + exact(v.std_high) + ")"));
  if (v.nan) put("NaN", make("span.bad", {}, count(v.nan)));
  if (v.posinf) put("+infinity", make("span.bad", {}, count(v.posinf)));
  if (v.neginf) put("\u2212infinity", make(is_mask(v) ? "span" : "span.bad", {}, count(v.neginf) + (is_mask(v) ? ", a mask" : "")));
  if (v.sentinel) put("an end is", make(is_mask(v) ? "span" : "span.look", {}, v.sentinel));
  if (v.saturated) put("saturated", make("span.look", {}, count(v.saturated) + " at one end"));
  if (v.spike !== undefined) put("spike", make("span.look", {}, "at " + number(v.spike)));
  if (v.dead_channels) put("dead channels", make("span.look", {}, v.dead_channels + (v.channels ? " of " + v.channels[1] : "")));
  for (const end of ["top_min", "top_max"])
    if (v[end]) put(end === "top_min" ? "smallest" : "largest", v[end].map(([x, s]) => number(x) + " (sample " + s + ")").join(", "));
  const e = v.encoding;
  if (e) put("encoding", e.float ? "float: " + e.float : e.dtype ? e.dtype + " by " + e.method + (e.rule ? ", " + e.rule : "") + ", scale " + number(e.scale) + ", zero point " + e.zero_point +
    (e.n > 1 ? " (channel 0 of " + e.n + ")" : "") + (e.low !== undefined ? ", codes from " + number(e.low) + " to " + number(e.high) : "") : "none");
  if (Number.isFinite(sqnr(v))) put("SQNR", decibels(sqnr(v)) + ", " + EVIDENCE);
  return dl;
}

function methods_of(v) {
  const row = (m, i) => make("tr", {}, make("th", {scope: "row"}, make("span.key", {style: "background: var(--m" + i % 6 + ")"}), m.method),
    make("td.num", {}, number(m.low)), make("td.num", {}, number(m.high)), make("td.num", {}, decibels(m.sqnr ?? Infinity)), make("td.num", {}, percent(m.clipped)));
  const head = make("tr", {}, ...["method", "from", "to", "SQNR", "clipped"].map((t, i) => make(i ? "th.num" : "th", {scope: "col"}, t)));
  return make("div.scroll", {tabindex: 0, role: "region", "aria-label": "Table: methods"}, make("table", {}, make("caption.away", {}, "What each method would choose at 8 bits"), make("thead", {}, head), make("tbody", {}, ...methods(v).map(row))));
}

let logarithmic = false;
function show_value(v) {
  const body = make("div.cols", {}, make("div", {}, facts_of(v))), pictures = make("div", {}), order = table.shown.length ? table.shown : VALUES, at = order.indexOf(v);
  $("h-value").textContent = label(v);
  if (v.bins) {
    const holder = make("div", {}, histogram(v, logarithmic));
    const toggle = button("Logarithmic", () => {
      logarithmic = !logarithmic;
      toggle.setAttribute("aria-pressed", logarithmic);
      holder.replaceChildren(histogram(v, logarithmic));
    }, {id: "logarithmic", "aria-pressed": String(logarithmic)});
    pictures.append(make("div.row", {}, make("h3", {}, "Histogram"), toggle), holder);
  }
  if (v.methods.length) pictures.append(make("h3", {}, "Ranges of each method at 8 bits, and what is expected"), methods_of(v));
  if (v.methods.length && DATA.summary.methods_left_out) pictures.append(make("p", {}, "Of so many values " + DATA.summary.methods_left_out.join(" and ") + " are left out here; tidemark calibrate has them."));
  if (v.line && v.line.length) pictures.append(make("h3", {}, "Range over time"), time_line(v, 480, 120, true));
  if (v.channels) pictures.append(make("h3", {}, "Range of each channel (axis " + v.channels[0] + ", " + v.channels[1] + " channels)"), channels(v));
  if (v.growth && v.growth.length > 1) pictures.append(make("h3", {}, "How the range grew"), growth(v));
  body.append(pictures);
  fill("value-body", body);
  for (const [id, other] of [["previous", order[at - 1]], ["next", order[at + 1]]]) {
    $(id).disabled = at < 0 || !other;
    $(id).onclick = () => { location.replace("#" + other.id); };
  }
  $("in-network").hidden = !network().node_of.has(v.id);
  $("in-network").onclick = () => { close_value(); show_in_network(v); };
  if (!$("value").open) $("value").showModal();
  $("value").scrollTop = 0;
}
/* The page stays where it was: the dialog is above it. */
function close_value() {
  if ($("value").open) $("value").close();
  if (BY_ID.has(location.hash.slice(1))) history.replaceState(null, "", location.pathname + location.search);
}
function start_value() {
  $("close").addEventListener("click", close_value);
  $("value").addEventListener("click", (event) => { if (event.target === $("value")) close_value(); });
  $("value").addEventListener("cancel", close_value);
}
