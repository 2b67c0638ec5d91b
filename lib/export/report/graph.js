/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the network as a graph ---- */

const BOX = {w: 184, h: 54, port: 24, gap: 26, rise: 40, thread: 12};
const MOST_DRAWN = 3000;

/* What a view of a group shows: its children, or all of its nodes; and ports for what comes from and goes to elsewhere. */
function view_items(group, flat) {
  const net = network(), inside = flat ? leaves(group) : group.children, items = inside.map((of, number_) => ({of, number: number_})), by = new Map();
  items.forEach((item) => { for (const n of leaves(item.of)) by.set(n, item); });
  const edges = new Map(), ports = new Map();
  const port = (node, from) => {
    const up = path_of(node), here = path_of(group), k = up.findIndex((p, i) => p !== here[i]), of = up[Math.max(k, 1)] || node, key = (from ? "<" : ">") + net.list.indexOf(leaves(of)[0]);
    if (!ports.has(key)) { ports.set(key, {of, port: from ? "from" : "to", number: items.length}); items.push(ports.get(key)); }
    return ports.get(key);
  };
  const edge = (source, target) => { if (source !== target) edges.set(source.number + ">" + target.number, {source, target}); };
  for (const [n, item] of by) {
    for (const s of n.in) edge(by.get(s) || port(s, true), item);
    for (const t of n.out) if (!by.has(t)) edge(item, port(t, false));
  }
  return {items, edges: [...edges.values()]};
}

/* Each item behind those that it reads, which a block with an early first operator may come before; of a circle, one edge goes up. */
function rank_items(items, edges) {
  const order = (item) => (item.port === "from" ? -1 : item.port ? Infinity : leaves(item.of)[0].at), before = new Map(items.map((i) => [i, []]));
  for (const e of edges) before.get(e.target).push(e.source);
  let ranks = 0;
  const place = (item) => {
    if (item.rank !== undefined) return;
    item.rank = -1;
    before.get(item).forEach(place);
    item.rank = ranks++;
  };
  items.sort((a, b) => order(a) - order(b)).forEach(place);
  items.sort((a, b) => a.rank - b.rank);
}
/* Layers by the longest path. Edges over several layers get a place of their own in each, so that none crosses a box. */
function lay_out(items, edges) {
  rank_items(items, edges);
  items.forEach((item) => Object.assign(item, {layer: 0, in: [], out: [], w: item.port ? 120 : BOX.w}));
  for (const e of edges) if (e.source.rank < e.target.rank) { e.target.in.push(e.source); e.source.out.push(e.target); }
  for (const item of items) for (const s of item.in) item.layer = Math.max(item.layer, s.layer + 1);
  for (const item of [...items].reverse()) if (!item.in.length && item.out.length) item.layer = Math.max(0, Math.min(...item.out.map((t) => t.layer)) - 1);
  const layers = [], put = (p) => { (layers[p.layer] = layers[p.layer] || []).push(p); };
  for (const item of items) { item.up = []; item.down = []; put(item); }
  for (const e of edges) {
    e.points = [e.source];
    for (let k = e.source.layer + 1; k < e.target.layer; k++) {
      const thread = {layer: k, w: BOX.thread, thread: true, up: [], down: []};
      put(thread);
      e.points.push(thread);
    }
    e.points.push(e.target);
    for (let k = 0; k + 1 < e.points.length && e.target.layer > e.source.layer; k++) { e.points[k].down.push(e.points[k + 1]); e.points[k + 1].up.push(e.points[k]); }
  }
  for (let k = 0; k < layers.length; k++) layers[k] = layers[k] || [];
  const mean = (list, of) => list.reduce((sum, p) => sum + of(p), 0) / list.length;
  layers.forEach((layer) => layer.forEach((p, i) => { p.spot = i; }));
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0, side = down ? "up" : "down";
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const p of layer) p.want = p[side].length ? mean(p[side], (q) => q.spot / (layers[q.layer].length || 1)) : p.spot / layer.length;
      layer.sort((a, b) => a.want - b.want);
      layer.forEach((p, i) => { p.spot = i; });
    }
  }
  for (const layer of layers) {
    let x = 0;
    for (const p of layer) { p.x = x + p.w / 2; x += p.w + BOX.gap; }
    for (const p of layer) p.x -= x / 2;
  }
  for (let sweep = 0; sweep < 14; sweep++) {
    const down = sweep % 2 === 0, near = (p) => (sweep > 9 ? [...p.up, ...p.down] : down ? p.up : p.down);
    for (const layer of down ? layers : [...layers].reverse()) place_layer(layer, layer.map((p) => (near(p).length ? mean(near(p), (q) => q.x) : p.x)));
  }
  for (const item of items) item.y = item.layer * (BOX.h + BOX.rise);
}
/* The places nearest to the wanted ones that keep order and distance: pools of neighbours that would overlap. */
function place_layer(layer, wanted) {
  const pools = [];
  let offset = 0;
  layer.forEach((p, i) => {
    if (i) offset += (layer[i - 1].w + p.w) / 2 + (p.thread && layer[i - 1].thread ? BOX.thread : BOX.gap);
    p.offset = offset;
    const weight = p.thread ? 4 : 1;
    pools.push({at: wanted[i] - offset, weight, n: 1});
    while (pools.length > 1 && pools[pools.length - 2].at > pools[pools.length - 1].at) {
      const b = pools.pop(), a = pools[pools.length - 1];
      a.at = (a.at * a.weight + b.at * b.weight) / (a.weight + b.weight);
      a.weight += b.weight;
      a.n += b.n;
    }
  });
  let i = 0;
  for (const pool of pools) for (let k = 0; k < pool.n; k++, i++) layer[i].x = pool.at + layer[i].offset;
}
/* Down through the gaps between layers, straight past boxes. An edge up (a loop's) goes around at the side. */
function edge_path(e, right) {
  const round = (x) => Math.round(x * 10) / 10, half = (p) => (p.port ? BOX.port : BOX.h) / 2;
  const top = (p) => p.layer * (BOX.h + BOX.rise) - half(p), bottom = (p) => p.layer * (BOX.h + BOX.rise) + half(p);
  if (e.target.layer <= e.source.layer)
    return "M" + round(e.source.x) + " " + bottom(e.source) + "v8H" + round(right) + "V" + (top(e.target) - 8) + "H" + round(e.target.x) + "v8";
  let d = "M" + round(e.points[0].x) + " " + bottom(e.points[0]);
  for (let k = 1; k < e.points.length; k++) {
    const a = e.points[k - 1], b = e.points[k], middle = (bottom(a) + top(b)) / 2;
    d += "C" + round(a.x) + " " + middle + " " + round(b.x) + " " + middle + " " + round(b.x) + " " + top(b);
    if (b.thread) d += "V" + bottom(b);
  }
  return d;
}

