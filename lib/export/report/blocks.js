/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the network's nodes, in blocks ---- */

const PRODUCTS = /^(Conv|ConvTranspose|Gemm|MatMul|QLinearConv|QLinearMatMul|ConvInteger|MatMulInteger|MatMulNBits|nn\..*(conv|dense|matmul).*)$/;
const BLOCKS_FROM = 40, MOST_CHILDREN = 40;

/* Nodes: inputs and operators, in the order of IDs; values that one node computes share it. */
function find_nodes() {
  const nodes = new Map(), node_of = new Map();
  let folded = 0;
  for (const v of VALUES) {
    if (v.kind === "weight" || (!v.op && v.kind !== "input")) continue;
    if (is_folded(v)) { folded++; continue; }
    const key = v.op && v.node ? "n:" + (v.path || "") + ":" + v.node + ":" + v.op : v.id;
    if (!nodes.has(key)) nodes.set(key, {values: [], op: v.op || "input", name: v.node || v.name || v.id, in: new Set(), out: new Set()});
    nodes.get(key).values.push(v);
    node_of.set(v.id, nodes.get(key));
  }
  const list = [...nodes.values()];
  list.forEach((n, i) => { n.at = i; });
  for (const n of list)
    for (const v of n.values)
      for (const id of v.from) {
        const source = node_of.get(id);
        if (source && source !== n) { n.in.add(source); source.out.add(n); }
      }
  return {list, node_of, folded};
}

const group_of = (name, children) => ({name, children, group: true});
const leaves = (item) => (item.group ? item.children.flatMap(leaves) : [item]);

/* Scopes are the parts of nodes' names between slashes, dots and double colons. */
function scope_of(node) {
  return node.name.split(/\/|::|\./).filter(Boolean).slice(0, -1);
}
function by_scope(nodes, depth) {
  const children = [], scopes = new Map();
  for (const n of nodes) {
    const name = n.scope[depth];
    if (name === undefined) children.push(n);
    else if (scopes.has(name)) scopes.get(name).nodes.push(n);
    else { scopes.set(name, {nodes: [n]}); children.push(scopes.get(name)); }
  }
  const made = children.flatMap((c) => {
    if (!c.nodes) return [c];
    if (c.nodes.length <= 3) return c.nodes;
    const name = c.nodes[0].scope[depth], inner = by_scope(c.nodes, depth + 1), only = inner.length === 1 && inner[0].group && inner[0];
    for (const i of inner) if (i.group && /^\d+$/.test(i.name)) i.name = name + "." + i.name; /* as in layer.0 */
    return [only ? group_of(only.name.startsWith(name) ? only.name : name + "/" + only.name, only.children) : group_of(name, inner)];
  });
  return made;
}
/* Instead of a block that holds most of the operators, what is in it: the first view tells more. */
function open_largest(items) {
  const sizes = items.map((i) => leaves(i).length), all = sizes.reduce((a, b) => a + b, 0);
  const at = sizes.findIndex((n, i) => items[i].group && 2 * n > all);
  if (at < 0 || items.length - 1 + items[at].children.length > MOST_CHILDREN) return items;
  return open_largest([...items.slice(0, at), ...items[at].children, ...items.slice(at + 1)]);
}

/* Consecutive items between places that only one value passes (those that reach far, as masks do, not counted);
 * forks begin blocks, and so do products. */
function by_structure(items) {
  const at = new Map(), crossing = new Array(items.length + 1).fill(0), far = Math.max(20, items.length / 4);
  items.forEach((item, i) => { for (const n of leaves(item)) at.set(n, i); });
  for (const [n, from] of at) {
    const to = Math.max(...[...n.out].map((t) => at.get(t) ?? items.length), from);
    if (n.op === "input" || to - from > far) continue;
    crossing[from]++;
    crossing[to]--;
  }
  const parts = [];
  let part = [], alive = 0;
  items.forEach((item, i) => {
    part.push(item);
    alive += crossing[i];
    if (alive <= 1) { parts.push(part); part = []; }
  });
  if (part.length) parts.push(part);
  const blocks = [];
  let has_product = false;
  for (const p of parts) {
    const product = p.length === 1 && PRODUCTS.test(p[0].op || "");
    if (!blocks.length || p.length > 1 || (product && has_product)) { blocks.push([]); has_product = p.length > 1; }
    has_product = has_product || product;
    blocks[blocks.length - 1].push(...p);
  }
  return blocks;
}
/* No more than MOST_CHILDREN items: consecutive ones are put together, by structure first. */
function in_blocks(items, name) {
  if (items.length <= MOST_CHILDREN) return items;
  let blocks = by_structure(items);
  if (blocks.length < 3) blocks = items.map((item) => [item]);
  const made = blocks.map((b, i) => (b.length === 1 ? b[0] : group_of(name + " " + (i + 1), in_chunks(b, "part"))));
  return in_chunks(made, name + "s");
}
function in_chunks(items, name) {
  while (items.length > MOST_CHILDREN) {
    const size = Math.max(2, Math.min(20, Math.ceil(items.length / 20))), made = [];
    for (let i = 0; i < items.length; i += size)
      made.push(group_of(name + " " + (i + 1) + "\u2013" + Math.min(i + size, items.length), items.slice(i, i + size)));
    items = made;
  }
  return items;
}
function tree_of(nodes) {
  if (nodes.length <= BLOCKS_FROM) return group_of("model", nodes);
  for (const n of nodes) n.scope = scope_of(n);
  const inner = nodes.filter((n) => n.op !== "input");
  while (inner.every((n) => n.scope.length && n.scope[0] === inner[0].scope[0])) inner.forEach((n) => n.scope.shift());
  const scoped = inner.filter((n) => n.scope.length).length * 2 >= inner.length;
  const narrow = (item) => {
    if (item.group) item.children = in_blocks(item.children.map(narrow), "block");
    return item;
  };
  return narrow(group_of("model", scoped ? open_largest(by_scope(nodes, 0)) : nodes));
}
function set_parents(group) {
  for (const c of group.children) {
    c.parent = group;
    if (c.group) set_parents(c);
  }
}
let NETWORK;
function network() {
  if (!NETWORK) {
    NETWORK = find_nodes();
    NETWORK.root = tree_of(NETWORK.list);
    set_parents(NETWORK.root);
  }
  return NETWORK;
}
/* The child of `group` that an item lies in; null: it is outside. */
function child_in(group, item) {
  while (item && item.parent !== group) item = item.parent;
  return item || null;
}
const path_of = (item) => (item.parent ? [...path_of(item.parent), item] : [item]);
