// Panel for the current step: its formula, line of code, inputs and outputs.

class Panels {
  constructor(recording, root) {
    Object.assign(this, { recording, root, ownScale: false, at: 0 });
  }

  show(at) {
    this.at = at;
    const step = this.recording.steps[at];
    const parts = [this.heading(step), this.facts(step)];
    parts.push(...(step.kind === "forward" ? this.forward(step) : this.backward(step)));
    const owner = this.recording.position.get(this.recording.forwardOf(step)?.id);
    for (const entry of this.recording.attentionAt.get(owner) || [])
      parts.push(attentionView(this.recording, entry));
    this.root.replaceChildren(...parts.flat().filter(Boolean));
    revealMarks(this.root);
    redrawAll();
  }

  heading(step) {
    const { recording } = this;
    const chain = recording
      .chain(step.module)
      .map((module) => (module.path ? ownName(recording, module) : module.class));
    const fused = recording.fused.get(step.part_of);
    const direction = sideOf(step);
    return element(
      "div",
      { class: "step-head" },
      element(
        "p",
        { class: "crumbs" },
        element(
          "span",
          { class: `direction ${direction}` },
          direction === "forward" ? "\u2192 forward" : "\u2190 backward",
        ),
        " ",
        chain.flatMap((name, i) => [
          i ? element("span", { class: "soft", "aria-hidden": "true" }, " \u203a ") : "",
          name,
        ]),
        fused
          ? element("span", { class: "soft" }, ` \u203a part of the fused ${fused.op}, run step by step`)
          : "",
      ),
      element(
        "h2",
        { id: "step-title", tabindex: "-1" },
        element("span", { class: "soft" }, `${step.id} `),
        step.op,
        step.kind === "backward" ? element("span", { class: "soft" }, " backward") : "",
      ),
      (step.notes || []).map((note) =>
        element("p", { class: "note" }, element("strong", {}, "Unexpected: "), note),
      ),
    );
  }

  facts(step) {
    const { recording, at } = this;
    const forward = recording.forwardOf(step) || step;
    const backward = step.kind === "forward" ? recording.steps[recording.partner(at)] : step;
    if (step.kind === "accumulate" || step.side) {
      return element(
        "div",
        { class: "facts" },
        element("div", { class: "formulas" }, formula(step.side ? "line" : "formula", step, true), this.jumps(step)),
        this.source(step),
      );
    }
    return element(
      "div",
      { class: "facts" },
      element(
        "div",
        { class: "formulas" },
        formula("forward", forward, step === forward),
        backward === forward ? null : formula("backward", backward, step === backward),
        settings(step),
        this.jumps(step),
        derivation(this.recording, step),
      ),
      this.source(step),
    );
  }

  /** Links to the operation's forward or backward, and to the makers of its output gradient. */
  jumps(step) {
    const { recording, at } = this;
    const partner = recording.partner(at);
    const makers = recording.gradientMakers(at);
    const lines = [];
    if (partner !== undefined) {
      lines.push([
        step.kind === "forward" ? "Backward step: " : "Forward step: ",
        stepLink(recording, partner),
        " ",
        key("b"),
      ]);
    } else if (step.kind === "forward" && recording.lastForward < recording.steps.length - 1) {
      lines.push(["No gradient reaches this step."]);
    }
    const whose = step.kind === "accumulate" ? "This gradient" : "The gradient of the output";
    if (makers.length)
      lines.push([`${whose} was computed by `, ...stepLinks(recording, makers), " ", key("g")]);
    else if (step.kind === "backward") lines.push(["The backward pass starts here."]);
    return element(
      "div",
      { class: "jumps" },
      lines.map((line) => element("p", {}, line)),
    );
  }

