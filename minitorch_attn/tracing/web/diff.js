// Two recordings side by side: every pair of steps, and the difference for each tensor.

const data = JSON.parse(document.getElementById("recording").textContent);
const mine = new Recording(data.mine);
const reference = new Recording(data.reference);
const entries = pairEntries();
const list = document.getElementById("pairs");
const shown = document.getElementById("pair");
let current = -1;

/** Pairs, and steps that occur in only one recording, in the order in which they ran. */
function pairEntries() {
  const alone = data.structure.flatMap((gap) => [
    ...gap.mine.map((id) => ({ mine: id, reference: null, harmless: gap.harmless })),
    ...gap.reference.map((id) => ({ mine: null, reference: id, harmless: gap.harmless })),
  ]);
  const found = [];
  for (const [one, other, state] of data.pairs) {
    while (alone.length && before(alone[0], one, other)) found.push(alone.shift());
    found.push({ mine: one, reference: other, state });
  }
  return [...found, ...alone];
}

function before(entry, one, other) {
  return entry.mine === null ? entry.reference < other : entry.mine < one;
}

function isDifferent(entry) {
  return entry.mine === null || entry.reference === null ? !entry.harmless : entry.state !== "same";
}

function stepOf(recording, id) {
  return id === null ? null : recording.steps[recording.position.get(id)];
}

function verdict(entry) {
  if (entry.mine === null) return "only in the reference";
  if (entry.reference === null) return "only in mine";
  return entry.state;
}

function firstDifference() {
  const at = entries.findIndex(
    (entry) =>
      (data.mine_step !== null && entry.mine === data.mine_step) ||
      (data.mine_step === null &&
        data.reference_step !== null &&
        entry.reference === data.reference_step),
  );
  return data.same ? -1 : at;
}

function drawList() {
  const first = firstDifference();
  list.replaceChildren(
    ...entries.map((entry, at) => {
      const step = stepOf(mine, entry.mine) || stepOf(reference, entry.reference);
      const numbers = [entry.mine ?? "\u2013", entry.reference ?? "\u2013"].join(" | ");
      const state = at === first ? "first difference" : isDifferent(entry) ? "differs" : "";
      return element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            class: `pair ${isDifferent(entry) ? "differs" : ""}`,
            onclick: () => go(at),
            tabindex: at === Math.max(current, 0) ? "0" : "-1",
            "aria-current": at === current ? "true" : null,
            "aria-label": `mine ${entry.mine ?? "no step"}, reference ${entry.reference ?? "no step"}, ${step.op} ${step.kind}: ${at === first ? "the first difference, " : ""}${verdict(entry)}`,
          },
          element(
            "span",
            { class: "sign-mark", "aria-hidden": "true" },
            isDifferent(entry) ? "\u2260" : "=",
          ),
          element("span", { class: "number" }, numbers),
          element("span", { class: "name" }, step.op),
          element("span", { class: "soft" }, step.kind === "forward" ? "" : "backward"),
          element("span", { class: "tally" }, state),
        ),
      );
    }),
  );
}

function go(at) {
  at = Math.max(0, Math.min(entries.length - 1, at));
  if (at === current) return;
  const inList = list.contains(document.activeElement);
  current = at;
  remember(`#pair=${at + 1}`);
  document.getElementById("position").textContent = `pair ${at + 1} of ${entries.length}`;
  drawList();
  const button = list.children[at].firstChild;
  button.scrollIntoView({ block: "nearest" });
  if (inList) button.focus({ preventScroll: true });
  show(entries[at], at);
  announce(button.getAttribute("aria-label"));
}

function show(entry, at) {
  const sides = [
    [mine, entry.mine, "mine"],
    [reference, entry.reference, "reference"],
  ];
  const parts = [
    element(
      "h2",
      { id: "pair-title", tabindex: "-1" },
      at === firstDifference() ? "First difference: " : "",
      verdict(entry) === "same" ? "These steps agree" : verdict(entry),
    ),
    element(
      "div",
      { class: "sides" },
      sides.map(([recording, id, name]) => side(recording, stepOf(recording, id), name)),
    ),
  ];
  if (entry.mine !== null && entry.reference !== null)
    parts.push(...rows(stepOf(mine, entry.mine), stepOf(reference, entry.reference)));
  else
    parts.push(
      element(
        "p",
        { class: "soft" },
        entry.harmless
          ? "The later steps have the same values: both ways give the same result."
          : "From here on, the two recordings run different operations.",
      ),
    );
  shown.replaceChildren(...parts);
  revealMarks(shown);
  redrawAll();
}

