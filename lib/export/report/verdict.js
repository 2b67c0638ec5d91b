/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the first screen ---- */

/* Kinds of what stands out: level, what it is, what to do, and which values. */
const REMARKS = [
  {level: "bad", text: "NaN or infinity begins here", todo: "No range holds these. Look at the samples and operators first.", is: (v) => v.begins && is_bad(v)},
  {level: "look", text: "an end of the range is a typical mask value", todo: "Leave the value float, or clip it before calibration.", is: (v) => v.sentinel && !is_mask(v)},
  {level: "look", text: "more than 1 % of the elements are the min or the max", todo: "Check whether the inputs are clipped.", is: (v) => v.saturated},
  {level: "look", text: "one number other than 0 is a tenth of the elements, or more", todo: "Padding, perhaps: check the inputs.", is: (v) => v.spike !== undefined && !v.saturated},
  {level: "look", text: "channels that were 0 all the time", todo: "They cost time and give nothing; more samples may wake them.", is: (v) => has_dead(v) && v.status !== "dead"},
  {level: "look", text: "one and the same number all the time", todo: "Use more samples of other kinds.", is: (v) => v.status === "dead" && v.kind !== "weight"},
  {level: "look", text: "never seen: its branch did not run, or it was left out", todo: "Use samples that reach it.", is: (v) => v.status === "never" && v.kind !== "weight"},
  {level: "note", text: "masks: \u2212infinity, or a mask value, on the way to a Softmax", todo: "Nothing: attention masks are so, and calibrate leaves them float.", is: is_mask},
].map((r) => ({...r, values: VALUES.filter((v) => r.is(v) && (r.level !== "look" || !is_folded(v)))})).filter((r) => r.values.length);

/* Why 8 bits are too few for a value, and what helps; the first that holds. */
const CAUSES = [
  {is: (v) => /softmax|sigmoid/i.test(v.op), text: "small numbers beside large ones", todo: "16 bits, or float"},
  {is: (v) => /^(Exp|Div|Sqrt|Pow|Reciprocal|Log|ReduceMean|LayerNormalization|Erf)$/.test(v.op), text: "many magnitudes in one value", todo: "leave it float, or use 16 bits"},
  {is: (v) => channel_spread(v) >= 10, text: "channels differ much in size", todo: "the pass equalize, or one scale a channel"},
  {is: (v) => tail(v) >= 4, text: "outliers far beyond 99 % of the elements", todo: "method mse or percentile, or 16 bits"},
  {is: () => true, text: "wide distribution", todo: "16 bits, or float"},
];
const cause = (v) => CAUSES.find((c) => c.is(v));
function tail(v) {
  const inner = Math.max(Math.abs(v.p1 ?? 0), Math.abs(v.p99 ?? 0));
  return inner > 0 ? Math.max(Math.abs(v.min), Math.abs(v.max)) / inner : 1;
}
/* The widest channel against the median. */
function channel_spread(v) {
  if (!v.channels) return 1;
  const codes = unpack(v.channels[2]), zero = (0 - v.min) / (v.max - v.min), sizes = [];
  for (let i = 0; i + 1 < codes.length; i += 2) if (codes[i] <= codes[i + 1]) sizes.push(Math.max(Math.abs(codes[i] - zero), Math.abs(codes[i + 1] - zero)));
  sizes.sort((a, b) => a - b);
  return sizes.length > 1 ? sizes[sizes.length - 1] / (sizes[sizes.length >> 1] || 1 / 4095) : 1;
}

const worst_values = () => VALUES.filter((v) => is_activation(v) && Number.isFinite(sqnr(v)) && (!MEASURED || MEASURED.get(v.id).quantized)).sort((a, b) => sqnr(a) - sqnr(b));
const WORST = worst_values();
const outputs_sqnr = () => Math.min(...[...MEASURED.values()].filter((m) => m.output).map((m) => m.sqnr), Infinity);

