"use strict";

// Data model of the page: the recording's document, with lookup functions.

/** Create an element: element("a", {href: "#", class: "x", onclick: f}, child, "text", ...). */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Announce a text to screen readers. */
function announce(text) {
  document.getElementById("live").textContent = text;
}

/** Set the header's height for the style sheet, which places the list of steps below it. */
function followHeader() {
  const header = document.querySelector("header");
  const tell = () =>
    document.documentElement.style.setProperty("--header", `${header.offsetHeight}px`);
  new ResizeObserver(tell).observe(header);
}

const MINUS = "\u2212";

/** Format a number with `digits` significant digits, as briefly as possible. */
function number(value, digits = 4) {
  if (value === null || value === undefined) return "\u2013";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "\u221e" : MINUS + "\u221e";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", MINUS);
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-3
      ? value.toExponential(Math.max(digits - 2, 0)).replace("e+", "e")
      : String(Number(value.toPrecision(digits)));
  return text.replaceAll("-", MINUS);
}

/** Format a number with at most five characters, for the cells of a heat map. */
function shortNumber(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || Number.isInteger(value)) return number(value);
  if (size < 0.005) return size < 5e-4 ? "0.00" : number(Number(value.toFixed(3)));
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0).replace("-", MINUS);
}

const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity };

function shapeText(shape) {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

function count(many, one, plural = one + "s") {
  return `${many} ${many === 1 ? one : plural}`;
}

class Recording {
  constructor(data) {
    this.title = data.title;
    this.message = data.message;
    this.functions = data.functions || {};
    this.fused = new Map((data.fused || []).map((fused) => [fused.id, fused]));
    this.modules = new Map(data.modules.map((module) => [module.id, module]));
    this.tensors = new Map(data.tensors.map((tensor) => [tensor.id, tensor]));
    this.steps = data.steps;
    this.position = new Map(data.steps.map((step, index) => [step.id, index]));
    this.attention = data.attention || [];
    this.lastForward = data.steps.findLastIndex((step) => step.kind === "forward");
    this.decoded = new Map();
    this.index();
  }

  /** Find the steps (positions in `steps`) that make each tensor, use it or add to its gradient. */
  index() {
    this.makers = new Map();
    this.users = new Map();
    this.growths = new Map(); // tensor id -> [{position, added}], the additions to its gradient
    this.storing = new Map(); // tensor id -> positions at which it was added to `.grad`
    this.partners = new Map(); // position -> positions of the same operation in the other direction
    this.attentionAt = new Map();
    const add = (map, key, value) =>
      map.has(key) ? map.get(key).push(value) : map.set(key, [value]);
    this.steps.forEach((step, at) => {
      if (step.kind === "forward") {
        for (const id of step.outputs) if (!this.makers.has(id)) this.makers.set(id, at);
        const inputs = new Set(step.inputs.filter((input) => typeof input === "number"));
        for (const id of inputs) add(this.users, id, at);
      } else {
        const forward = this.position.get(step.of);
        if (forward !== undefined) add(this.partners, at, forward);
        if (forward !== undefined) add(this.partners, forward, at);
        for (const added of step.added || []) {
          if (step.kind === "accumulate") add(this.storing, added.tensor, at);
          else add(this.growths, added.tensor, { position: at, added });
        }
      }
    });
    for (const entry of this.attention) {
      const steps = [entry.softmax, entry.step].filter((id) => id !== undefined && id !== null);
      for (const id of new Set(steps)) add(this.attentionAt, this.position.get(id), entry);
    }
  }

  tensor(id) {
    return this.tensors.get(id);
  }

  /** Values in C order, or null if they were not kept. */
  values(tensor) {
    if (!this.decoded.has(tensor.id)) {
      let source = tensor;
      while (source && source.values && source.values.same_as !== undefined) {
        source = this.tensor(source.values.same_as);
      }
      const raw = source && source.values;
      const decode = (value) => (typeof value === "string" ? SPECIAL[value] : (value ?? NaN));
      this.decoded.set(tensor.id, raw ? Float64Array.from(raw, decode) : null);
    }
    return this.decoded.get(tensor.id);
  }

  /** Modules from the outermost one to `id`. */
  chain(id) {
    const found = [];
    for (let at = this.modules.get(id); at; at = this.modules.get(at.parent)) found.unshift(at);
    return found;
  }

  path(step) {
    const module = this.modules.get(step.module);
    return module ? module.path || module.class : "";
  }

  /** Forward step of the same operation: the step itself or, for a backward step, its forward. */
  forwardOf(step) {
    return step.kind === "forward" ? step : this.steps[this.position.get(step.of)];
  }

  /** Name of a step: its number in the document, as in the table and in tensor names. */
  label(at) {
    return this.steps[at].id;
  }

  get lastLabel() {
    return this.label(this.steps.length - 1);
  }

  partner(at) {
    return (this.partners.get(at) || [])[0];
  }

  /** Positions of the backward steps that computed this operation's output gradients. */
  gradientMakers(at) {
    const found = new Set();
    const step = this.steps[at];
    const forward = this.forwardOf(step);
    for (const id of forward ? forward.outputs : step.added.map((added) => added.tensor)) {
      for (const growth of this.growths.get(id) || []) found.add(growth.position);
    }
    return [...found].sort((a, b) => a - b);
  }

  /** Tensors that a step shows, which determine its colour scale. */
  shown(step) {
    const ids =
      step.kind === "forward"
        ? [...step.inputs, ...step.outputs]
        : [
            ...(step.grads || []),
            ...(step.added || []).flatMap((a) => [a.before, a.contribution, a.after]),
          ];
    return ids.filter((id) => typeof id === "number").map((id) => this.tensor(id));
  }

  /** Sentence that describes a step, for the live region and for search. */
  words(at) {
    const step = this.steps[at];
    const where = this.path(step);
    const output = step.kind === "forward" && this.tensor(step.outputs[0]);
    const kind = step.kind === "accumulate" ? "storing a gradient" : step.kind;
    return (
      `Step ${step.id} of ${this.lastLabel}, ${kind}: ${step.op}` +
      (where ? ` in ${where}` : "") +
      (output ? `. Output of shape ${output.shape.join(" by ") || "one number"}` : "") +
      (step.kind === "backward" ? `, the backward of step ${step.of}` : "") +
      "."
    );
  }
}

/** "forward" or "backward": the pass in which a step ran. A line of plain code says it itself. */
function sideOf(step) {
  return step.side || (step.kind === "forward" ? "forward" : "backward");
}

/** Largest finite absolute value in these tensors; 0 if no value is finite. */
function largest(tensors) {
  let size = 0;
  for (const tensor of tensors) {
    for (const value of [tensor.min, tensor.max]) {
      if (Number.isFinite(value)) size = Math.max(size, Math.abs(value));
    }
  }
  return size;
}

function isReal(tensor) {
  return tensor.dtype.includes("float");
}

/** Grid steps of the kept values along each axis, which are 1 if all values are kept. */
function gridSteps(tensor) {
  return tensor.sample ? tensor.sample.steps : tensor.shape.map(() => 1);
}
