// Colours of values. Blue is below 0, orange above, and both grow from the page's own background,
// so that a map is legible in light and dark mode. Signs and hatching also work without colour.

const darkScheme = matchMedia("(prefers-color-scheme: dark)");

const PALETTES = {
  light: { negative: [0, 84, 159], middle: [250, 250, 248], positive: [196, 78, 0] },
  dark: { negative: [106, 186, 255], middle: [27, 31, 38], positive: [255, 160, 72] },
};

// Tints for windows and regions (Okabe and Ito 2008). Numbers and patterns also distinguish them.
const GROUPS = [
  "#56b4e9",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#f0e442",
  "#0072b2",
  "#d55e00",
  "#999999",
  "#8c6d31",
];

function palette() {
  return darkScheme.matches ? PALETTES.dark : PALETTES.light;
}

/** [red, green, blue] for a position on the scale from -1 to 1. */
function shade(share) {
  const { negative, middle, positive } = palette();
  const end = share < 0 ? negative : positive;
  const part = Math.min(Math.abs(share), 1);
  return middle.map((from, i) => Math.round(from + (end[i] - from) * part));
}

/** Black or white, whichever is more legible on this colour. */
function inkOn([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#111" : "#fff";
}

function rgb(colour) {
  return `rgb(${colour.join(",")})`;
}

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Prepare a canvas for drawing in CSS pixels, sharp on any screen. */
function sizedContext(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/** Draw diagonal lines over a list of [x, y, width, height]. */
function hatch(context, boxes, colour, spacing = 5, slope = 1) {
  if (!boxes.length) return;
  context.save();
  context.beginPath();
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y, width, height] of boxes) {
    context.rect(x, y, width, height);
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  context.clip();
  context.beginPath();
  const height = bottom - top;
  for (let x = left - height; x < right + height; x += spacing) {
    context.moveTo(x, slope > 0 ? bottom : top);
    context.lineTo(x + height, slope > 0 ? top : bottom);
  }
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

/** Position on the square-root scale, where 1/100 of the maximum has 1/10 of the colour. */
function rootShare(value, bound) {
  return Math.sign(value) * Math.sqrt(Math.min(Math.abs(value) / (bound || 1), 1));
}

/** Colour legend from `lowest` (-1 or 0) times the bound to the bound. */
function scaleLegend(bound, lowest = -1) {
  const canvas = element("canvas", { class: "legend-bar", "aria-hidden": "true" });
  const [width, margin] = [120 * (1 - lowest), 30];
  const draw = () => {
    const context = sizedContext(canvas, width + 2 * margin, 30);
    for (let x = 0; x < width; x++) {
      context.fillStyle = rgb(shade(lowest + ((x + 0.5) / width) * (1 - lowest)));
      context.fillRect(margin + x, 0, 1, 12);
    }
    context.strokeStyle = context.fillStyle = ink("--soft");
    context.strokeRect(margin + 0.5, 0.5, width - 1, 11);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    for (const share of [-1, -0.5, 0, 0.5, 1].filter((one) => one >= lowest)) {
      const x = margin + ((share - lowest) / (1 - lowest)) * width;
      context.fillRect(x - 0.5, 12, 1, 3);
      context.fillText(number(Math.sign(share) * share * share * bound, 3), x, 27);
    }
  };
  draw();
  redrawn.add({ root: canvas, draw });
  return element(
    "span",
    { class: "legend" },
    canvas,
    element(
      "span",
      { class: "unseen" },
      `Colours from ${number(lowest * bound, 3)} to ${number(bound, 3)}, on a square-root scale.`,
    ),
  );
}

// Everything drawn on a canvas, so that it can be redrawn when the theme or width changes.
const redrawn = new Set();

function redrawAll() {
  for (const drawn of redrawn) {
    if (drawn.root.isConnected) drawn.draw();
    else redrawn.delete(drawn);
  }
}

darkScheme.addEventListener("change", redrawAll);
