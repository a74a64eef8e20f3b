// Attention weights: every head in every sequence, with mask, row sums and entropies.

const MOST_TILES = 48;

/** Weights of one attention entry as (batch, heads, query, key), with the mask. */
class Weights {
  constructor(recording, entry) {
    this.entry = entry;
    this.tensor = recording.tensor(entry.weights);
    this.values = recording.values(this.tensor);
    this.steps = gridSteps(this.tensor);
    const shape = this.tensor.shape.map((size, axis) => Math.ceil(size / this.steps[axis]));
    for (; shape.length < 4; shape.unshift(1)) this.steps = [1, ...this.steps];
    this.shape = shape;
    [this.heads, this.queries, this.keys] = shape.slice(-3);
    this.batch = shape.slice(0, -3).reduce((product, size) => product * size, 1);
    this.mask =
      entry.mask === null || entry.mask === undefined ? null : recording.tensor(entry.mask);
    this.maskValues = this.mask && recording.values(this.mask);
    this.maskSteps = this.mask && gridSteps(this.mask);
    this.sampled = this.steps.some((step) => step > 1);
    this.sampledKeys = this.steps.at(-1) > 1;
  }

  start(batch, head) {
    return (batch * this.heads + head) * this.queries * this.keys;
  }

  value(batch, head, query, key) {
    return this.values[this.start(batch, head) + query * this.keys + key];
  }

  /** True if the mask (which broadcasts) is 0 for this pair, or if its regions differ. */
  blocked(batch, head, query, key) {
    const place = [...this.lead(batch), head, query, key].map(
      (index, axis) => index * this.steps[axis],
    );
    if (this.windows && this.windows.apart(this.batchNumber(batch), ...place.slice(-2)))
      return true;
    if (!this.maskValues) return false;
    const offset = place.length - this.mask.shape.length;
    let flat = 0;
    for (let axis = 0; axis < this.mask.shape.length; axis++) {
      const at = this.mask.shape[axis] === 1 ? 0 : place[axis + offset] / this.maskSteps[axis];
      if (!Number.isInteger(at)) return false; // this mask position was not kept
      flat = flat * Math.ceil(this.mask.shape[axis] / this.maskSteps[axis]) + at;
    }
    return this.maskValues[flat] === 0;
  }

  /** Index along each axis before the heads, for the batch-th kept sequence or window. */
  lead(batch) {
    const sizes = this.shape.slice(0, -3);
    return sizes.map(
      (size, axis) => Math.floor(batch / sizes.slice(axis + 1).reduce((a, b) => a * b, 1)) % size,
    );
  }

  /** Number among all sequences or windows, including those that were not kept. */
  batchNumber(batch) {
    const sizes = [
      ...Array(this.shape.length - this.tensor.shape.length).fill(1),
      ...this.tensor.shape,
    ];
    return this.lead(batch).reduce(
      (sum, index, axis) => sum * sizes[axis] + index * this.steps[axis],
      0,
    );
  }

  row(batch, head, query) {
    const from = this.start(batch, head) + query * this.keys;
    return this.values.subarray(from, from + this.keys);
  }

  max(batch = null, head = null) {
    const part =
      batch === null
        ? this.values
        : this.values.subarray(
            this.start(batch, head),
            this.start(batch, head) + this.queries * this.keys,
          );
    return part.reduce((a, b) => Math.max(a, b), 0);
  }

  /** Mean entropy of a head's rows, in bits. */
  meanEntropy(batch, head) {
    let total = 0;
    for (let query = 0; query < this.queries; query++)
      total += entropy(this.row(batch, head, query));
    return total / this.queries;
  }

  /** "2 sequences, 4 heads, 16 queries by 16 keys."; for a sample, also its extent. */
  extent() {
    const [batches, own] = [this.tensor.shape.slice(0, -3), this.tensor.shape.slice(-3)];
    const sizes = [batches.reduce((a, b) => a * b, 1), ...Array(3 - own.length).fill(1), ...own];
    const names = [
      [this.entry.windows ? "window" : "sequence"],
      ["head"],
      ["query", "queries"],
      ["key"],
    ];
    const part = ([one, many], axis) => count(sizes[axis], one, many);
    const step = ([one, many], axis) =>
      this.steps.at(axis - 4) > 1 ? [`every ${this.steps.at(axis - 4)}th ${one}`] : [];
    return `${names.map(part).join(", ")}.${this.sampled ? ` Shown: ${names.flatMap(step).join(", ")}.` : ""} `;
  }