/* ---- drawing ---- */

const graph = {group: null, flat: false, items: [], edges: [], view: {}, whole: {}, chosen: null};
const ops_of = (group) => {
  const counts = new Map();
  for (const n of leaves(group)) counts.set(n.op, (counts.get(n.op) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => op + (n > 1 ? " \u00d7" + n : "")).join(", ");
};
const values_of = (item) => leaves(item).flatMap((n) => n.values);
const tail_of = (text, n) => (text.length > n ? "\u2026" + text.slice(1 - n) : text);
function box_texts(item) {
  if (item.port) return [item.port + " " + tail_of(item.of.name, 14)];
  const of = item.of, last = values_of(of).slice(-1)[0];
  return of.group ? [cut(of.name, 26) + " \u25b8", cut(ops_of(of), 27), cut(range(last), 27)]
    : [cut(of.op, 26), tail_of(of.op === "input" ? label(of.values[0]) : of.name, 27), cut(range(of.values[0]), 27)];
}
function draw_box(item) {
  const texts = box_texts(item), of = item.of, all = item.port ? [] : values_of(of), height = item.port ? BOX.port : BOX.h;
  const state = all.some(is_bad) ? ".broken" : all.some((v) => sqnr(v) < 20) ? ".low" : all.some(is_odd) ? ".warn" : "";
  const words = {".broken": ", with NaN or infinity", ".low": ", with values below 20 dB", ".warn": ", with something that stands out", "": ""}[state];
  const g = make("g.box" + (item.port ? ".port" : of.group ? ".group" : "") + state + (graph.chosen === of && !item.port ? ".chosen" : ""), {tabindex: 0, role: "button", "aria-label": (of.group && !item.port ? "block " : "") + texts.join(", ") + words, transform: "translate(" + item.x.toFixed(1) + " " + item.y + ")"},
    make("rect", {x: -item.w / 2, y: -height / 2, width: item.w, height, rx: item.port ? BOX.port / 2 : 6}),
    ...texts.map((t, i) => make("text" + (i ? ".soft" : ""), {"text-anchor": "middle", y: item.port ? 4 : 16 * i - 11, "font-size": i ? 11 : 13}, t)),
    make("title", {}, of.group ? path_of(of).map((p) => p.name).slice(1).join("/") + ": " + ops_of(of) : of.name));
  const go = () => activate(item);
  g.addEventListener("click", () => { if (!graph.dragged) go(); });
  g.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } });
  return g;
}
function activate(item) {
  if (item.port) open_group(item.of.group ? item.of : item.of.parent, item.of);
  else if (item.of.group) open_group(item.of);
  else choose_node(item);
}
/* A node's attributes and what it reads and writes, beside the graph. */
function choose_node(item) {
  const n = item.of, from = [...new Set(n.values.flatMap((v) => v.from))].map((id) => BY_ID.get(id)).filter(Boolean);
  graph.chosen = n;
  paint_graph(true);
  const lines = (list) => make("ul", {}, ...list.map((v) => make("li", {}, link(v), " ", make("span.soft", {}, v.shape + " " + range(v) + (Number.isFinite(sqnr(v)) ? ", " + decibels(sqnr(v)) : "")))));
  fill("node", make("h3", {}, n.op), make("p", {}, n.name), n.values[0].attributes && make("pre", {}, n.values[0].attributes),
    from.length && make("h4", {}, "reads"), from.length && lines(from), make("h4", {}, "writes"), lines(n.values));
}
function paint_graph(again) {
  const {view} = graph, svg = $("graph").querySelector("svg"), scale = $("graph").clientWidth / view.w;
  svg.setAttribute("viewBox", [view.x, view.y, view.w, view.h].join(" "));
  const many = graph.items.length > 300, far = many && scale < 0.25;
  const inside = (x, y, w, h) => x + w > view.x - 100 && x - w < view.x + view.w + 100 && y + h > view.y - 100 && y - h < view.y + view.h + 100;
  if (!many && !again) { move_frame(); return; }
  const focused = graph.items.find((i) => i.g && i.g === document.activeElement);
  const shown = far ? [] : graph.items.filter((i) => !many || inside(i.x, i.y, BOX.w, BOX.h));
  for (const i of shown) if (!i.g || again) i.g = draw_box(i);
  const drawn = graph.edges.filter((e) => !many || far || e.points.some((p) => inside(p.x, p.layer * (BOX.h + BOX.rise), 200, 200)));
  svg.replaceChildren(make("path.edge", {d: drawn.map((e) => e.path).join("")}), far ? make("path.far", {d: graph.rects}) : make("g", {}, ...shown.map((i) => i.g)));
  if (focused) focused.g.focus({preventScroll: true});
  move_frame();
}
function move_frame() {
  const {view, whole} = graph, frame = $("minimap").querySelector("rect");
  if (frame) for (const [key, value] of Object.entries({x: Math.max(view.x, whole.x), y: Math.max(view.y, whole.y), width: Math.min(view.w, whole.w), height: Math.min(view.h, whole.h)})) frame.setAttribute(key, value);
  $("minimap").hidden = view.w >= whole.w && view.h >= whole.h;
}
function show_whole() {
  const holder = $("graph"), ratio = holder.clientWidth / Math.max(holder.clientHeight, 1), {whole, view} = graph;
  const h = Math.max(whole.h, whole.w / ratio);
  Object.assign(view, {w: h * ratio, h, x: whole.x + (whole.w - h * ratio) / 2, y: whole.y + (whole.h - h) / 2});
}
/* Boxes at their size: from the top, or around one. */
function show_readable(item) {
  const holder = $("graph"), w = Math.max(holder.clientWidth, 300), h = Math.max(holder.clientHeight, 200), {whole, view} = graph;
  const middle = item || graph.items.filter((i) => i.layer === 0)[0] || {x: 0, y: 0};
  Object.assign(view, {w, h, x: middle.x - w / 2, y: item ? item.y - h / 2 : whole.y});
}
function open_group(group, then) {
  if (leaves(group).length > MOST_DRAWN) graph.flat = false;
  $("flat").disabled = leaves(group).length > MOST_DRAWN;
  $("flat").setAttribute("aria-pressed", graph.flat);
  graph.group = group;
  Object.assign(graph, view_items(group, graph.flat));
  lay_out(graph.items, graph.edges);
  const all = [...graph.items, ...graph.edges.flatMap((e) => e.points)], xs = all.map((p) => p.x), ys = graph.items.map((i) => i.y);
  const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity), most = (list) => list.reduce((a, b) => Math.max(a, b), -Infinity);
  const right = most(xs) + BOX.w / 2 + 20;
  for (const e of graph.edges) e.path = edge_path(e, right);
  graph.rects = graph.items.map((i) => "M" + (i.x - i.w / 2).toFixed(0) + " " + (i.y - BOX.h / 2) + "h" + i.w + "v" + BOX.h + "h-" + i.w + "z").join("");
  graph.whole = {x: least(xs) - BOX.w / 2 - 30, y: least(ys) - BOX.h, w: most(xs) - least(xs) + BOX.w + 60, h: most(ys) - least(ys) + 2 * BOX.h};
  const {whole} = graph, tall = Math.min(160, 160 * whole.h / whole.w), wide = Math.min(160, 160 * whole.w / whole.h);
  fill("minimap", make("svg", {viewBox: [whole.x, whole.y, whole.w, whole.h].join(" "), width: Math.max(wide, 24), height: Math.max(tall, 24), preserveAspectRatio: "none", "aria-hidden": "true"}, make("path.far", {d: graph.rects}), make("rect.frame", {})));
  fill("crumbs", ...path_of(group).flatMap((p, i) => [i ? " \u203a " : "", p === group ? make("span", {"aria-current": "location"}, p.name) : button(p.name, () => open_group(p, group))]));
  $("graph-text").textContent = plural(leaves(group).length, "operator") + " in " + plural(graph.items.filter((i) => !i.port).length, "box", "boxes") + (group === network().root && network().folded ? "; " + plural(network().folded, "value") + " of shapes and constants folded away" : "");
  const found = then && graph.items.find((i) => !i.port && (i.of === then || leaves(i.of).includes(then)));
  graph.chosen = found && !found.of.group ? found.of : null;
  fill("node", make("p.soft", {}, "Choose an operator to see its attributes and ranges."));
  if (whole.w <= $("graph").clientWidth * 1.3 && whole.h <= $("graph").clientHeight * 1.3) show_whole();
  else show_readable(found);
  paint_graph(true);
  if (graph.chosen) choose_node(found);
}
function show_in_network(v) {
  const node = network().node_of.get(v.id);
  $("network").scrollIntoView();
  open_group(node.parent, node);
  graph.items.find((i) => i.of === node)?.g?.focus({preventScroll: true});
}
/* The view as a file: the same drawing with its colours in it. */
function graph_svg() {
  const {whole} = graph, color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const style = "text{font:12px sans-serif;fill:" + color("ink") + "}.soft{fill:" + color("soft") + "}rect{fill:" + color("card") + ";stroke:" + color("soft") + "}.group rect{fill:" + color("back") + ";stroke:" + color("accent") + "}.edge{fill:none;stroke:" + color("soft") + "}.low rect,.warn rect{stroke:" + color("look") + ";stroke-width:2}.broken rect{stroke:" + color("bad") + ";stroke-width:3}";
  const svg = make("svg", {xmlns: SVG, viewBox: [whole.x, whole.y, whole.w, whole.h].join(" "), width: Math.round(whole.w), height: Math.round(whole.h)}, make("style", {}, style),
    make("rect", {x: whole.x, y: whole.y, width: whole.w, height: whole.h, style: "stroke:none;fill:" + color("card")}), make("path.edge", {d: graph.edges.map((e) => e.path).join("")}), ...graph.items.map(draw_box));
  for (const box of svg.querySelectorAll(".box")) for (const name of ["tabindex", "role"]) box.removeAttribute(name);
  return new XMLSerializer().serializeToString(svg);
}
function start_graph() {
  const net = network(), holder = $("graph"), {view} = graph;
  if (!net.list.length) { $("network").hidden = true; return; }
  holder.prepend(make("svg", {}));
  const zoom = (factor, x, y) => {
    const at = x === undefined ? [0.5, 0.5] : [x, y];
    view.x += view.w * (1 - factor) * at[0]; view.y += view.h * (1 - factor) * at[1]; view.w *= factor; view.h *= factor;
    paint_graph();
  };
  const move = (dx, dy) => { view.x += dx; view.y += dy; paint_graph(); };
  $("zoom-in").addEventListener("click", () => zoom(0.7));
  $("zoom-out").addEventListener("click", () => zoom(1.4));
  $("zoom-all").addEventListener("click", () => { show_whole(); paint_graph(); });
  $("flat").addEventListener("click", () => { graph.flat = !graph.flat; open_group(graph.group, graph.chosen); });
  $("save-svg").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([graph_svg()], {type: "image/svg+xml"}));
    make("a", {href: url, download: DATA.summary.title + ".svg"}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });
  holder.addEventListener("keydown", (event) => {
    const step = view.w / 8, moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
    if (moves[event.key]) move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "Backspace" && graph.group.parent) open_group(graph.group.parent, graph.group);
    else return;
    event.preventDefault();
  });
  /* The keyboard's focus is brought into view. */
  holder.addEventListener("focusin", (event) => {
    const item = graph.items.find((i) => i.g === event.target);
    if (item && (item.x < view.x || item.x > view.x + view.w || item.y < view.y || item.y > view.y + view.h)) { view.x = item.x - view.w / 2; view.y = item.y - view.h / 2; paint_graph(); }
    holder.scrollTop = holder.scrollLeft = 0;
  });
  holder.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, event.offsetX / holder.clientWidth, event.offsetY / holder.clientHeight);
  }, {passive: false});
  let from = null;
  holder.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; graph.dragged = false; });
  window.addEventListener("pointermove", (event) => {
    if (!from) return;
    const dx = event.clientX - from[0], dy = event.clientY - from[1], scale = Math.max(view.w / holder.clientWidth, view.h / holder.clientHeight);
    if (!graph.dragged && Math.hypot(dx, dy) < 4) return;
    graph.dragged = true;
    from = [event.clientX, event.clientY];
    move(-dx * scale, -dy * scale);
  });
  window.addEventListener("pointerup", () => { from = null; });
  const jump = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = $("minimap").firstChild.getBoundingClientRect(), {whole} = graph;
    event.stopPropagation();
    Object.assign(view, {x: whole.x + whole.w * (event.clientX - box.left) / box.width - view.w / 2, y: whole.y + whole.h * (event.clientY - box.top) / box.height - view.h / 2});
    paint_graph();
  };
  for (const type of ["pointerdown", "pointermove"]) $("minimap").addEventListener(type, jump);
  open_group(net.root);
}

/* ---- the page ---- */

function follow_hash() {
  const v = BY_ID.get(location.hash.slice(1));
  if (v) show_value(v);
  else close_value();
}
function start_theme() {
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").setAttribute("aria-pressed", dark);
  };
  set(window.matchMedia("(prefers-color-scheme: dark)").matches);
  $("theme").addEventListener("click", () => set(document.documentElement.dataset.theme !== "dark"));
}
/* The section in view is marked in the navigation. */
function start_navigation() {
  const links_ = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const watch = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) for (const [id, a] of links_) id === e.target.id ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current");
  }, {rootMargin: "-20% 0px -70% 0px"});
  for (const id of links_.keys()) watch.observe($(id));
}
/* What is first in view is drawn first; the rest after it was painted. */
start_theme();
show_verdict();
show_worst();
start_value();
function start_rest() {
  start_depth();
  start_table();
  show_quality();
  show_drift();
  start_graph();
  start_navigation();
  window.addEventListener("hashchange", follow_hash);
  follow_hash();
  document.documentElement.dataset.ready = "true";
}
requestAnimationFrame(() => setTimeout(start_rest));
