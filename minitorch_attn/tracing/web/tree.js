// The list of steps, folded by module: an ARIA tree with one row in the tab order.

const FOLD_ABOVE = 300;

/** Groups and leaves. Consecutive steps in a module form a group; groups nest as modules do. */
function treeOf(recording) {
  const root = { children: [], level: 0 };
  let stack = [];
  let side = null;
  const open = (parent, name, kind, key) => {
    const group = {
      name,
      kind,
      key,
      parent,
      children: [],
      level: parent.level + 1,
      from: Infinity,
      to: -1,
    };
    parent.children.push(group);
    return group;
  };
  recording.steps.forEach((step, at) => {
    const direction = sideOf(step);
    if (!side || side.name !== direction) {
      side = open(root, direction, "pass", null);
      stack = [];
    }
    const chain = recording.chain(step.module);
    let common = 0;
    while (common < stack.length && common < chain.length && stack[common].key === chain[common].id)
      common++;
    stack.length = common;
    for (const module of chain.slice(common)) {
      const parent = stack.length ? stack[stack.length - 1] : side;
      stack.push(open(parent, ownName(recording, module), module.class, module.id));
    }
    const parent = stack.length ? stack[stack.length - 1] : side;
    parent.children.push({ at, parent, level: parent.level + 1, from: at, to: at });
  });
  root.children.forEach((child) => tidy(child, 1));
  return root;
}

/** Part of a module's path that is not already in its caller's path. */
function ownName(recording, module) {
  const parent = recording.modules.get(module.parent);
  const prefix = parent && parent.path ? parent.path + "." : "";
  const path = module.path.startsWith(prefix) ? module.path.slice(prefix.length) : module.path;
  return path || module.class;
}

/** Replace a group of one step by this step, named after the module. Set counts and levels. */
function tidy(node, level) {
  node.level = level;
  if (!node.children) return node;
  node.children = node.children.map((child) => tidy(child, level + 1));
  node.from = Math.min(...node.children.map((child) => child.from));
  node.to = Math.max(...node.children.map((child) => child.to));
  node.count = node.children.reduce((sum, child) => sum + (child.count || 1), 0);
  if (node.count > 1 || node.kind === "pass") return node;
  const leaf = node.children[0];
  return {
    ...leaf,
    parent: node.parent,
    level,
    name: leaf.name ? `${node.name}.${leaf.name}` : node.name,
  };
}

class StepTree {
  constructor(recording, root, go) {
    Object.assign(this, { recording, root, go, current: 0, query: "", focused: null });
    this.tree = treeOf(recording);
    this.opened = new Set(); // groups that the reader opened
    this.closed = new Set(); // groups that the reader closed
    this.passing = new Set(); // groups that are open because they contain the current step
    this.folds = recording.steps.length > FOLD_ABOVE;
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("click", (event) => this.click(event));
    this.link(this.tree);
    this.draw();
  }

  /** Set the parents again after tidy() has replaced nodes, and store the leaf of each step. */
  link(node) {
    this.leaves = this.leaves || [];
    for (const child of node.children) {
      child.parent = node;
      if (child.children) this.link(child);
      else this.leaves[child.at] = child;
    }
  }

  isOpen(group) {
    if (this.matches) return true;
    if (this.opened.has(group)) return true;
    if (this.closed.has(group)) return false;
    return this.passing.has(group) || group.kind === "pass" || !this.folds;
  }

  groupsOf(at) {
    const found = [];
    for (let node = this.leaves[at].parent; node && node !== this.tree; node = node.parent)
      found.push(node);
    return found; // innermost first
  }

  /** Mark the new current step, unfold its groups, and fold those of the previous step. */
  show(at) {
    this.current = at;
    this.passing = new Set(this.groupsOf(at));
    this.draw();
    this.reveal(this.rowOf(this.visible(at)));
  }

  /** Scroll only the list, so that a row is visible with some space around it. */
  reveal(row) {
    if (!row) return;
    const [list, place] = [this.root.getBoundingClientRect(), row.getBoundingClientRect()];
    const room = Math.min(80, list.height / 4);
    if (place.top < list.top + room) this.root.scrollTop += place.top - list.top - room;
    else if (place.bottom > list.bottom - room)
      this.root.scrollTop += place.bottom - list.bottom + room;
  }

  /** Row that represents a step: its own row, or the folded group around it. */
  visible(at) {
    const folded = this.groupsOf(at).filter((group) => !this.isOpen(group));
    return folded.length ? folded[folded.length - 1] : this.leaves[at];
  }

  rowOf(node) {
    return this.rows.find((row) => row.node === node);
  }

  draw() {
    const hadFocus = this.root.contains(document.activeElement);
    const focused = hadFocus ? document.activeElement.node : null;
    this.rows = [];
    this.collect(this.tree);
    this.root.replaceChildren(...this.rows);
    const mark = this.rowOf(this.visible(this.current)) || this.rows[0];
    if (mark) mark.tabIndex = 0;
    if (hadFocus) (this.rowOf(focused) || mark || this.root).focus({ preventScroll: true });
  }

  collect(node) {
    const children = this.matches
      ? node.children.filter((child) => this.holdsMatch(child))
      : node.children;
    children.forEach((child, i) => {
      this.rows.push(this.row(child, i + 1, children.length));
      if (child.children && this.isOpen(child)) this.collect(child);
    });
  }

