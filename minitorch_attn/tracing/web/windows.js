// Swin's windows: the map before and after the roll, its regions, which tokens may attend to which,
// and the index into the bias table for each pair of tokens.

const LARGEST_NUMBERED = 20; // maximum number of columns in a map whose tokens show their numbers

class WindowsView {
  constructor(recording, entry, weights, select) {
    Object.assign(this, { entry, weights, select });
    const { grid, size, shift } = entry.windows;
    this.height = grid[0] * size[0];
    this.width = grid[1] * size[1];
    this.shift = shift || [0, 0];
    const regions = entry.windows.regions;
    const kept = regions === null || regions === undefined ? null : recording.tensor(regions);
    this.regions = kept && recording.values(kept);
    this.regionsByWindow = Boolean(kept) && kept.shape[kept.shape.length - 1] !== this.width;
    this.shifted = this.shift.some(Boolean);
    this.count = grid[0] * grid[1];
    this.root = element("section", { class: "windows", "aria-label": "Windows" });
  }

  windowAt(row, col) {
    const { grid, size } = this.entry.windows;
    return Math.floor(row / size[0]) * grid[1] + Math.floor(col / size[1]);
  }

  /** Position before the roll of the token at a position in the rolled map. */
  origin(row, col) {
    return [(row + this.shift[0]) % this.height, (col + this.shift[1]) % this.width];
  }

  /** Position in the rolled map of a token in the original map. */
  landing(row, col) {
    return [
      (row - this.shift[0] + this.height) % this.height,
      (col - this.shift[1] + this.width) % this.width,
    ];
  }

  /** Region at a position in the rolled map. Regions are stored as a map or by (window, token). */
  region(row, col) {
    if (!this.regionsByWindow) return this.regions[row * this.width + col];
    const [high, wide] = this.entry.windows.size;
    return this.regions[this.windowAt(row, col) * high * wide + (row % high) * wide + (col % wide)];
  }

  /** True if two tokens in a window belong to different regions. */
  apart(batch, query, key) {
    if (!this.shifted || !this.regions) return false;
    const places = this.places(batch % this.count);
    return this.region(...places[query]) !== this.region(...places[key]);
  }

  show(batch) {
    const { size } = this.entry.windows;
    this.batch = batch;
    this.window = batch % this.count;
    const cutWindows = { rows: size[0], cols: size[1] };
    const number = (row, col) => row * this.width + col;
    const intro =
      `A map of ${this.height} by ${this.width} tokens in windows of ${size.join(" by ")}` +
      (this.shifted
        ? `, rolled by ${this.shift
            .map((by) => -by)
            .join(", ")
            .replaceAll("-", MINUS)} first.`
        : ", not shifted.") +
      " Attention stays inside a window. The selected window is outlined; click a window to select it.";
    const maps = [
      this.map(
        "Before the roll: the window to which each token moves",
        (row, col) => this.windowAt(...this.landing(row, col)),
        number,
        (row, col) => this.windowAt(...this.landing(row, col)),
        null,
      ),
    ];
    if (this.shifted) {
      maps.push(
        this.map(
          "After the roll: the same tokens, now in whole windows",
          (row, col) => this.windowAt(row, col),
          (row, col) => number(...this.origin(row, col)),
          (row, col) => this.windowAt(row, col),
          cutWindows,
        ),
      );
      if (this.regions)
        maps.push(
          this.map(
            "Regions: tokens that were neighbours before the roll",
            (row, col) => this.region(row, col),
            (row, col) => this.region(row, col),
            (row, col) => this.windowAt(row, col),
            cutWindows,
          ),
        );
    }
    this.root.replaceChildren(
      element("h4", {}, this.shifted ? "Shifted windows" : "Windows"),
      element("p", {}, intro),
      element("div", { class: "maps" }, maps),
      element("div", { class: "maps" }, this.maskMap(), this.indexMap()),
    );
  }

