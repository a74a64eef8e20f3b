"""Drivers: functions whose source text is sent to the submission's process and runs there.

Each driver takes arrays and settings, and returns arrays. Drivers do not contain answers, and they
import what they need.
"""

__all__ = ["call", "gradients", "layer", "operation"]


def operation(inputs, settings):
    """Call an operation's `forward` and, if the inputs contain `grad`, its `backward`.

    If there are several outputs, they are named "output 0", "output 1", ..., and the inputs that
    contain their gradients are named "grad 0", "grad 1", ...

    The settings are:

    * `operation`: the operation's class, as "module:Class"
    * `arguments`: for each argument of `forward`, the name of an input, or None
    * `keywords`: the keyword arguments of `forward`
    * `needs`: names of the inputs whose gradients are wanted
    * `seed`: random seed, for an operation that draws random numbers
    """
    from importlib import import_module

    import numpy as np

    mt = import_module("minitorch_attn")
    Context = mt.autograd.function.Context
    if settings.get("seed") is not None:
        mt.manual_seed(settings["seed"])

    module, name = settings["operation"].split(":")
    function = getattr(import_module(module), name)
    names, needs = settings["arguments"], settings["needs"]
    arguments = [None if key is None else inputs[key].copy() for key in names]
    ctx = Context()
    ctx.function, ctx.settings = function, settings["keywords"]
    ctx.needs_grad = [key in needs for key in names]
    ctx.shapes = tuple([getattr(x, "shape", None) for x in arguments])
    results = function.forward(ctx, *arguments, **ctx.settings)
    several = type(results) is tuple
    found = {
        f"output {i}" if several else "output": np.asarray(result)
        for i, result in enumerate(results if several else (results,))
    }
    ctx._clock = import_module("minitorch_attn.tensor").changes[0]  # in-place changes so far
    grads = [inputs[key].copy() for key in inputs if key.split(" ")[0] == "grad"]
    if grads:
        grads = function.backward(ctx, *grads)
        grads = grads if type(grads) is tuple else (grads,)
        if len(grads) != len(names):
            raise ValueError(
                f"{function.__name__}.backward returned {len(grads)} gradients for {len(names)} "
                "inputs: return one for each input of forward, or None if it has no gradient"
            )
        for key, grad in zip(names, grads, strict=True):
            if key in needs:
                found[f"grad_{key}"] = np.asarray(grad)
    for key, array in zip(names, arguments, strict=True):
        if key is not None:
            found[f"{key}_afterwards"] = array
    return found


def call(inputs, settings):
    """Call a function of the package on tensors.

    The result is named "output". If there are several results, they are named "output 0",
    "output 1", ...

    The settings are:

    * `function`: the function, as "module:name"
    * `arguments`: for each argument, the name of an input, or None
    * `keywords`: the keyword arguments
    """
    from importlib import import_module

    import numpy as np

    mt = import_module("minitorch_attn")
    module, name = settings["function"].split(":")
    function = getattr(import_module(module), name)
    tensors = [None if key is None else mt.tensor(inputs[key]) for key in settings["arguments"]]
    results = function(*tensors, **settings["keywords"])
    several = type(results) in (tuple, list)
    found = {}
    for number, result in enumerate(results if several else [results]):
        result = getattr(result, "attend", result)  # of a Mask
        array = result.numpy() if hasattr(result, "numpy") else np.asarray(result)
        found[f"output {number}" if several else "output"] = array
    return found


def layer(inputs, settings):
    """Run a layer or a model with given parameters.

    The input "parameter NAME" sets the parameter NAME.

    The settings are:

    * `layer`: the class of the layer or model, as "module:Class"
    * `make`: the keyword arguments of its constructor
    * `method`: the name of the method to call
    * `arguments`: for each argument of the method, the name of an input, or None
    * `tensors`: names of the inputs to pass as keyword arguments (optional)
    * `keywords`: the other keyword arguments
    """
    from importlib import import_module

    import numpy as np

    mt = import_module("minitorch_attn")
    module, name = settings["layer"].split(":")
    made = getattr(import_module(module), name)(**settings["make"]).double().eval()
    with mt.no_grad():
        for path, parameter in made.named_parameters():
            parameter.data = mt.tensor(inputs[f"parameter {path}"])
        arguments = [None if k is None else mt.tensor(inputs[k]) for k in settings["arguments"]]
        extra = {key: mt.tensor(inputs[key]) for key in settings.get("tensors", ())}
        result = getattr(made, settings["method"])(*arguments, **extra, **settings["keywords"])
    return {"output": np.asarray(result.numpy() if hasattr(result, "numpy") else result)}


def gradients(inputs, settings):
    """Compute gradients of a layer or a function of the package with the library's engine.

    The settings are the same as for `layer` or `call`, with one more: `needs` lists the inputs and
    the parameters (named "parameter NAME") whose gradients are wanted. The input "grad" is
    dL/d(output).
    """
    from importlib import import_module

    import numpy as np

    mt = import_module("minitorch_attn")
    leaves = {}
    for key, array in inputs.items():
        if key != "grad":
            leaves[key] = mt.tensor(array, requires_grad=array.dtype.kind == "f")
    if "layer" in settings:
        module, name = settings["layer"].split(":")
        made = getattr(import_module(module), name)(**settings["make"]).double().eval()
        for path, parameter in made.named_parameters():
            with mt.no_grad():
                parameter.data = leaves[f"parameter {path}"].detach()
            leaves[f"parameter {path}"] = parameter
        function = getattr(made, settings["method"])
    else:
        module, name = settings["function"].split(":")
        function = getattr(import_module(module), name)
    arguments = [None if key is None else leaves[key] for key in settings["arguments"]]
    extra = {key: leaves[key] for key in settings.get("tensors", ())}
    result = function(*arguments, **extra, **settings["keywords"])
    if not result.requires_grad:
        raise ValueError("the result does not require grad: some step is not recorded in the graph")
    result.backward(mt.tensor(inputs["grad"]))
    found = {}
    for key in settings["needs"]:
        if leaves[key].grad is None:
            raise ValueError(f"the gradient of {key} is missing: some step is not in the graph")
        found[f"grad_{key}"] = np.asarray(leaves[key].grad.numpy())
    return found
