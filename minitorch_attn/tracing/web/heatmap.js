// Heat map of an array's last two axes, with sliders for the axes before them.

const LABEL_FONT = "11px system-ui, sans-serif";
const chosen = new Map(); // "axis:size" -> index, the same slice for all arrays of a step

/**
 * options: label, values, shape, steps (of the sample along each axis), bound; and as needed
 * rowName, colName, rowLabels, colLabels,
 * blocked(row, col, lead) -> bool, notes(lead) -> [{name, texts}] beside the rows,
 * largestCell, tallest: sizes in pixels; linear: proportional colours, not square root.
 */
class HeatMap {
  constructor(options) {
    Object.assign(
      this,
      { largestCell: 40, tallest: 380, rowLabels: null, colLabels: null },
      options,
    );
    const shape = this.shape;
    [this.rowStep, this.colStep] = [1, 1, ...this.steps].slice(-2);
    this.cols = shape.length ? shape[shape.length - 1] : 1;
    this.rows = shape.length > 1 ? shape[shape.length - 2] : 1;
    this.leading = shape.slice(0, -2);
    this.cell = null; // [row, column] under the pointer or the keyboard cursor
    this.build();
    redrawn.add(this);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.frame);
  }

  build() {
    this.canvas = element("canvas", {});
    this.marker = element("div", { class: "marker", hidden: true });
    this.plot = element(
      "div",
      {
        class: "plot",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "heat map",
        "aria-label": `${this.label}. Arrow keys read the values; the button below shows a table.`,
        onkeydown: (event) => this.key(event),
        onblur: () => this.point(null),
        onpointermove: (event) => this.point(this.cellAt(event)),
        onpointerdown: (event) => {
          event.preventDefault();
          this.point(this.cellAt(event));
        },
        onpointerleave: () => this.point(null),
        onfocus: () => {
          if (this.plot.matches(":focus-visible")) this.point(this.cell || [0, 0]);
        },
      },
      this.canvas,
      this.marker,
    );
    this.frame = element("div", { class: "frame" }, this.plot);
    this.readout = element("p", { class: "readout", "aria-hidden": "true" }, "\u00a0");
    this.sliders = element(
      "div",
      { class: "sliders" },
      this.leading.map((size, axis) => (size > 1 ? this.slider(size, axis) : "")),
    );
    this.table = element("div", { class: "table-frame", hidden: true });
    this.button = element(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-expanded": "false",
        onclick: () => this.toggleTable(),
        "aria-label": `Show as table: ${this.label}`,
      },
      "Show as table",
    );
    this.root = element(
      "div",
      { class: "heatmap" },
      this.sliders,
      this.frame,
      element("div", { class: "under" }, this.readout, this.button),
      this.table,
    );
  }

  slider(size, axis) {
    const key = `${axis}:${size}`;
    const name = (this.axisNames && this.axisNames[axis]) || `axis ${axis}`;
    const shown = element("output", {}, this.sliceText(chosen.get(key) || 0, size, axis));
    const input = element("input", {
      type: "range",
      min: 0,
      max: size - 1,
      value: chosen.get(key) || 0,
      disabled: size === 1,
      "aria-label": `${name} of ${this.label}`,
      "data-slice": key,
      "data-axis": axis,
      oninput: () => {
        chosen.set(key, Number(input.value));
        for (const map of redrawn) if (map instanceof HeatMap) map.follow(key);
      },
    });
    return element("label", { class: "slider" }, element("span", {}, name), input, shown);
  }

  sliceText(index, size, axis) {
    const step = this.steps[axis];
    return `${index * step} (0\u2013${(size - 1) * step})`;
  }

  /** Show the same slice after another heat map's slider has moved. */
  follow(key) {
    const input = [...this.sliders.querySelectorAll("input")].find(
      (one) => one.dataset.slice === key,
    );
    if (!input) return;
    input.value = chosen.get(key);
    input.nextSibling.textContent = this.sliceText(
      Number(input.value),
      Number(input.max) + 1,
      input.dataset.axis,
    );
    this.draw();
    if (!this.table.hidden) this.fillTable();
  }

  lead() {
    return this.leading.map((size, axis) => Math.min(chosen.get(`${axis}:${size}`) || 0, size - 1));
  }

  start() {
    const lead = this.lead();
    return (
      this.leading.reduce((sum, size, axis) => sum * size + lead[axis], 0) * this.rows * this.cols
    );
  }

  value(row, col) {
    return this.values[this.start() + row * this.cols + col];
  }

  /** Compute sizes of cells and margins for the available width. */
  measure() {
    const context = this.canvas.getContext("2d");
    context.font = LABEL_FONT;
    const widest = (texts) => Math.max(0, ...texts.map((text) => context.measureText(text).width));
    const rowTexts = this.rowLabels || [String((this.rows - 1) * this.rowStep)];
    this.notesShown = this.notes && this.tallest / this.rows >= 11 ? this.notes(this.lead()) : [];
    this.noteWidths = this.notesShown.map(
      (note) => Math.ceil(widest([note.name, ...note.texts])) + 14,
    );
    this.left = this.rows > 1 ? Math.min(Math.ceil(widest(rowTexts)) + 8, 90) : 2;
    const right = this.noteWidths.reduce((sum, width) => sum + width, 2);
    const room = Math.max(this.frame.clientWidth - this.left - right, 40);
    const width = Math.min(room / this.cols, this.largestCell);
    this.width = width >= 4 ? Math.floor(width) : Math.max(width, 2);
    const height = this.rows === 1 ? Math.max(this.width, 22) : this.width;
    this.height = Math.max(
      Math.min(
        Math.max(height, this.notesShown.length ? 14 : 0),
        Math.max(this.tallest / this.rows, 2),
      ),
      2,
    );
    if (this.height >= 4) this.height = Math.floor(this.height);
    const longest = this.colLabels ? widest(this.colLabels) : 0;
    this.upright = longest > this.width - 3;
    this.top = this.upright ? Math.min(Math.ceil(longest) + 8, 80) : 17;
    return [this.left + this.cols * this.width + right, this.top + this.rows * this.height + 2];
  }

  fit() {
    if (this.frame.clientWidth !== this.drawnFor) this.draw();
  }

  draw() {
    if (!this.frame.clientWidth) return;
    this.drawnFor = this.frame.clientWidth;
    const [width, height] = this.measure();
    const context = sizedContext(this.canvas, width, height);
    this.paintCells(context);
    this.paintBlocked(context);
    this.paintLabels(context);
    this.point(this.cell);
  }

  paintCells(context) {
    const { rows, cols, width, height, left, top } = this;
    const [odd, bound] = [[], this.bound || 1];
    const gap = width >= 8 && height >= 8 ? 1 : 0;
    const numbers =
      height >= 16 &&
      width >= (this.wholeNumbers() ? 8 * String(Math.round(bound)).length + 4 : 29);
    const [first, lead] = [this.start(), this.lead()];
    context.textAlign = "center";
    context.textBaseline = "middle";
    const digits = this.wholeNumbers() ? String(Math.round(bound)).length : 5;
    context.font = `${numbers ? Math.min(11, (width - 3) / (0.6 * digits)) : 10}px ui-monospace, monospace`;
    context.fillStyle = ink("--line");
    context.fillRect(left - gap, top - gap, cols * width + gap, rows * height + gap);
    for (let row = 0; row < rows; row++) {
      for (let col = 0; col < cols; col++) {
        const value = this.values[first + row * cols + col];
        const [x, y] = [left + col * width, top + row * height];
        const colour = shade(
          Number.isNaN(value) ? 0 : this.linear ? value / bound : rootShare(value, bound),
        );
        context.fillStyle = rgb(colour);
        context.fillRect(x, y, Math.max(width - gap, 1), Math.max(height - gap, 1));
        if (Number.isNaN(value)) odd.push([x, y, width, height]);
        context.fillStyle = inkOn(colour);
        if (
          numbers &&
          Math.abs(value) < 1e-4 * bound &&
          this.blocked &&
          this.blocked(row, col, lead)
        )
          continue;
        if (numbers) context.fillText(shortNumber(value), x + width / 2, y + height / 2, width - 3);
        else if (Math.min(width, height) >= 11)
          this.paintSign(context, value, bound, x + width / 2, y + height / 2);
      }
    }
    hatch(context, odd, ink("--bad"), 4, -1);
  }

  wholeNumbers() {
    this.whole ??= this.values.every(Number.isInteger);
    return this.whole;
  }

  /** Draw a minus sign in negative cells that are too small for a number, and infinity signs. */
  paintSign(context, value, bound, x, y) {
    const size = Math.min(this.width, this.height) * 0.22;
    if (Number.isFinite(value) && value < -0.06 * bound)
      context.fillRect(x - size, y - 0.6, 2 * size, 1.2);
    if (Math.abs(value) === Infinity)
      context.fillText(value < 0 ? `${MINUS}\u221e` : "\u221e", x, y, this.width - 1);
  }

  paintBlocked(context) {
    if (!this.blocked) return;
    const lead = this.lead();
    const boxes = [];
    for (let row = 0; row < this.rows; row++) {
      for (let col = 0; col < this.cols; col++) {
        if (this.blocked(row, col, lead)) {
          boxes.push([
            this.left + col * this.width,
            this.top + row * this.height,
            this.width,
            this.height,
          ]);
        }
      }
    }
    hatch(context, boxes, ink("--hatch"), Math.max(4, Math.min(7, this.width / 2)));
  }

  paintLabels(context) {
    const { rows, cols, width, height, left, top } = this;
    context.font = LABEL_FONT;
    context.fillStyle = ink("--soft");
    const every = (cell, need) =>
      [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 500, 512, 1000, 1024, 2048, 4096].find(
        (k) => k * cell >= need,
      ) || 5000;
    const rowStep = every(height, 12);
    context.textAlign = "right";
    for (let row = 0; rows > 1 && row < rows; row += rowStep) {
      context.fillText(
        this.rowLabels ? this.rowLabels[row] : row * this.rowStep,
        left - 5,
        top + (row + 0.5) * height,
        left - 6,
      );
    }
    const colStep = every(
      width,
      this.upright ? 12 : this.colLabels ? 1 : 7 * String((cols - 1) * this.colStep).length + 7,
    );
    for (let col = 0; col < cols; col += colStep) {
      const text = this.colLabels ? this.colLabels[col] : col * this.colStep;
      context.save();
      context.translate(left + (col + 0.5) * width, top - 4);
      context.rotate(this.upright ? -Math.PI / 2 : 0);
      context.textAlign = this.upright ? "left" : "center";
      context.textBaseline = this.upright ? "middle" : "alphabetic";
      if (this.upright) context.fillText(text, 0, 0, top - 6);
      else context.fillText(text, 0, 0);
      context.restore();
    }
    this.paintNotes(context);
  }

  paintNotes(context) {
    let x = this.left + this.cols * this.width + 10;
    context.textAlign = "left";
    this.notesShown.forEach((note, i) => {
      context.textBaseline = "alphabetic";
      context.fillText(note.name, x, this.top - 4);
      context.textBaseline = "middle";
      if (this.height >= 11) {
        note.texts.forEach((text, row) =>
          context.fillText(text, x, this.top + (row + 0.5) * this.height),
        );
      }
      x += this.noteWidths[i];
    });
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const col = Math.floor((event.clientX - box.left - this.left) / this.width);
    const row = Math.floor((event.clientY - box.top - this.top) / this.height);
    return row >= 0 && row < this.rows && col >= 0 && col < this.cols ? [row, col] : null;
  }

  /** "[0, 3, 5] = 0.12", with the axis labels if the axes have labels. */
  cellText([row, col]) {
    const places = [
      ...this.lead(),
      ...(this.shape.length > 1 ? [row] : []),
      ...(this.shape.length ? [col] : []),
    ];
    const index = places.map((place, axis) => place * this.steps[axis]);
    const labels = [this.rowLabels && this.rowLabels[row], this.colLabels && this.colLabels[col]];
    const named = labels.some(Boolean)
      ? ` ${this.rowName || "row"} ${labels[0] ?? row}, ${this.colName || "column"} ${labels[1] ?? col}`
      : "";
    const blocked = this.blocked && this.blocked(row, col, this.lead()) ? ", masked" : "";
    return `[${index.join(", ")}]${named} = ${number(this.value(row, col), 5)}${blocked}`;
  }

  point(cell) {
    this.cell = cell;
    this.marker.hidden = !cell;
    this.readout.textContent = cell ? this.cellText(cell) : "\u00a0";
    if (!cell) return;
    Object.assign(this.marker.style, {
      left: `${this.left + cell[1] * this.width - 1}px`,
      top: `${this.top + cell[0] * this.height - 1}px`,
      width: `${Math.max(this.width, 3)}px`,
      height: `${Math.max(this.height, 3)}px`,
    });
  }

  key(event) {
    const moves = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      Home: [0, -this.cols],
      End: [0, this.cols],
      PageUp: [-this.rows, 0],
      PageDown: [this.rows, 0],
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, col] = this.cell || [0, 0];
    const clamp = (value, size) => Math.max(0, Math.min(size - 1, value));
    this.point([clamp(row + move[0], this.rows), clamp(col + move[1], this.cols)]);
    announce(this.cellText(this.cell));
  }

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    this.button.setAttribute("aria-expanded", String(!this.table.hidden));
    this.button.textContent = this.table.hidden ? "Show as table" : "Hide table";
    if (!this.table.hidden) this.fillTable();
  }

  fillTable() {
    this.table.setAttribute("tabindex", "0");
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", `Table: ${this.label}`);
    this.table.replaceChildren(valueTable(this));
  }
}