/* The level, and sentences. Thresholds are those of `tidemark quantize`. */
function judge() {
  const s = DATA.summary, bad = REMARKS.find((r) => r.level === "bad"), sim = DATA.simulation;
  if (!s.ledger.run) return ["bad", "No sample was run.", "There is nothing to judge."];
  if (bad) return ["bad", "Not ready: NaN or infinity.", plural(bad.values.length, "value") + " became NaN or infinite without a cause in the operands. No choice of range repairs that."];
  if (sim) {
    const db = outputs_sqnr(), drop = sim.accuracy_float === undefined ? undefined : sim.accuracy_float - sim.accuracy_quantized;
    const level = drop !== undefined ? (drop <= 0.01 ? "good" : drop <= 0.03 ? "look" : "bad") : db >= 30 ? "good" : db >= 20 ? "look" : "bad";
    const word = {good: "Good: the quantized network does what the float network does.", look: "Fair: the quantized network loses some accuracy.", bad: "Poor: quantization changes the outputs."}[level];
    const accuracy = drop !== undefined ? " Accuracy " + percent(sim.accuracy_quantized) + ", float " + percent(sim.accuracy_float) + "." :
      sim.agreement !== undefined ? " The same class for " + percent(sim.agreement) + " of the predictions." : "";
    return [level, word, "The worst output has " + decibels(db) + " on " + plural(sim.samples, "sample") + "." + accuracy];
  }
  const low = WORST.filter((v) => sqnr(v) < 20), given = s.bytes !== undefined, done = given ? "quantized value" : "activation";
  if (!WORST.length) return ["note", "No value has a histogram.", "Profile with histograms to see what 8 bits would do."];
  if (!low.length) return ["good", given ? "No problem found in the encodings." : "8 bits look sufficient.", "Every " + done + " keeps at least " + decibels(sqnr(WORST[0])) + ", " + EVIDENCE + "."];
  return ["look", "Some values need attention.", plural(low.length, done) + " of " + count(WORST.length) + " " + (low.length === 1 ? "is" : "are") + " below 20 dB, " + EVIDENCE + "."];
}

function todos(level) {
  const s = DATA.summary, out = [], given = s.bytes !== undefined, item = (...c) => out.push(make("li", {}, ...c)), code = (text) => make("code", {}, text);
  for (const r of REMARKS.filter((x) => x.level === "bad")) item(r.todo, " ", ...links(r.values, 3));
  if (DATA.ranking && DATA.ranking.rows.length && level !== "good") {
    const [id, db] = DATA.ranking.rows[0], v = BY_ID.get("p" + id);
    item("Give the value that costs most 16 bits, or leave it float: ", link(v), " (the outputs have " + decibels(db ?? Infinity) + " with it alone quantized).");
  } else if (DATA.simulation && level !== "good")
    item("Find the values that cost most: ", code("tidemark simulate MODEL ENC --data SRC --rank --json"), ", and give this page the result with ", code("--simulation"), ".");
  const low = level === "good" ? [] : WORST.filter((v) => sqnr(v) < 20).slice(0, 30);
  for (const c of CAUSES) {
    const hit = low.filter((v) => cause(v) === c);
    if (hit.length && out.length < 5) item(c.text[0].toUpperCase() + c.text.slice(1) + ": " + c.todo + ". ", ...links(hit, 3));
  }
  const moved = drifted();
  if (moved.length) item("Calibrate again: " + plural(moved.length, "value") + " drifted. ", ...links(moved, 3));
  if (!given) item("Choose ranges: ", code("tidemark calibrate PROFILE -o enc.json"), ", and give this page ", code("--encodings enc.json"), ".");
  else if (!DATA.simulation) item("Measure the outputs: ", code("tidemark simulate MODEL enc.json --data SRC --json > sim.json"), ", and give this page ", code("--simulation sim.json"), ".");
  else if (level === "good") item("Export it: ", code("tidemark export enc.json --to FORMAT --model MODEL -o OUT"), ".");
  return out.slice(0, 6);
}

