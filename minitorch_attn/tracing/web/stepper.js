// The stepper page: the current step in the address (#step=12), the scrubber, keys and search.

const recording = new Recording(JSON.parse(document.getElementById("recording").textContent));
const last = recording.steps.length - 1;
const page = Object.fromEntries(
  [
    "steps",
    "step",
    "slider",
    "position",
    "timeline",
    "search",
    "matches",
    "help",
    "steps-button",
    "aside",
  ].map((id) => [id, document.getElementById(id)]),
);
const panels = new Panels(recording, page.step);
const tree = new StepTree(recording, page.steps, (at) => go(at));
let current = -1;

/** Show a step. `jump` adds an entry to the browser's history, so that Back returns. */
function go(at, { jump = false, focus = false } = {}) {
  at = Math.max(0, Math.min(last, at));
  if (at === current) return;
  const inPanel = page.step.contains(document.activeElement);
  current = at;
  const address = `#step=${recording.label(at)}`;
  remember(address, jump);
  panels.show(at);
  tree.show(at);
  showPosition();
  if (focus || inPanel) document.getElementById("step-title").focus({ preventScroll: !focus });
  if (!page.steps.contains(document.activeElement)) announce(recording.words(at));
}

function showPosition() {
  const step = recording.steps[current];
  const direction = sideOf(step);
  page.slider.value = recording.label(current);
  page.slider.setAttribute("aria-valuetext", recording.words(current));
  page.position.textContent = `step ${recording.label(current)} of ${recording.lastLabel}, ${direction}`;
  for (const button of document.querySelectorAll("[data-move]"))
    button.disabled = destination(button.dataset.move) === current;
  drawTimeline();
}

/** Return the position of the step to which a movement leads. */
function destination(move) {
  const places = {
    first: 0,
    previous: current - 1,
    next: current + 1,
    last,
    "module-back": moduleEdge(-1),
    "module-on": moduleEdge(1),
  };
  return Math.max(0, Math.min(last, places[move]));
}

/** Nearest step in a direction at which a run of steps in one module starts. */
function moduleEdge(direction) {
  const { steps } = recording;
  const run = (at) => `${sideOf(steps[at])} ${steps[at].module}`;
  const starts = (at) => at === 0 || run(at) !== run(at - 1);
  for (let at = current + direction; at >= 0 && at <= last; at += direction)
    if (starts(at)) return at;
  return direction > 0 ? last : 0;
}

function jumpToGradient() {
  const makers = recording.gradientMakers(current);
  if (!makers.length) {
    announce(
      recording.steps[current].kind === "forward"
        ? "No gradient reaches this step."
        : "The backward pass starts here.",
    );
    return;
  }
  const at = makers.indexOf(current);
  go(makers[at + 1 < makers.length ? at + 1 : 0], { jump: true });
}

function jumpToPartner() {
  const partner = recording.partner(current);
  if (partner === undefined) announce("This step has no backward.");
  else go(partner, { jump: true });
}

const KEYS = {
  ArrowLeft: () => go(destination("previous")),
  ArrowRight: () => go(destination("next")),
  Home: () => go(0),
  End: () => go(last),
  PageUp: () => go(destination("module-back")),
  PageDown: () => go(destination("module-on")),
  f: () => announce(tree.foldCurrent()),
  g: jumpToGradient,
  b: jumpToPartner,
  t: () => {
    openSteps(true);
    tree.focusCurrent();
  },
  "/": () => {
    openSteps(true);
    page.search.focus();
    page.search.select();
  },
  "?": () => page.help.showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || page.help.open) return;
  const { target } = event;
  const typing = target.matches("input:not([type=checkbox]):not(#slider), select, textarea");
  if (typing || !KEYS[event.key]) return;
  if (target.matches("pre, .table-frame, .frame") && event.key.startsWith("Arrow")) return; // scrolls
  event.preventDefault();
  KEYS[event.key]();
}

/** Search results: show their number, and go to the next one on Enter. */
function onSearch() {
  const found = tree.search(page.search.value);
  page.matches.textContent =
    found === null
      ? ""
      : found.length
        ? count(found.length, "match", "matches") + "; Enter goes to the next match"
        : "No step matches.";
}

function onSearchKey(event) {
  if (event.key === "Escape") {
    page.search.value = "";
    onSearch();
    tree.show(current);
    document.getElementById("step-title").focus();
  } else if (event.key === "Enter" && tree.matches && tree.matches.length) {
    const found = tree.matches;
    const ahead = event.shiftKey
      ? (found.filter((at) => at < current).pop() ?? found[found.length - 1])
      : (found.find((at) => at > current) ?? found[0]);
    go(ahead, { jump: true });
    page.matches.textContent = `${found.indexOf(ahead) + 1} of ${count(found.length, "match", "matches")}`;
  } else if (event.key === "ArrowDown") tree.focusRow(tree.rows[0]);
  else return;
  event.preventDefault();
}

