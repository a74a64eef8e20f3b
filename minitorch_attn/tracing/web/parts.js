// Parts of a step's panel: formulas, source lines, and cards in columns.

function formula(name, step, current) {
  if (!step || !step.formula) return null;
  return element(
    "div",
    { class: `formula ${current ? "current" : ""}` },
    element("span", { class: "soft" }, name),
    element(
      "div",
      {},
      equations(step.formula).map((one) => element("code", {}, formulaMarkup(one))),
    ),
  );
}

/** Arrange cards in columns. A low card (a vector, a number) is placed above the next one. */
function cardGrid(cards) {
  const columns = [];
  let open = null;
  for (const card of cards) {
    if (!open || card.matches(".wide, .widest")) columns.push((open = []));
    open.push(card);
    if (!card.classList.contains("low")) open = null;
  }
  const widths = (column) =>
    column.map((card) => ["wide", "widest"].filter((name) => card.classList.contains(name))).flat();
  return element(
    "div",
    { class: "cards" },
    columns.map((column) =>
      element("div", { class: ["stack", ...widths(column)].join(" ") }, column),
    ),
  );
}

/** Split "a = f(x), b = g(x)" into two parts. */
function equations(text) {
  return text.split(/,\s+(?=\w+(?:\[[^\]]*\])? = )/);
}

function key(name) {
  return element("kbd", {}, name);
}

function numberCard(title, value) {
  return element(
    "section",
    { class: "card low", "aria-label": `${title}, the number ${value}` },
    element("h3", {}, element("span", { class: "role" }, title)),
    element("p", { class: "type soft" }, "a number"),
    element("p", { class: "scalar" }, number(value, 6)),
  );
}

/** Convert ^T, ^2 and ^(...) to superscripts. */
function formulaMarkup(text) {
  return text
    .split(/(\^(?:\w+|\([^()]*\)))/)
    .map((part) =>
      part.startsWith("^") ? element("sup", {}, part.slice(1).replace(/^\((.*)\)$/, "$1")) : part,
    );
}

function middleLine(place) {
  return (place.text[place.line - (place.first ?? place.line - 1)] || "").trim();
}

/** A few source lines with line numbers. The middle line is marked. */
function excerpt(place) {
  const indent = Math.min(
    ...place.text.filter((line) => line.trim()).map((line) => line.search(/\S/)),
  );
  return element(
    "figure",
    {},
    element(
      "figcaption",
      {},
      element("code", {}, `${place.file}:${place.line}`),
      place.function && place.function !== "<module>"
        ? element("span", { class: "soft" }, ` in ${place.function}`)
        : "",
    ),
    element(
      "pre",
      { tabindex: "0", "aria-label": `${place.file}, line ${place.line} and its neighbours` },
      place.text.map((line, i) => {
        const lineNumber = (place.first ?? place.line - 1) + i;
        const here = lineNumber === place.line;
        return element(
          here ? "mark" : "span",
          { class: "code-line" },
          element("span", { class: "line-number", "aria-hidden": "true" }, String(lineNumber)),
          " ",
          line.slice(indent),
        );
      }),
    ),
  );
}

function settings(step) {
  const entries = Object.entries(step.settings || {});
  if (!entries.length) return null;
  return element(
    "p",
    { class: "settings" },
    element("span", { class: "soft" }, "settings "),
    element(
      "code",
      {},
      entries
        .map(
          ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
        )
        .join(", "),
    ),
  );
}

/** The operation's docstring, which derives its backward. */
function derivation(recording, step) {
  const known = recording.functions[step.function];
  if (!known || !known.doc) return null;
  return element(
    "details",
    {},
    element("summary", {}, `How ${step.op} and its backward are derived`),
    element("pre", { tabindex: "0" }, known.doc),
  );
}
