// Card for one tensor: name, numbers, heat map, and the steps that make and use the tensor.

/** Dotted name that may be wrapped after its dots. */
function breakable(name) {
  return name.split(/(?<=\.)/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
}

/** Link to a step, whose number is in the address. */
function stepLink(recording, at, text = null) {
  return element(
    "a",
    { class: "step-link", href: `#step=${recording.label(at)}` },
    text || `step ${recording.label(at)} ${recording.steps[at].op}`,
  );
}

/** "a, b and c", from elements or strings. */
function listing(items) {
  return items.flatMap((item, i) => [i === 0 ? "" : i === items.length - 1 ? " and " : ", ", item]);
}

/** Links to steps. If there are many, only the first few and the last are shown. */
function stepLinks(recording, positions) {
  if (positions.length <= 5) return listing(positions.map((at) => stepLink(recording, at)));
  const first = positions.slice(0, 3).map((at) => stepLink(recording, at));
  return [
    ...listing(first).slice(0, -2),
    ", ",
    first[2],
    `, ${count(positions.length - 4, "more step")}, `,
    stepLink(recording, positions[positions.length - 1]),
  ];
}

function statistics(tensor) {
  const entries = [
    ["min", tensor.min],
    ["max", tensor.max],
    ["mean", tensor.mean],
    ["std", tensor.std],
  ];
  const items = entries
    .filter(([, value]) => tensor.shape.length && value !== null)
    .map(([name, value]) =>
      element("span", {}, element("span", { class: "soft" }, name + "\u00a0"), number(value, 3)),
    );
  items.push(
    element("span", { class: tensor.nan ? "bad" : "soft" }, `NaN\u00a0${tensor.nan || 0}`),
  );
  if (tensor.inf) items.push(element("span", {}, `inf\u00a0${tensor.inf}`));
  return element(
    "p",
    { class: "statistics" },
    items.flatMap((item) => [item, " "]),
  );
}

/** {root, map}: a number, a heat map (only then is map set), or a text that says why there is neither. */
function valuesView(recording, tensor, { label, bound, largestCell = 40 }) {
  const values = recording.values(tensor);
  const size = tensor.shape.reduce((product, n) => product * n, 1);
  if (!values || !size) {
    const why = size ? `${size.toLocaleString("en")} values, not kept in this file` : "no values";
    return { root: element("p", { class: "soft" }, why) };
  }
  if (size === 1) return { root: element("p", { class: "scalar" }, number(values[0], 6)) };
  const steps = gridSteps(tensor);
  const shape = tensor.shape.map((n, axis) => Math.ceil(n / steps[axis]));
  const map = new HeatMap({ label, values, shape, steps, bound, largestCell });
  const sampled = steps.some((step) => step > 1);
  const every = steps.map((step) => (step > 1 ? `::${step}` : ":")).join(", ");
  const root = element(
    "div",
    {},
    map.root,
    sampled
      ? element(
          "p",
          { class: "soft" },
          `Shown: [${every}], ${values.length.toLocaleString("en")} of ` +
            `${size.toLocaleString("en")} values. The statistics are those of all values.`,
        )
      : null,
  );
  return { root, map };
}

/** Text with links that says where a tensor comes from and where it is used. */
function travels(recording, tensor, at) {
  const lines = [];
  const maker = recording.makers.get(tensor.id);
  if (maker !== undefined && maker !== at) lines.push(["made by ", stepLink(recording, maker)]);
  const users = (recording.users.get(tensor.id) || []).filter((user) => user !== at);
  if (users.length)
    lines.push([maker === at ? "used by " : "also used by ", ...stepLinks(recording, users)]);
  const growths = recording.growths.get(tensor.id) || [];
  if (growths.length) {
    lines.push([
      growths.length > 1 ? `gradient, a sum of ${growths.length} contributions: ` : "gradient: ",
      ...stepLinks(
        recording,
        growths.map((growth) => growth.position),
      ),
    ]);
  }
  const storing = (recording.storing.get(tensor.id) || []).filter((other) => other !== at);
  if (storing.length) lines.push(["stored in its .grad by ", ...stepLinks(recording, storing)]);
  return lines.map((line) => element("p", { class: "travel" }, line));
}

/**
 * options: title, name, bound, largestCell, remarks (about memory and the like), plain: without
 * links, made: true for results of the step.
 */
function tensorCard(recording, tensor, at, options) {
  const { title, bound, remarks = [], plain = false, made = false } = options;
  const name = options.name ?? tensor.name ?? "";
  const label = `${title}${name && `, ${name}`}, shape ${shapeText(tensor.shape)}`;
  const own = largest([tensor]);
  const view = valuesView(recording, tensor, {
    label,
    bound: isReal(tensor) && bound ? bound : own,
    largestCell: options.largestCell,
  });
  const width = tensor.shape.length ? tensor.shape.at(-1) / gridSteps(tensor).at(-1) : 1;
  const low = tensor.shape.length < 2;
  return element(
    "section",
    {
      class: `card ${made ? "made" : ""} ${low ? "low" : ""} ${width > 80 ? "widest" : width > 40 ? "wide" : ""}`,
      "aria-label": label,
    },
    element(
      "h3",
      {},
      element("span", { class: "role" }, made ? "\u2192 " + title : title),
      " ",
      element("span", { class: "tensor-name" }, breakable(name)),
    ),
    element(
      "p",
      { class: "type" },
      element("span", {}, shapeText(tensor.shape)),
      " ",
      element("span", { class: "soft" }, tensor.dtype),
      remarks.flatMap((remark) => [" ", element("span", { class: "alias" }, remark)]),
    ),
    statistics(tensor),
    view.root,
    isReal(tensor) && view.map && own && own < 0.02 * bound ? paleNote(view.map, bound, own) : null,
    plain ? null : travels(recording, tensor, at),
  );
}

/** Say that this map is nearly blank on the step's scale, and offer a separate scale. */
function paleNote(map, bound, own) {
  const text = element("span", {});
  const button = element("button", {
    type: "button",
    class: "quiet",
    onclick: () => set(map.bound === own ? bound : own),
  });
  const set = (scale) => {
    map.bound = scale;
    text.textContent =
      scale === own
        ? `Own scale: \u00b1${number(own, 3)}.`
        : `At most \u00b1${number(own, 3)}, which is pale on this scale.`;
    button.textContent = scale === own ? "Back to the step's scale" : "Own scale";
    map.draw();
  };
  set(bound);
  return element("p", { class: "pale soft" }, text, " ", button);
}

/** Visible slice of a heat map, as a table. */
function valueTable(map) {
  const lead = map.lead();
  const range = (size) => Array.from({ length: size }, (_, index) => index);
  const header = (scope, text) => element("th", { scope }, text);
  const name = (labels, index, step) => (labels ? `${index} ${labels[index]}` : index * step);
  const notes = map.notes ? map.notes(lead) : [];
  const masked = (row, col) => (map.blocked && map.blocked(row, col, lead) ? " masked" : "");
  const head = element(
    "tr",
    {},
    element("td", {}),
    range(map.cols).map((col) => header("col", name(map.colLabels, col, map.colStep))),
    notes.map((note) => header("col", note.name)),
  );
  const line = (row) => [
    header("row", name(map.rowLabels, row, map.rowStep)),
    ...range(map.cols).map((col) =>
      element("td", {}, number(map.value(row, col)) + masked(row, col)),
    ),
    ...notes.map((note) => element("td", {}, note.texts[row])),
  ];
  const at = lead.length
    ? `, at [${lead.map((i, axis) => i * map.steps[axis]).join(", ")}, :, :]`
    : "";
  return element(
    "table",
    {},
    element("caption", {}, map.label + at),
    element("thead", {}, head),
    element(
      "tbody",
      {},
      range(map.rows).map((row) => element("tr", {}, line(row))),
    ),
  );
}