function show_verdict() {
  const s = DATA.summary, [level, head, text] = judge();
  document.title = "Tidemark: " + s.title;
  $("title").textContent = s.title;
  $("subtitle").textContent = plural(s.ledger.run, "sample") + ", " + plural(VALUES.length, "value") + (s.target ? ", target " + s.target : "");
  const todo = todos(level);
  fill("verdict", make("h2.head", {}, make("span.mark", {"aria-hidden": "true"}, {good: "\u2713", note: "\u2013", look: "!", bad: "\u2717"}[level]), head), make("p", {}, text),
    todo.length && make("h3", {}, "What to do"), todo.length && make("ol", {}, ...todo));
  $("verdict").className = "verdict " + level;
  const weights = VALUES.reduce((sum, v) => sum + (v.kind === "weight" && is_float(v) ? 4 * (v.count || 0) : 0), 0);
  const tiles = [
    DATA.simulation && [decibels(outputs_sqnr()), "worst output"],
    DATA.simulation?.accuracy_quantized !== undefined && [percent(DATA.simulation.accuracy_quantized), "accuracy (float " + percent(DATA.simulation.accuracy_float) + ")"],
    WORST.length && [decibels(sqnr(WORST[0])), "worst value"],
    s.bytes !== undefined ? [bytes(s.bytes), "weights (float32 " + bytes(weights) + ")"] : [bytes(weights), "weights in float32; 8 bits: " + bytes(weights / 4)],
    s.share8 !== undefined && [percent(s.share8), "of the multiplications in 8 bits"],
    s.target && [s.target, "target"],
    [count(s.ledger.run), "samples run" + (s.ledger.failed ? ", " + count(s.ledger.failed) + " failed" : s.ledger.skipped ? ", " + count(s.ledger.skipped) + " skipped" : "")],
    [count(VALUES.filter(is_activation).length), "activations, " + count(VALUES.filter((v) => v.kind === "weight").length) + " weights"],
  ];
  fill("tiles", ...tiles.filter(Boolean).map(([big, small]) => make("div.tile", {}, make("b", {}, big), make("span", {}, small))));
  const warnings = REMARKS.map((r) => make("p.warning." + r.level, {}, make("strong", {}, plural(r.values.length, "value") + ": "), r.text + ". " + r.todo + " ", ...links(r.values, 6)));
  if (s.ledger.failed) warnings.unshift(make("p.warning.bad", {}, make("strong", {}, count(s.ledger.failed) + " samples failed"), " and are in no range."));
  fill("warnings", ...(warnings.length ? warnings : [make("p.warning.good", {}, "Nothing: no NaN, no infinity, no dead or saturated value.")]));
  $("warnings-title").textContent = "What stands out (" + (warnings.length || "nothing") + ")";
  $("warnings-box").open = REMARKS.some((r) => r.level === "bad");
  const facts = make("dl", {});
  const fact = (name, t) => t && facts.append(make("dt", {}, name), make("dd", {}, t));
  fact("model", s.model + (s.format ? " (" + s.format + ")" : ""));
  fact("SHA-256", s.sha256);
  for (const d of s.sources) fact("data", (d.input ? d.input + " = " : "") + d.source + ", " + plural(d.samples, "sample"));
  for (const [key, value] of s.settings) fact(key, value);
  fact("processor", s.isa);
  fact("kernels", s.kernels);
  fill("facts", facts);
  $("footer").textContent = "Made by " + s.producer + " " + s.version + ". This page holds all of its data and loads nothing.";
}

function show_worst() {
  $("worst-hint").textContent = "Signal-to-noise ratio, " + EVIDENCE + ". Below 20 dB a value is badly hurt; 6 dB are one bit.";
  fill("worst-body", WORST.length ? small_table("The ten worst values", ["value", "operator", "SQNR", "range", "99 % within", "cause", "remedy"], WORST.slice(0, 10).map((v) =>
    [link(v), v.op || v.kind, make("b", {class: sqnr(v) < 20 ? "look" : null}, decibels(sqnr(v))), range(v), v.p1 === undefined ? "" : interval(v.p1, v.p99), ...(sqnr(v) < 30 ? [cause(v).text, cause(v).todo] : ["", "none needed"])]))
    : make("p", {}, "No value has a histogram or a measured error."));
}

/* ---- ranges along the network ---- */

