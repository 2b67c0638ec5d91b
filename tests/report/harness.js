/* Clicks and types through the report's page, and leaves what it found in it. */
"use strict";
const found = {errors: []};
window.addEventListener("error", (event) => found.errors.push(event.message));
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
/* Waits until it holds, two seconds at most. */
async function until(holds) {
  for (let i = 0; i < 100 && !holds(); i++) await wait(20);
  return Boolean(holds());
}
/* Waits until nothing has scrolled the rows for a while, and those in view are drawn. */
async function settle(box) {
  const drawn = () => table.first === Math.max(0, Math.floor(box.scrollTop / table.row / 10) * 10 - 10);
  for (let same = 0, last = -1; same < 5 || !drawn(); last = box.scrollTop) {
    await wait(40);
    same = box.scrollTop === last ? same + 1 : 0;
  }
}
const rows = () => [...document.querySelectorAll("#table tbody tr[data-id]")];
const head = (text) => [...document.querySelectorAll("#table th button")].find((b) => b.textContent === text);
const shown = (key) => table.shown.map((v) => v[key]).filter((x) => typeof x === "number");

function try_table() {
  found.values = VALUES.length;
  found.rows = rows().length;
  found.rowcount = Number(document.getElementById("table").getAttribute("aria-rowcount")) - 1;
  head("max").click();
  found.ascending = shown("max");
  head("max").click();
  found.descending = shown("max");
  found.aria = document.querySelector("th[data-key=max]").getAttribute("aria-sort");
  head("ID").click();
  const search = document.getElementById("search"), activations = document.getElementById("activations");
  search.value = "CONV weight";
  search.dispatchEvent(new Event("input"));
  found.searched = table.shown.map((v) => v.name);
  search.value = "";
  search.dispatchEvent(new Event("input"));
  activations.click();
  found.kinds = [...new Set(table.shown.map((v) => v.kind))];
  activations.click();
  found.columns = document.querySelectorAll("#columns dt").length;
}
async function try_scrolling() {
  const box = document.getElementById("rows");
  box.scrollTop = box.scrollHeight;
  found.last = await until(() => rows().slice(-1)[0].dataset.id === table.shown.slice(-1)[0].id);
  box.scrollTop = Math.floor(box.scrollHeight / 2);
  await settle(box);
  const link_ = rows()[12].querySelector("a");
  link_.focus();
  await settle(box);
  const top = box.scrollTop;
  link_.click();
  found.opened = await until(() => document.getElementById("value").open && document.getElementById("h-value").textContent === link_.textContent);
  document.getElementById("close").click();
  await until(() => !location.hash);
  await settle(box);
  found.kept = {scroll: box.scrollTop - top, focus: document.activeElement === link_, hash: location.hash};
}
async function try_value() {
  const v = VALUES.find((x) => x.bins && x.channels && x.kind !== "weight") || VALUES[0], value = document.getElementById("value");
  location.hash = v.id;
  found.open = await until(() => value.open && document.getElementById("h-value").textContent === label(v));
  found.bars = value.querySelectorAll("rect.bar").length;
  found.methods = [...value.querySelectorAll("tbody th")].map((t) => t.textContent);
  const toggle = document.getElementById("logarithmic");
  toggle.click();
  found.logarithmic = toggle.getAttribute("aria-pressed");
  document.getElementById("next").click();
  found.next = await until(() => document.getElementById("h-value").textContent === label(table.shown[table.shown.indexOf(v) + 1]));
  found.attributes = VALUES.filter((x) => x.attributes).length;
  found.lines = value.textContent.includes("Range over time");
  document.getElementById("close").click();
  await wait(50);
}
/* Places on each edge that lie in a box other than its ends. */
function crossings() {
  let bad = 0;
  for (const e of graph.edges) {
    const path = make("path", {d: e.path});
    document.querySelector("#graph svg").append(path);
    const length = path.getTotalLength();
    for (let at = 0; at <= length; at += 20) {
      const p = path.getPointAtLength(at);
      bad += graph.items.some((i) => i !== e.source && i !== e.target && Math.abs(p.x - i.x) < i.w / 2 && Math.abs(p.y - i.y) < (i.port ? BOX.port : BOX.h) / 2);
    }
    path.remove();
  }
  return bad;
}
const overlaps = () => graph.items.filter((a, i) => graph.items.some((b, k) => k > i && a.layer === b.layer && Math.abs(a.x - b.x) < (a.w + b.w) / 2)).length;
async function try_graph() {
  found.operators = network().list.length;
  found.folded = network().folded;
  found.boxes = graph.items.length;
  const views = [];
  const visit = (group) => {
    open_group(group);
    views.push({name: group.name, boxes: graph.items.filter((i) => !i.port).length, crossings: crossings(), overlaps: overlaps(), upward: graph.edges.filter((e) => e.target.layer <= e.source.layer).length});
    for (const c of group.children) if (c.group && views.length < 12) visit(c);
  };
  visit(network().root);
  open_group(network().root);
  if (found.operators <= 1500) {
    document.getElementById("flat").click();
    views.push({name: "all", boxes: graph.items.length, crossings: crossings(), overlaps: overlaps()});
    found.flat = graph.items.length;
    document.getElementById("flat").click();
  }
  found.views = views;
  found.blocks = network().root.children.filter((c) => c.group).map((c) => c.name);
  found.svg = graph_svg().length > 500 && !new DOMParser().parseFromString(graph_svg(), "image/svg+xml").querySelector("parsererror");
  const node = network().list.find((n) => n.op !== "input");
  show_in_network(node.values[0]);
  found.chosen = document.getElementById("node").textContent;
  document.getElementById("graph").dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true}));
  document.getElementById("zoom-all").click();
}
async function try_page() {
  found.title = document.getElementById("title").textContent;
  found.verdict = document.querySelector("#verdict .head").textContent;
  found.level = document.getElementById("verdict").className;
  found.todo = [...document.querySelectorAll("#verdict li")].map((li) => li.textContent);
  found.tiles = [...document.querySelectorAll(".tile")].map((t) => t.textContent);
  found.warnings = [...document.querySelectorAll("#warnings .warning")].map((w) => w.className + " " + w.textContent);
  found.worst = document.querySelectorAll("#worst-body tbody tr").length;
  found.causes = [...document.querySelectorAll("#worst-body tbody tr")].filter((r) => r.cells.length > 5 && r.cells[5].textContent).length;
  found.quality = document.getElementById("quality").hidden ? null : document.querySelectorAll("#quality-body tbody tr, #quality-body circle").length;
  found.drift = document.getElementById("drift").hidden ? null : [...document.querySelectorAll("#drift-body tbody tr")].map((r) => r.textContent);
  const depth = document.getElementById("depth");
  found.labels = [...depth.querySelectorAll("text")].map((t) => t.textContent);
  depth.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true}));
  found.depth = depth.getAttribute("aria-valuenow") === depth.getAttribute("aria-valuemax") && depth.getAttribute("aria-valuetext");
  document.getElementById("theme").click();
  found.theme = document.documentElement.dataset.theme;
  const worst = document.querySelector("#worst-body .scroll"); /* with the longest cause and remedy */
  if (worst) worst.querySelectorAll("tbody tr").forEach((r) => { r.cells[5].textContent = "outliers far beyond 99 % of the elements"; r.cells[6].textContent = "the pass equalize, or one scale a channel"; });
  found.beyond = worst ? worst.scrollWidth - worst.clientWidth : 0;
  found.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  found.hacked = window.hacked !== undefined;
  found.outside = performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:")).length;
  found.unnamed = [...document.querySelectorAll("button, input, select, a")].filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).length;
}
async function check_access() {
  if (!window.axe) return;
  found.access = [];
  for (const open of [false, true]) {
    if (open) { location.hash = VALUES.find((v) => v.bins).id; await until(() => document.getElementById("value").open); }
    const result = await axe.run(document);
    found.access.push(...result.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0] || n.all[0] || n.none[0] || {}).message).join("; ")));
  }
}
async function run() {
  while (!document.documentElement.dataset.ready) await wait(20);
  const paint = performance.getEntriesByType("paint").find((p) => p.name === "first-contentful-paint");
  found.ready = performance.now();
  found.paint = paint ? paint.startTime : null;
  for (const part of [try_table, try_scrolling, try_value, try_graph, try_page, check_access]) await part();
}
run().catch((error) => found.errors.push(String(error.stack))).finally(() => {
  const text = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
  document.body.append("FOUND" + text + "DNUOF");
});