  /** Map of tokens with colours, patterns and numbers by group, and lines between windows. */
  map(title, group, label, windowOf, cut) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const draw = () => this.paintMap(canvas, { group, label, windowOf, cut });
    redrawn.add({ root: canvas, draw });
    canvas.addEventListener("click", (event) => {
      const cell = canvas.clientWidth / this.width;
      const row = Math.min(Math.floor(event.offsetY / cell), this.height - 1);
      const col = Math.min(Math.floor(event.offsetX / cell), this.width - 1);
      const image = Math.floor(this.batch / this.count);
      this.select(image * this.count + windowOf(row, col));
    });
    const table = element("div", {
      class: "table-frame",
      tabindex: "0",
      role: "region",
      "aria-label": `Table: ${title}`,
    });
    const details = element(
      "details",
      {
        ontoggle: () => {
          if (details.open && !table.firstChild) table.append(this.mapTable(title, group));
        },
      },
      element("summary", {}, "As table"),
      table,
    );
    return element("figure", { class: "map" }, element("figcaption", {}, title), canvas, details);
  }

  mapTable(title, group) {
    const cells = (row) =>
      Array.from({ length: this.width }, (_, col) => element("td", {}, String(group(row, col))));
    return element(
      "table",
      {},
      element("caption", {}, title),
      element(
        "tbody",
        {},
        Array.from({ length: this.height }, (_, row) =>
          element("tr", {}, element("th", { scope: "row" }, String(row)), cells(row)),
        ),
      ),
    );
  }

  paintMap(canvas, { group, label, windowOf, cut }) {
    const cell = Math.max(Math.min(Math.floor(250 / this.width), 30), 3);
    const context = sizedContext(canvas, cell * this.width + 2, cell * this.height + 2);
    context.translate(1, 1);
    const numbered = this.width <= LARGEST_NUMBERED && cell >= 12;
    for (let row = 0; row < this.height; row++) {
      for (let col = 0; col < this.width; col++) {
        const name = group(row, col);
        context.fillStyle = GROUPS[name % GROUPS.length];
        context.globalAlpha = 0.55;
        context.fillRect(col * cell, row * cell, cell, cell);
        context.globalAlpha = 1;
        this.pattern(context, name, [col * cell, row * cell, cell, cell]);
        if (numbered)
          this.print(context, label(row, col), (col + 0.5) * cell, (row + 0.5) * cell, cell);
      }
    }
    this.borders(context, cell, (row, col) => group(row, col), 1, ink("--soft"));
    if (cut) this.borders(context, cell, windowOf, 2, ink("--text"));
    this.borders(
      context,
      cell,
      (row, col) => windowOf(row, col) === this.window,
      3.5,
      ink("--focus"),
    );
  }

  print(context, text, x, y, cell) {
    context.font = `${Math.min(11, cell * 0.5)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = ink("--text");
    context.fillText(text, x, y);
  }

  /** Hatching that also distinguishes groups: none, one direction, the other, or both. */
  pattern(context, name, box) {
    const kind = name % 4;
    if (kind & 1) hatch(context, [box], ink("--pattern"), 6, 1);
    if (kind & 2) hatch(context, [box], ink("--pattern"), 6, -1);
  }

  /** Draw a line wherever two neighbours differ. */
  borders(context, cell, group, width, colour) {
    context.beginPath();
    for (let row = 0; row < this.height; row++) {
      for (let col = 0; col < this.width; col++) {
        if (col + 1 < this.width && group(row, col) !== group(row, col + 1)) {
          context.moveTo((col + 1) * cell, row * cell);
          context.lineTo((col + 1) * cell, (row + 1) * cell);
        }
        if (row + 1 < this.height && group(row, col) !== group(row + 1, col)) {
          context.moveTo(col * cell, (row + 1) * cell);
          context.lineTo((col + 1) * cell, (row + 1) * cell);
        }
      }
    }
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  /** Positions of a window's tokens in the rolled map. */
  places(window) {
    this.known ||= new Map();
    if (!this.known.has(window)) this.known.set(window, this.placesOf(window));
    return this.known.get(window);
  }

  placesOf(window) {
    const { grid, size } = this.entry.windows;
    const [top, left] = [Math.floor(window / grid[1]) * size[0], (window % grid[1]) * size[1]];
    return Array.from({ length: size[0] * size[1] }, (_, i) => [
      top + Math.floor(i / size[1]),
      left + (i % size[1]),
    ]);
  }

  /** Show which tokens may attend to which in the chosen window: those of the same region. */
  maskMap() {
    if (!this.shifted || !this.regions) return null;
    const regions = this.places(this.window).map(([row, col]) => this.region(row, col));
    const tokens = regions.length;
    const values = Float64Array.from({ length: tokens * tokens }, (_, i) =>
      regions[Math.floor(i / tokens)] === regions[i % tokens] ? 1 : 0,
    );
    const names = regions.map((region, i) => `${i} r${region}`);
    const map = new HeatMap({
      label: `mask of window ${this.window}: 1 where both tokens are in the same region`,
      values,
      shape: [tokens, tokens],
      steps: [1, 1],
      linear: true,
      bound: 4,
      rowLabels: names,
      colLabels: names,
      rowName: "query",
      colName: "key",
      largestCell: 22,
      tallest: 400,
      blocked: (row, col) => regions[row] !== regions[col],
    });
    return element(
      "figure",
      { class: "map wide" },
      element(
        "figcaption",
        {},
        `Mask of window ${this.window}: hatched pairs are in different regions (r) and may not attend to each other`,
      ),
      map.root,
    );
  }

  /** Show which entry of the bias table each pair of tokens uses. */
  indexMap() {
    const [high, wide] = this.entry.windows.size;
    const tokens = high * wide;
    if (tokens > 64) return null;
    const values = Float64Array.from({ length: tokens * tokens }, (_, i) => {
      const [query, key] = [Math.floor(i / tokens), i % tokens];
      const down = Math.floor(query / wide) - Math.floor(key / wide) + high - 1;
      const along = (query % wide) - (key % wide) + wide - 1;
      return down * (2 * wide - 1) + along;
    });
    const map = new HeatMap({
      label: "relative position index",
      values,
      shape: [tokens, tokens],
      steps: [1, 1],
      linear: true,
      bound: 1.5 * (2 * high - 1) * (2 * wide - 1),
      rowName: "query",
      colName: "key",
      largestCell: 25,
      tallest: 560,
    });
    return element(
      "figure",
      { class: "map wide" },
      element(
        "figcaption",
        {},
        `Relative position index: the entry that a pair reads from the table of ${(2 * high - 1) * (2 * wide - 1)} biases`,
      ),
      map.root,
    );
  }
}
