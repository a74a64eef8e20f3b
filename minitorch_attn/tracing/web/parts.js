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

/** Number of the first line of a place's text. */
function firstLine(place) {
  return place.first ?? place.line - 1;
}

/** Part of a line that belongs to the expression: [start, end] in characters, or null. */
function marked(place, lineNumber) {
  if (!place.span) return null;
  const [first, column, last, end] = place.span;
  if (lineNumber < first || lineNumber > last) return null;
  const line = [...(place.text[lineNumber - firstLine(place)] || "")];
  const indent = line.findIndex((character) => character.trim());
  return [lineNumber === first ? column : indent, lineNumber === last ? end : line.length];
}

/** A line from column `from`, with its part of the expression marked. */
function markedLine(place, lineNumber, from) {
  const line = [...(place.text[lineNumber - firstLine(place)] || "")];
  const [start, end] = marked(place, lineNumber) ?? [line.length, line.length];
  const text = (a, b) => line.slice(a, b).join("");
  return [
    text(from, start),
    start < end ? element("mark", {}, text(start, end)) : "",
    text(Math.max(end, from), line.length),
  ];
}

/** The expression that a step computes, in one line, as it is written in the code. */
function expression(place) {
  if (!place || !place.span) return "";
  return place.text
    .map((line, i) => {
      const part = marked(place, firstLine(place) + i);
      return part ? [...line].slice(...part).join("").trim() : "";
    })
    .filter(Boolean)
    .join(" ");
}

/** The line of a place without its indentation, with the expression marked. */
function oneLine(place) {
  const line = [...(place.text[place.line - firstLine(place)] || "")];
  return markedLine(place, place.line, Math.max(line.findIndex((character) => character.trim()), 0));
}

/** A few source lines with line numbers. The expression is marked or, if unknown, the line. */
function excerpt(place) {
  const written = place.text.filter((line) => line.trim());
  const indent = Math.min(...written.map((line) => line.search(/\S/)));
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
    written.length
      ? element(
          "pre",
          { tabindex: "0", "aria-label": `${place.file}, line ${place.line} and its neighbours` },
          place.text.map((_, i) => codeLine(place, firstLine(place) + i, indent)),
        )
      : "",
  );
}

function codeLine(place, lineNumber, indent) {
  const here = place.span ? marked(place, lineNumber) !== null : lineNumber === place.line;
  return element(
    here && !place.span ? "mark" : "span",
    { class: `code-line ${here ? "here" : ""}` },
    element("span", { class: "line-number", "aria-hidden": "true" }, String(lineNumber)),
    " ",
    markedLine(place, lineNumber, indent),
  );
}

/** Scroll long lines of code sideways, so that the marked expressions are visible. */
function revealMarks(root) {
  for (const mark of root.querySelectorAll("pre mark:not(.code-line)")) {
    const code = mark.closest("pre");
    const [box, place] = [code.getBoundingClientRect(), mark.getBoundingClientRect()];
    const beyond = Math.min(place.right - box.right + 16, place.left - box.left - 48);
    if (beyond > 0) code.scrollLeft += beyond;
  }
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
        .map(([name, value]) => `${name}=${asPython(value)}`)
        .join(", "),
    ),
  );
}

/** A setting as it is written in Python. */
function asPython(value) {
  if (Array.isArray(value))
    return `(${value.map(asPython).join(", ")}${value.length === 1 ? "," : ""})`;
  return { null: "None", true: "True", false: "False" }[value] ?? String(value);
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

/* Put the place into the page's address, as a new entry of the history if `push`. */
function remember(address, push) {
  const embedded = location.protocol === "about:"; // a frame in a notebook has no address
  if (!embedded && location.hash !== address)
    history[push ? "pushState" : "replaceState"](null, "", address);
}