/* Linear around 0, logarithmic beyond: a place for each magnitude and sign. */
function start_depth() {
  const list = VALUES.filter((v) => is_activation(v) && is_float(v) && v.min !== undefined && !is_folded(v)), holder = $("depth");
  if (list.length < 2) { $("ranges").hidden = true; return; }
  const sizes = list.filter((v) => !v.sentinel).flatMap((v) => [Math.abs(v.p1 ?? v.min), Math.abs(v.p99 ?? v.max)]).filter((x) => x > 0).sort((a, b) => a - b);
  const small = Math.max((sizes[sizes.length >> 2] || 1) / 4, 1e-30), ends = list.filter((v) => !v.sentinel).flatMap((v) => [v.min, v.max]);
  const bend = (x) => Math.asinh(x / small), top = bend(Math.max(...ends, small)), bottom = bend(Math.min(...ends, 0)), height = 260, head = 34, foot = 8;
  let at = 0, width = 0;
  const y = (x) => head + (height - head - foot) * (1 - (Math.max(Math.min(bend(x), top), bottom) - bottom) / (top - bottom || 1));
  const column = (i) => 56 + (width - 64) * (i + 0.5) / list.length;
  const tell = () => {
    const v = list[at], text = (v.op || v.kind) + ", " + range(v) + (v.p1 === undefined ? "" : ", 1 % to 99 %: " + interval(v.p1, v.p99)) + (Number.isFinite(sqnr(v)) ? ", " + decibels(sqnr(v)) : "");
    fill("depth-text", link(v), ": " + text);
    holder.setAttribute("aria-valuenow", at + 1);
    holder.setAttribute("aria-valuetext", label(v) + ": " + text);
    holder.querySelector(".cursor")?.setAttribute("d", "M" + column(at).toFixed(1) + " " + head + "V" + (height - foot));
  };
  const draw = () => {
    width = Math.max(holder.clientWidth, 280);
    const svg = make("svg", {viewBox: "0 0 " + width + " " + height, width, height, "aria-hidden": "true"}), step = (width - 64) / list.length;
    const buckets = new Map();
    list.forEach((v, i) => {
      const key = step >= 1 ? i : Math.floor(i * step), b = buckets.get(key) || {i, min: v.min, max: v.max, p1: v.p1 ?? v.min, p99: v.p99 ?? v.max, bad: false};
      buckets.set(key, {i: b.i, min: Math.min(b.min, v.min), max: Math.max(b.max, v.max), p1: Math.min(b.p1, v.p1 ?? v.min), p99: Math.max(b.p99, v.p99 ?? v.max), bad: b.bad || (is_bad(v) ? "broken" : (sqnr(v) < 20 && "low"))});
    });
    const path = (low, high, is) => [...buckets.values()].filter(is).map((b) => "M" + column(b.i).toFixed(1) + " " + (y(b[low]) + 0.5).toFixed(1) + "V" + (y(b[high]) - 0.5).toFixed(1)).join("");
    const thick = Math.max(1, Math.min(14, step * 0.7)).toFixed(1);
    for (let e = Math.ceil(Math.log10(small)); e <= 38; e += Math.max(1, Math.round((top - bottom) / 14)))
      for (const t of [10 ** e, -(10 ** e)]) if (bend(t) <= top && bend(t) >= bottom) svg.append(make("path.grid", {d: "M52 " + y(t).toFixed(1) + "H" + width}), make("text.soft", {x: 48, y: y(t) + 4, "text-anchor": "end"}, short(t)));
    svg.append(make("path.axis", {d: "M52 " + y(0) + "H" + width}), make("text.soft", {x: 48, y: y(0) + 4, "text-anchor": "end"}, "0"));
    depth_blocks(svg, list, column, step, height - foot);
    svg.append(make("path.outer", {d: path("min", "max", () => true), "stroke-width": thick}), make("path.inner", {d: path("p1", "p99", (b) => !b.bad), "stroke-width": thick}),
      make("path.inner.low", {d: path("p1", "p99", (b) => b.bad === "low"), "stroke-width": thick}), make("path.inner.broken", {d: path("p1", "p99", (b) => b.bad === "broken"), "stroke-width": thick}), make("path.cursor", {}));
    holder.replaceChildren(svg);
    tell();
  };
  const move = (to) => { at = Math.max(0, Math.min(list.length - 1, to)); tell(); };
  holder.setAttribute("aria-valuemax", list.length);
  holder.addEventListener("pointermove", (event) => move(Math.floor((event.clientX - holder.getBoundingClientRect().left - 56) / (width - 64) * list.length)));
  holder.addEventListener("click", () => { location.hash = list[at].id; });
  holder.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: list.length / 10, PageDown: -list.length / 10, Home: -Infinity, End: Infinity}[event.key];
    if (event.key === "Enter") location.hash = list[at].id;
    else if (step === undefined) return;
    else move(Number.isFinite(step) ? Math.round(at + step) : step < 0 ? 0 : list.length);
    event.preventDefault();
  });
  new ResizeObserver(() => { if (Math.abs(holder.clientWidth - width) > 1) draw(); }).observe(holder);
  draw();
}
/* Where blocks begin, named where there is room. */
function depth_blocks(svg, list, column, step, bottom) {
  const net = network(), spans = [];
  list.forEach((v, i) => {
    const node = net.node_of.get(v.id), block = node && child_in(net.root, node);
    if (block && block.group && spans[spans.length - 1]?.block !== block) spans.push({block, i});
    else if (!(block && block.group) && spans.length && spans[spans.length - 1].block) spans.push({block: null, i});
  });
  let free = 0, named = null;
  for (const s of spans) {
    const x = column(s.i) - step / 2;
    svg.append(make("path.grid", {d: "M" + x.toFixed(1) + " 22V" + bottom}));
    const room = s.block ? 7 * Math.min(s.block.name.length, 14) : 0;
    if (s.block && s.block !== named && x > free && x + room < svg.getAttribute("width")) {
      named = s.block;
      svg.append(make("text.soft", {x: x + 3, y: 18}, cut(s.block.name, 14)));
      free = x + room + 10;
    }
  }
}