  source(step) {
    const { source, called_at: called, definition } = step;
    return element(
      "div",
      { class: "source" },
      source ? excerpt(source) : null,
      called && source && (called.file !== source.file || called.line !== source.line)
        ? element(
            "p",
            {},
            element("span", { class: "soft" }, "called from "),
            element("code", {}, `${called.file}:${called.line}`),
            " ",
            element("code", { class: "soft" }, oneLine(called)),
          )
        : null,
      definition
        ? element(
            "p",
            {},
            element("span", { class: "soft" }, `${step.op} is defined in `),
            element("code", {}, `${definition.file}:${definition.line}`),
          )
        : null,
    );
  }

  forward(step) {
    const { recording, at } = this;
    const bound = largest(recording.shown(step).filter(isReal));
    const names = step.input_names || [];
    const inputs = step.inputs.map((input, i) => {
      const title = names[i] ? `input ${names[i]}` : `input ${i + 1}`;
      if (input === null) return null;
      if (typeof input === "object") return numberCard(title, input.number);
      return tensorCard(recording, recording.tensor(input), at, {
        title,
        bound: this.boundFor(bound, [input]),
      });
    });
    const outputs = step.outputs.map((output, i) => {
      const name = (step.output_names || [])[i];
      const title = name
        ? `output ${name}`
        : step.outputs.length > 1
          ? `output ${i + 1}`
          : "output";
      const remarks = (step.aliases || [])
        .filter(([out]) => out === i)
        .map(([, input]) => `shares memory with input ${names[input] || input + 1}`);
      return tensorCard(recording, recording.tensor(output), at, {
        title,
        bound: this.boundFor(bound, [output]),
        remarks,
        made: true,
      });
    });
    return [this.scale(bound), cardGrid([...inputs.filter(Boolean), ...outputs])];
  }

  backward(step) {
    const { recording, at } = this;
    const bound = largest(recording.shown(step).filter(isReal));
    const forward = recording.forwardOf(step);
    const many = (step.grads || []).length > 1;
    const grads = (step.grads || []).map((id, i) =>
      id === null
        ? null
        : tensorCard(recording, recording.tensor(id), at, {
            title: `arrives: gradient of output${many ? ` ${i + 1}` : ""}`,
            bound: this.boundFor(bound, [id]),
            plain: true,
          }),
    );
    const added = step.added || [];
    const first = added.filter((one) => this.isFirst(one));
    return [
      this.scale(bound),
      cardGrid([...grads.filter(Boolean), ...first.map((one) => this.firstCard(one, bound))]),
      added.filter((one) => !this.isFirst(one)).map((one) => this.sum(one, bound)),
      added.length ? null : element("p", { class: "soft" }, "This step does not add to any gradient."),
      forward ? this.saved(forward) : null,
    ];
  }

  /** True if the gradient equals its first contribution, so that one map suffices. */
  isFirst(added) {
    if (typeof added.before === "number") return false;
    if (added.after === added.contribution) return true;
    const [one, other] = [added.contribution, added.after].map((id) =>
      this.recording.values(this.recording.tensor(id)),
    );
    return (
      Boolean(one && other) &&
      one.length === other.length &&
      one.every((value, i) => Object.is(value, other[i]))
    );
  }

  firstCard(added, bound) {
    const { recording, at } = this;
    const card = tensorCard(recording, recording.tensor(added.contribution), at, {
      title: "contribution",
      name: this.targetName(added),
      bound: this.boundFor(bound, [added.contribution]),
      plain: true,
      made: true,
    });
    const step = recording.steps[at];
    card.append(
      element(
        "p",
        { class: "travel" },
        step.kind === "accumulate"
          ? ".grad was empty: nothing + contribution = contribution"
          : "First contribution: nothing + contribution = contribution",
        this.rest(added),
      ),
    );
    return card;
  }

  targetName(added) {
    const target = this.recording.tensor(added.tensor);
    const name = target ? target.name : "a tensor from before the recording";
    return this.recording.steps[this.at].kind === "accumulate"
      ? `${name}.grad`
      : `gradient of ${name}`;
  }