  /** Sentence about row sums, computed from the values kept in the file. */
  sums() {
    if (this.sampledKeys) return "The keys shown are a sample, so row sums cannot be checked here.";
    let [worst, empty] = [0, 0];
    const rows = this.batch * this.heads * this.queries;
    for (let row = 0; row < rows; row++) {
      const sum = total(this.values.subarray(row * this.keys, (row + 1) * this.keys));
      if (sum === 0) empty++;
      else worst = Math.max(worst, Math.abs(sum - 1));
    }
    const good = worst < 1e-3; // the file keeps 4 to 5 digits of each value
    const all = empty
      ? `${rows - empty} of ${rows} rows`
      : `All ${rows} rows${this.sampled ? " shown" : ""}`;
    return (
      (good
        ? `${all} sum to 1 within rounding (largest difference ${number(worst, 2)}).`
        : `Rows do not all sum to 1: the largest difference is ${number(worst, 3)}.`) +
      (empty ? ` ${count(empty, "row")} of zeros: these queries cannot attend to any key.` : "")
    );
  }
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

function entropy(weights) {
  return weights.reduce((sum, weight) => sum - (weight > 0 ? weight * Math.log2(weight) : 0), 0);
}

function attentionView(recording, entry) {
  const weights = new Weights(recording, entry);
  const module = recording.modules.get(entry.module);
  const name = module ? module.path || module.class : "attention";
  const head = element("h3", {}, "Attention weights of ", element("code", {}, name));
  if (!weights.values)
    return element(
      "section",
      { class: "attention" },
      head,
      element("p", { class: "soft" }, "The weights were not kept in this file."),
    );
  const state = { batch: 0, head: 0, own: false };
  const tiles = element("div", { class: "tiles" });
  const detail = element("div", { class: "detail" });
  const windows = entry.windows
    ? new WindowsView(recording, entry, weights, (wanted) => selectWindow(wanted))
    : null;
  weights.windows = windows;
  const selectWindow = (wanted) => {
    const kept = Array.from({ length: weights.batch }, (_, batch) =>
      weights.batchNumber(batch),
    ).indexOf(wanted);
    if (kept < 0) announce(`Window ${wanted} was not kept in this file.`);
    else select(kept, state.head);
  };
  const select = (batch, headIndex) => {
    Object.assign(state, { batch, head: headIndex });
    drawTiles(weights, state, tiles, select);
    detail.replaceChildren(headDetail(weights, state, batchName(weights, batch)));
    if (windows) windows.show(weights.batchNumber(batch));
    if (detail.isConnected) redrawAll();
  };
  const own = element("input", {
    type: "checkbox",
    onchange: () => {
      state.own = own.checked;
      select(state.batch, state.head);
    },
  });
  const section = element(
    "section",
    { class: "attention", "aria-label": `Attention weights of ${name}` },
    head,
    element(
      "p",
      {},
      weights.extent(),
      weights.sums(),
      weights.mask || (windows && windows.shifted) ? " Hatched cells are masked." : "",
    ),
    element(
      "div",
      { class: "scale" },
      scaleLegend(weights.max(), 0),
      element("label", {}, own, " own scale for each head"),
    ),
    tiles,
    detail,
    windows ? windows.root : null,
  );
  select(windows && windows.shifted ? Math.min(windows.count, weights.batch) - 1 : 0, 0); // the last window has the most regions
  return section;
}

function batchName(weights, batch) {
  const { windows } = weights.entry;
  batch = weights.batchNumber(batch);
  if (!windows) return `sequence ${batch}`;
  const perImage = windows.grid[0] * windows.grid[1];
  const image = Math.floor(batch / perImage);
  return (
    (weights.tensor.shape.slice(0, -3).reduce((a, b) => a * b, 1) > perImage
      ? `image ${image}, `
      : "") + `window ${batch % perImage}`
  );
}

/** Grid of small maps. If there are many sequences, a slider selects one. */
function drawTiles(weights, state, root, select) {
  const focused = root.contains(document.activeElement)
    ? document.activeElement.dataset.place
    : null;
  const all = weights.batch * weights.heads <= MOST_TILES;
  const batches = all ? Array.from({ length: weights.batch }, (_, i) => i) : [state.batch];
  const rows = batches.map((batch) =>
    element(
      "div",
      { class: "tile-row", role: "group", "aria-label": batchName(weights, batch) },
      element("span", { class: "soft tile-name" }, batchName(weights, batch)),
      Array.from({ length: weights.heads }, (_, head) => tile(weights, state, batch, head, select)),
    ),
  );
  root.replaceChildren(...(all ? [] : [batchSlider(weights, state, select)]), ...rows);
  const again = focused && root.querySelector(`[data-place="${focused}"]`);
  if (again) again.focus({ preventScroll: true });
}

function batchSlider(weights, state, select) {
  const input = element("input", {
    type: "range",
    min: 0,
    max: weights.batch - 1,
    value: state.batch,
    "data-place": "slider",
    "aria-label": "sequence or window",
    oninput: () => select(Number(input.value), state.head),
  });
  return element(
    "label",
    { class: "slider" },
    element("span", {}, batchName(weights, state.batch)),
    input,
    element("output", {}, `${state.batch} (0\u2013${weights.batch - 1})`),
  );
}

function tile(weights, state, batch, head, select) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const bits = weights.sampledKeys ? "" : `${weights.meanEntropy(batch, head).toFixed(2)} bits`;
  const bound = state.own ? weights.max(batch, head) : weights.max();
  redrawn.add({ root: canvas, draw: () => paintTile(canvas, weights, batch, head, bound) });
  return element(
    "button",
    {
      type: "button",
      class: "tile",
      "aria-pressed": String(batch === state.batch && head === state.head),
      "data-place": `${batch}:${head}`,
      onclick: () => select(batch, head),
      "aria-label": `${batchName(weights, batch)}, head ${head}, ${bits && `mean entropy ${bits}`}`,
    },
    canvas,
    element("span", {}, `head ${head}`),
    element("span", { class: "soft" }, bits),
  );
}