/** Open or close the list of steps, which is a drawer on narrow screens. */
function openSteps(open) {
  page.aside.classList.toggle("open", open);
  page["steps-button"].setAttribute("aria-expanded", String(open));
  tree.reveal(tree.rowOf(tree.visible(current)));
}

/** Draw all steps as a strip, with modules as bands and arcs to the current step. */
function drawTimeline() {
  const [width, height, inset] = [page.timeline.parentElement.clientWidth, 34, 8];
  if (!width) return;
  const context = sizedContext(page.timeline, width, height);
  const x = (at) => inset + (width - 2 * inset) * (last ? at / last : 0.5);
  const half = (width - 2 * inset) / Math.max(last, 1) / 2;
  const bands = bandsOf(tree.tree);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  bands.forEach((band, i) => {
    const [from, to] = [Math.max(x(band.from) - half, 0), x(band.to) + half];
    const backward = sideOf(recording.steps[band.from]) === "backward";
    context.fillStyle = ink(`--${backward ? "backward" : "forward"}-band-${i % 2}`);
    context.fillRect(from, 18, to - from, 14);
    const name = band.name || recording.steps[band.from].op;
    context.fillStyle = ink("--soft");
    if (context.measureText(name).width < to - from - 6) context.fillText(name, from + 3, 25.5);
  });
  drawArcs(context, x);
  context.fillStyle = ink("--text");
  context.fillRect(x(current) - 1, 14, 2, 20);
}

/** Groups of steps to draw as bands. A group with more than 24% of all steps is split. */
function bandsOf(node) {
  const large =
    node.kind === "pass" || node === tree.tree || node.count > 0.24 * recording.steps.length;
  return node.children && large ? node.children.flatMap(bandsOf) : [node];
}

/** Draw arcs to the steps that make this step's inputs and those that use its outputs. */
function drawArcs(context, x) {
  const step = recording.steps[current];
  const inputs =
    step.kind === "forward"
      ? step.inputs.map((id) => recording.makers.get(id))
      : recording.gradientMakers(current);
  const outputs =
    step.kind === "forward"
      ? step.outputs.flatMap((id) => recording.users.get(id) || [])
      : (step.added || [])
          .flatMap((added) => recording.growths.get(added.tensor) || [])
          .map((growth) => growth.position);
  for (const [others, style] of [
    [inputs, "--forward"],
    [outputs, "--backward"],
  ]) {
    context.strokeStyle = ink(style);
    context.setLineDash(style === "--forward" ? [] : [3, 2]);
    for (const other of new Set(others)) {
      if (other === undefined || other === current) continue;
      context.beginPath();
      context.ellipse(
        (x(other) + x(current)) / 2,
        17,
        Math.abs(x(other) - x(current)) / 2,
        Math.min(15, 5 + Math.abs(x(other) - x(current)) / 8),
        0,
        Math.PI,
        0,
      );
      context.stroke();
    }
  }
  context.setLineDash([]);
}

function fromAddress() {
  const found = /step=(\d+)/.exec(location.hash);
  return found ? (recording.position.get(Number(found[1])) ?? 0) : 0;
}

function start() {
  [page.slider.min, page.slider.max] = [recording.label(0), recording.lastLabel];
  page.slider.addEventListener("input", () => go(recording.position.get(Number(page.slider.value))));
  for (const button of document.querySelectorAll("[data-move]"))
    button.addEventListener("click", () => go(destination(button.dataset.move)));
  document.addEventListener("keydown", onKey);
  page.search.addEventListener("input", onSearch);
  page.search.addEventListener("keydown", onSearchKey);
  page["steps-button"].addEventListener("click", () =>
    openSteps(!page.aside.classList.contains("open")),
  );
  document.getElementById("help-button").addEventListener("click", () => page.help.showModal());
  document.getElementById("help-close").addEventListener("click", () => page.help.close());
  page.timeline.addEventListener("click", (event) => {
    go(Math.round(((event.offsetX - 8) / (page.timeline.clientWidth - 16)) * last), { jump: true });
  });
  window.addEventListener("hashchange", () => go(fromAddress(), { focus: true }));
  window.addEventListener("resize", drawTimeline);
  darkScheme.addEventListener("change", drawTimeline);
  followHeader();
  go(fromAddress());
}

start();