  holdsMatch(node) {
    return this.matches.some((at) => at >= node.from && at <= node.to);
  }

  row(node, place, size) {
    const row = element("div", {
      role: "treeitem",
      tabindex: "-1",
      "aria-level": node.level,
      "aria-posinset": place,
      "aria-setsize": size,
      "aria-selected": String(node === this.visible(this.current)),
      "aria-expanded": node.children ? String(this.isOpen(node)) : null,
      class: node.children ? `group ${node.kind === "pass" ? "pass" : ""}` : "leaf",
    });
    row.style.setProperty("--level", node.level);
    row.node = node;
    if (node.children) this.fillGroup(row, node);
    else this.fillLeaf(row, node);
    return row;
  }

  fillGroup(row, node) {
    row.append(
      element(
        "span",
        { class: "twist", "aria-hidden": "true" },
        this.isOpen(node) ? "\u25be" : "\u25b8",
      ),
      element(
        "span",
        { class: "name" },
        node.kind === "pass" ? node.name[0].toUpperCase() + node.name.slice(1) : node.name,
      ),
      " ",
      node.kind === "pass"
        ? ""
        : element("span", { class: "soft" }, node.kind === node.name ? "" : node.kind),
      " ",
      element("span", { class: "tally" }, count(node.count, "step")),
    );
  }

  fillLeaf(row, node) {
    const step = this.recording.steps[node.at];
    const output = step.kind === "forward" && this.recording.tensor(step.outputs[0]);
    row.append(
      element("span", { class: "number" }, step.id),
      " ",
      element("span", { class: "name" }, step.op),
      " ",
      element(
        "span",
        { class: "soft" },
        step.kind === "accumulate"
          ? this.stored(step)
          : (!step.side && node.name) || this.written(step),
      ),
      " ",
      element(
        "span",
        { class: "tally" },
        this.recording.attentionAt.has(node.at)
          ? element("span", { class: "badge" }, "attention")
          : output
            ? output.shape.join("\u00d7")
            : "",
      ),
    );
  }

  /** The expression in the code; for a line of plain code, the whole line. */
  written(step) {
    return step.side ? step.formula : expression(step.source);
  }

  stored(step) {
    const tensor = this.recording.tensor(step.added[0].tensor);
    return tensor ? `${tensor.name}.grad` : "";
  }

  toggle(group, open = !this.isOpen(group)) {
    (open ? this.opened : this.closed).add(group);
    (open ? this.closed : this.opened).delete(group);
    this.draw();
  }

  /** Key f: fold the innermost open group around the current step, or unfold it again. */
  foldCurrent() {
    const shown = this.visible(this.current);
    const group = shown.children ? shown : this.groupsOf(this.current)[0];
    this.toggle(group);
    this.reveal(this.rowOf(this.visible(this.current)));
    return `${group.name} ${this.isOpen(group) ? "unfolded" : "folded"}, ${count(group.count, "step")}.`;
  }

  /** Show only steps that contain the words. Return their positions, or null without a query. */
  search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const holds = (at) => words.every((word) => this.text(at).includes(word));
    this.matches = words.length ? this.recording.steps.map((_, at) => at).filter(holds) : null;
    this.draw();
    return this.matches;
  }

  text(at) {
    this.texts = this.texts || [];
    if (!this.texts[at]) {
      const step = this.recording.steps[at];
      const ids = [...(step.inputs || []), ...(step.outputs || [])].filter(
        (id) => typeof id === "number",
      );
      const names = ids.map((id) => this.recording.tensor(id).name);
      const source = step.source ? `${step.source.file}:${step.source.line}` : "";
      const where = [this.recording.path(step), source, this.written(step)];
      this.texts[at] = [step.id, step.op, step.kind, ...where, ...names].join(" ").toLowerCase();
    }
    return this.texts[at];
  }

  click(event) {
    const row = event.target.closest("[role=treeitem]");
    if (!row) return;
    row.focus({ preventScroll: true });
    if (row.node.children) this.toggle(row.node);
    else this.go(row.node.at);
  }

  /** Up and Down move. Left and Right fold and unfold groups; on a step, they move by one step. */
  key(event) {
    const row = event.target.closest("[role=treeitem]");
    if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
    const { node } = row;
    const at = this.rows.indexOf(row);
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1 };
    if (event.key in moves) this.focusRow(this.rows[moves[event.key]]);
    else if (event.key === "Enter" || event.key === " ") row.click();
    else if (node.children && event.key === "ArrowRight") {
      if (this.isOpen(node)) this.focusRow(this.rows[at + 1]);
      else this.toggle(node, true);
    } else if (node.children && event.key === "ArrowLeft") {
      if (this.isOpen(node)) this.toggle(node, false);
      else this.focusRow(this.rowOf(node.parent));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  focusRow(row) {
    if (!row) return;
    for (const other of this.rows) other.tabIndex = -1;
    row.tabIndex = 0;
    row.focus({ preventScroll: true });
    this.reveal(row);
    if (!row.node.children) this.go(row.node.at);
  }

  focusCurrent() {
    const row = this.rowOf(this.visible(this.current));
    if (row) row.focus({ preventScroll: true });
  }
}