function paintTile(canvas, weights, batch, head, bound) {
  const cell = Math.max(Math.min(Math.floor(92 / Math.max(weights.queries, weights.keys)), 12), 1);
  const context = sizedContext(canvas, cell * weights.keys, cell * weights.queries);
  const boxes = [];
  for (let query = 0; query < weights.queries; query++) {
    for (let key = 0; key < weights.keys; key++) {
      context.fillStyle = rgb(shade(rootShare(weights.value(batch, head, query, key), bound)));
      context.fillRect(key * cell, query * cell, cell, cell);
      if (weights.blocked(batch, head, query, key))
        boxes.push([key * cell, query * cell, cell, cell]);
    }
  }
  hatch(context, boxes, ink("--hatch"), 5);
}

/** One head in full, with labels and the sum and entropy of each row. */
function headDetail(weights, state, place) {
  const { batch, head } = state;
  const { entry } = weights;
  const from = weights.start(batch, head);
  const [rowSteps, colSteps] = weights.steps.slice(-2);
  const labels = (names, size, step) =>
    names &&
    Array.from({ length: size }, (_, i) => visibleText(names[i * step] ?? String(i * step)));
  const pick = (names) => (names && Array.isArray(names[0]) ? names[batch] : names);
  const map = new HeatMap({
    label: `attention weights, ${place}, head ${head}`,
    largestCell: 34,
    tallest: 560,
    values: weights.values.subarray(from, from + weights.queries * weights.keys),
    shape: [weights.queries, weights.keys],
    steps: [rowSteps, colSteps],
    bound: state.own ? weights.max(batch, head) : weights.max(),
    rowName: "query",
    colName: "key",
    rowLabels: labels(pick(entry.query_labels), weights.queries, rowSteps),
    colLabels: labels(pick(entry.key_labels), weights.keys, colSteps),
    blocked:
      weights.mask || weights.windows ? (row, col) => weights.blocked(batch, head, row, col) : null,
    notes: weights.sampledKeys
      ? null
      : () => [
          { name: "sum", texts: rowTexts(weights, batch, head, (row) => total(row).toFixed(3)) },
          {
            name: "entropy, bits",
            texts: rowTexts(weights, batch, head, (row) => entropy(row).toFixed(2)),
          },
        ],
  });
  return element(
    "div",
    {},
    element(
      "h4",
      {},
      `${place}, head ${head}`,
      element("span", { class: "soft" }, "  rows are queries, columns are keys"),
    ),
    map.root,
  );
}

/** Replace spaces and line ends by visible marks. */
function visibleText(token) {
  return String(token).replaceAll(" ", "\u2423").replaceAll("\n", "\u21b5") || "\u2205";
}

function rowTexts(weights, batch, head, text) {
  return Array.from({ length: weights.queries }, (_, query) =>
    text(weights.row(batch, head, query)),
  );
}