  /** Show before + contribution = after in three heat maps with the same scale. */
  sum(added, bound) {
    const { recording, at } = this;
    const from = recording.position.get(added.from_step);
    const ids = [added.before, added.contribution, added.after];
    const shared = this.boundFor(
      bound,
      ids.filter((id) => typeof id === "number"),
    );
    const card = (id, title) =>
      typeof id === "number"
        ? tensorCard(recording, recording.tensor(id), at, {
            title,
            name: "",
            bound: shared,
            plain: true,
            largestCell: 34,
            made: title === "after",
          })
        : element(
            "section",
            { class: "card" },
            element("h3", {}, element("span", { class: "role" }, title)),
            element("p", { class: "soft" }, "nothing yet"),
          );
    const sign = (text, word) =>
      element("span", { class: "sign", role: "img", "aria-label": word }, text);
    const name = this.targetName(added);
    return element(
      "section",
      { class: "sum", "aria-label": `${name}: before plus contribution is after` },
      element(
        "h3",
        {},
        breakable(name),
        element(
          "span",
          { class: "aside-note" },
          from === undefined ? "" : [", made by ", stepLink(recording, from)],
          this.rest(added),
        ),
      ),
      element(
        "div",
        { class: "equation" },
        card(added.before, "before"),
        sign("+", "plus"),
        card(added.contribution, "contribution"),
        sign("=", "is"),
        card(added.after, "after"),
      ),
    );
  }

  /** List the other steps that add to the same gradient. */
  rest(added) {
    const growths = this.recording.growths.get(added.tensor) || [];
    const place = growths.findIndex((growth) => growth.added === added);
    if (growths.length < 2 || place < 0) return "";
    const others = growths.filter((_, i) => i !== place).map((growth) => growth.position);
    return [
      `; contribution ${place + 1} of ${growths.length}, the other${others.length > 1 ? "s" : ""} by `,
      ...stepLinks(this.recording, others),
    ];
  }

  /** Inputs and outputs of the forward step, expanded on demand. */
  saved(forward) {
    const { recording } = this;
    const at = recording.position.get(forward.id);
    const body = element("div", {});
    const fill = () => {
      if (!details.open || body.firstChild) return;
      const cards = [
        ...forward.inputs.map((id, i) => [id, `input ${i + 1}`]),
        ...forward.outputs.map((id) => [id, "output"]),
      ]
        .filter(([id]) => typeof id === "number")
        .map(([id, title]) =>
          tensorCard(recording, recording.tensor(id), at, {
            title,
            bound: largest([recording.tensor(id)]),
            plain: true,
          }),
        );
      body.append(cardGrid(cards));
    };
    const details = element(
      "details",
      { ontoggle: fill },
      element(
        "summary",
        {},
        `Inputs and outputs of forward step ${recording.label(at)}`,
      ),
      body,
    );
    return details;
  }

  boundFor(bound, ids) {
    return this.ownScale ? largest(ids.map((id) => this.recording.tensor(id))) : bound;
  }

  /** Legend, and the switch between a common scale and separate scales. */
  scale(bound) {
    if (!bound) return null;
    const box = element("input", {
      type: "checkbox",
      id: "own-scale",
      onchange: () => this.rescale(box.checked),
    });
    box.checked = this.ownScale;
    return element(
      "div",
      { class: "scale" },
      this.ownScale
        ? element(
            "span",
            { class: "soft" },
            "each map from \u2212 to + its largest absolute value",
          )
        : scaleLegend(bound),
      element("label", {}, box, " own scale for each"),
      element("span", { class: "soft" }, "negative values in small cells are marked with ", element("b", {}, MINUS)),
    );
  }

  rescale(own) {
    this.ownScale = own;
    this.show(this.at);
    document.getElementById("own-scale").focus();
    announce(own ? "Each heat map has its own scale." : "All heat maps of a step share one scale.");
  }
}