/* ---- sensitivity and search ---- */

function show_quality() {
  const rank = DATA.ranking, search = DATA.search;
  if (!rank && !search) return;
  $("quality").hidden = $("quality-link").hidden = false;
  const parts = [];
  if (rank) {
    const rows = rank.rows.slice(0, 15), noise = (db) => (db === null ? 0 : 10 ** (-db / 20)), most = Math.max(...rows.map((r) => noise(r[1]))) || 1;
    const bar = (db) => make("svg.noise", {viewBox: "0 0 200 14", preserveAspectRatio: "none", "aria-hidden": "true"}, make("rect.bar", {width: (200 * noise(db) / most).toFixed(1), height: 14}));
    parts.push(make("div", {}, make("h3", {}, "What each value costs alone"), make("p.hint", {}, "SQNR of the outputs with this value quantized and nothing else, on " + plural(rank.samples, "sample") + "; what costs most first." + (rank.not_tried ? " " + count(rank.not_tried) + " not tried." : "")),
      small_table("Sensitivity", ["value", "outputs", "itself, expected", "noise in the outputs"], rows.map(([id, db, own]) => [link(BY_ID.get("p" + id)), decibels(db ?? Infinity), decibels(own ?? undefined), bar(db)]))));
  }
  if (search) {
    const several = new Set(search.rows.filter((r) => r[0] !== null).map((r) => r[0] + " " + r[2])).size > 1;
    parts.push(make("div", {}, make("h3", {}, "Quality against cost"), several ? make("p.hint", {}, "Encodings that the search went through: SQNR of the outputs against the share of multiplications in 8 bits. The line is the front: nothing is better in both.") : "",
      several ? front(search.rows) : "", make("p", {}, "The outputs had " + decibels(search.before ?? Infinity) + " before and have " + decibels(search.after ?? Infinity) + " after, " + plural(search.tried, "try", "tries") + ", " + plural(search.chosen, "choice") +
        (search.judged ? "; on " + plural(search.judged, "sample") + " that judge the choices: " + decibels(search.judged_before ?? Infinity) + " and " + decibels(search.judged_after ?? Infinity) : "") + ".")));
  }
  fill("quality-body", make("div.cols", {}, ...parts));
}
function front(points) {
  const width = 420, height = 220, left = 52, bottom = 34, shown = points.filter((p) => p[0] !== null), dbs = shown.map((p) => p[0]), shares = shown.map((p) => p[2]);
  const low = Math.min(...dbs), high = Math.max(...dbs), from = Math.min(...shares), to = Math.max(...shares), pad = (high - low) / 10 || 1, gap = (to - from) / 10 || 0.05;
  const x = (s) => left + (width - left - 10) * (s - from + gap) / (to - from + 2 * gap), y = (d) => 8 + (height - bottom - 8) * (high - d + pad) / (high - low + 2 * pad);
  const svg = make("svg.chart", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Quality front: " + shown.map((p) => decibels(p[0]) + " at " + percent(p[2])).join("; ")});
  svg.append(make("path.axis", {d: "M" + left + " 8V" + (height - bottom) + "H" + (width - 10)}));
  for (const d of new Set([low, high])) svg.append(make("text.soft", {x: left - 6, y: y(d) + 4, "text-anchor": "end"}, d.toFixed(1)));
  for (const s of new Set([from, to])) svg.append(make("text.soft", {x: x(s), y: height - bottom + 16, "text-anchor": "middle"}, (100 * s).toFixed(0) + " %"));
  svg.append(make("text.soft", {x: left + 6, y: 18}, "dB"), make("text.soft", {x: width - 12, y: height - 4, "text-anchor": "end"}, "multiplications in 8 bits"));
  const best_ones = shown.filter((p) => p[3]).sort((a, b) => a[2] - b[2]);
  svg.append(make("polyline.front", {points: best_ones.map((p) => x(p[2]).toFixed(1) + "," + y(p[0]).toFixed(1)).join(" ")}));
  shown.forEach((p, i) => svg.append(make("circle" + (p[3] ? ".best" : ""), {cx: x(p[2]).toFixed(1), cy: y(p[0]).toFixed(1), r: p[3] ? 5 : 4}, make("title", {}, "step " + i + ": " + decibels(p[0]) + ", " + percent(p[2]) + ", " + bytes(p[1]) + (p[4] === undefined ? "" : ", judged " + number(p[4]))))));
  return svg;
}