function side(recording, step, name) {
  if (!step)
    return element(
      "section",
      { class: "card" },
      element("h3", {}, name),
      element("p", { class: "soft" }, "This recording has no such step."),
    );
  return element(
    "section",
    { class: "card", "aria-label": name },
    element("h3", {}, element("span", { class: "role" }, `${name}, step ${step.id} `), step.op),
    element("p", { class: "crumbs soft" }, recording.path(step)),
    formula(step.kind === "forward" ? "forward" : "backward", step, true),
    step.source ? excerpt(step.source) : null,
  );
}

/** [name, my tensor or number, the reference's] for all inputs and outputs of a step. */
function things(step, other) {
  const name = (names, i, word) => `${word}${names && names[i] ? " " + names[i] : ""}`;
  const zip = (a, b, label) =>
    Array.from({ length: Math.max(a.length, b.length) }, (_, i) => [
      label(i),
      a[i] ?? null,
      b[i] ?? null,
    ]);
  if (step.kind === "forward") {
    return [
      ...zip(step.inputs, other.inputs, (i) => name(step.input_names, i, "input")),
      ...zip(step.outputs, other.outputs, (i) => name(step.output_names, i, "output")),
    ];
  }
  const added = (one, part) => (one.added || []).map((entry) => entry[part]);
  const target = (i) => {
    const tensor = step.added[i] && mine.tensor(step.added[i].tensor);
    return tensor ? tensor.name : "a tensor";
  };
  return [
    ...zip(
      step.grads || [],
      other.grads || [],
      (i) => `gradient that arrives${i ? ` ${i + 1}` : ""}`,
    ),
    ...zip(
      added(step, "contribution"),
      added(other, "contribution"),
      (i) => `contribution to the gradient of ${target(i)}`,
    ),
    ...zip(added(step, "after"), added(other, "after"), (i) => `gradient of ${target(i)} after this step`),
  ];
}

function rows(step, other) {
  return things(step, other)
    .filter(([, one, two]) => one !== null || two !== null)
    .map(([name, one, two]) => {
      if (typeof one !== "number" || typeof two !== "number") return plainRow(name, one, two);
      return tensorRow(name, mine.tensor(one), reference.tensor(two));
    });
}

function plainRow(name, one, two) {
  const words = (value) =>
    value === null
      ? "nothing"
      : typeof value === "object"
        ? `the number ${number(value.number, 8)}`
        : "a tensor";
  const differs = words(one) !== words(two);
  return element(
    "section",
    { class: `sum ${differs ? "differs" : ""}` },
    element("h3", {}, name),
    element(
      "p",
      {},
      `mine: ${words(one)}; reference: ${words(two)}. ${differs ? "They differ." : "They are the same."}`,
    ),
  );
}

function tensorRow(name, one, two) {
  const [a, b] = [mine.values(one), reference.values(two)];
  const alike =
    a &&
    b &&
    a.length === b.length &&
    shapeText(one.shape) === shapeText(two.shape) &&
    shapeText(gridSteps(one)) === shapeText(gridSteps(two));
  const bound = largest([one, two]);
  const card = (recording, tensor, title) =>
    tensorCard(recording, tensor, -1, { title, name: "", bound, plain: true });
  const cards = [card(mine, one, "mine"), card(reference, two, "reference")];
  let sentence = `The entries cannot be compared one by one: shapes ${shapeText(one.shape)} and ${shapeText(two.shape)}.`;
  let differs = true;
  const legends = [["mine and reference", bound]];
  if (alike) {
    const difference = Float64Array.from(a, (value, i) =>
      Object.is(value, b[i]) || value === b[i] ? 0 : value - b[i],
    );
    const worst = difference.reduce(
      (best, value, i) => (size(value) > size(difference[best]) ? i : best),
      0,
    );
    differs = size(difference[worst]) > 0;
    sentence = differs ? worstSentence(one, a, b, worst) : "No entry differs.";
    cards.push(differenceCard(one, difference, Math.abs(difference[worst])));
    if (differs) legends.push(["mine \u2212 reference", Math.abs(difference[worst])]);
  }
  const drawn = isReal(one) && isReal(two) && a && a.length > 1 && bound > 0;
  return element(
    "section",
    { class: `sum ${differs ? "differs" : ""}`, "aria-label": name },
    element("h3", {}, name),
    element("p", {}, sentence),
    drawn ? colours(legends) : null,
    element("div", { class: "cards" }, cards),
  );
}

/** Colour legend for the maps, from [words, largest value] for each scale. */
function colours(legends) {
  return element(
    "div",
    { class: "scale" },
    legends
      .filter(([, bound]) => Number.isFinite(bound) && bound > 0)
      .map(([words, bound]) =>
        element(
          "span",
          { class: "one-scale" },
          element("span", { class: "soft" }, words),
          scaleLegend(bound),
        ),
      ),
    element("span", { class: "soft" }, "negative values in small cells are marked with ", element("b", {}, MINUS)),
  );
}

/** A NaN in only one of two values counts as the largest possible difference. */
function size(value) {
  return Number.isNaN(value) ? Infinity : Math.abs(value);
}

function worstSentence(tensor, a, b, worst) {
  const steps = gridSteps(tensor);
  const shape = tensor.shape.map((n, axis) => Math.ceil(n / steps[axis]));
  let rest = worst;
  const index = shape.map(() => 0);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index[axis] = (rest % shape[axis]) * steps[axis];
    rest = Math.floor(rest / shape[axis]);
  }
  return `Worst entry [${index.join(", ")}]: mine ${number(a[worst], 5)}, reference ${number(b[worst], 5)}, difference ${number(a[worst] - b[worst], 3)}.`;
}

function differenceCard(tensor, values, bound) {
  const statistic = {
    ...tensor,
    id: `difference ${tensor.id}`,
    name: "",
    min: Math.min(...values),
    max: Math.max(...values),
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    std: null,
    nan: values.filter(Number.isNaN).length,
    inf: 0,
  };
  const holder = { values: () => values };
  return tensorCard(holder, statistic, -1, {
    title: "mine \u2212 reference, own scale",
    name: "",
    bound: Number.isFinite(bound) ? bound : 1,
    plain: true,
    made: true,
  });
}

function nextDifference(direction) {
  for (let at = current + direction; at >= 0 && at < entries.length; at += direction)
    if (isDifferent(entries[at])) return at;
  return current;
}

const KEYS = {
  ArrowLeft: () => go(current - 1),
  ArrowRight: () => go(current + 1),
  Home: () => go(0),
  End: () => go(entries.length - 1),
  d: () => go(Math.max(firstDifference(), 0)),
  n: () => go(nextDifference(1)),
  p: () => go(nextDifference(-1)),
};

function onKey(event) {
  if (
    event.ctrlKey ||
    event.altKey ||
    event.metaKey ||
    event.target.matches("input:not([type=checkbox])")
  )
    return;
  const inList = list.contains(event.target);
  const action =
    inList && event.key === "ArrowUp"
      ? KEYS.ArrowLeft
      : inList && event.key === "ArrowDown"
        ? KEYS.ArrowRight
        : KEYS[event.key];
  if (!action || (event.target.matches("pre, .table-frame") && event.key.startsWith("Arrow")))
    return;
  event.preventDefault();
  action();
}

function startDiff() {
  const [head, ...rest] = data.report.split("\n");
  document
    .getElementById("verdict")
    .append(
      element("p", { class: data.same ? "agree" : "note" }, element("strong", {}, head)),
      rest.join("").trim()
        ? element(
            "pre",
            { tabindex: "0", "aria-label": "The report" },
            rest.join("\n").replace(/^\n+|\n+$/g, ""),
          )
        : "",
    );
  for (const [id, action] of [
    ["to-first", "d"],
    ["to-previous", "ArrowLeft"],
    ["to-next", "ArrowRight"],
    ["to-next-difference", "n"],
  ]) {
    document.getElementById(id).addEventListener("click", KEYS[action]);
  }
  document.addEventListener("keydown", onKey);
  const linked = /pair=(\d+)/.exec(location.hash);
  document.getElementById("counts").textContent =
    `mine (${count(mine.steps.length, "step")}) | reference (${count(reference.steps.length, "step")})`;
  followHeader();
  drawList();
  if (entries.length) go(linked ? Number(linked[1]) - 1 : Math.max(firstDifference(), 0));
}

startDiff();
