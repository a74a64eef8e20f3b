"""Programs with one fuzzed call: choose a public callable, and write a call as source text."""

import inspect
import re

from .arguments import HOSTILE, TENSORS, usual

__all__ = ["Program", "callables", "write"]

MODULES = ("mt", "F", "nn", "nn.init", "nn.utils", "nn.utils.rnn", "mt.masks", "mt.linalg",
           "mt.fft", "mt.optim", "mt.optim.lr_scheduler", "mt.generation", "mt.utils",
           "mt.utils.data", "mt.autograd", "mt.amp", "mt.jit", "mt.cuda", "mt.backends",
           "mt.gradcheck", "mt.data", "mt.models", "mt.viz", "mt.memory", "mt.tracing",
           "mt.profiling", "mt.training", "mt.einops", "mt.distributed")  # fmt: skip
# Public names that programs do not call: {reason: names}.
NOT_CALLED = {
    "starts MPI or ends it": "mt.distributed.init_process_group "
    "mt.distributed.destroy_process_group",
    "contains constants, or is created by a function": "mt.distributed.ReduceOp "
    "mt.distributed.group mt.distributed.GroupMember mt.distributed.ProcessGroup "
    "mt.distributed.Work",
    "reads or writes files, as `tools.fuzz readers` does": "mt.load mt.save mt.data.cifar10 "
    "mt.data.download mt.data.local_path mt.data.mnist mt.data.read_idx mt.data.read_image "
    "mt.data.read_parallel mt.data.read_text mt.data.read_tsv mt.data.ImageFolder mt.data.ByteBPE "
    "mt.data.SpeechFolder mt.data.read_wav mt.data.write_wav "
    "mt.models.from_pretrained mt.training.Checkpoints mt.training.Loop mt.training.Progress "
    "mt.training.RunFolder",
    "builds a model of millions of parameters": "mt.models.bart_base mt.models.bart_large "
    "mt.models.conformer_l mt.models.conformer_m mt.models.conformer_s "
    "mt.models.bert_base mt.models.bert_large "
    "mt.models.bert_medium mt.models.bert_mini mt.models.bert_small mt.models.bert_tiny "
    "mt.models.clip_b_16 mt.models.clip_b_32 mt.models.clip_l_14 "
    "mt.models.deit_b_16 mt.models.deit_s_16 mt.models.deit_ti_16 mt.models.detr_resnet101 "
    "mt.models.detr_resnet101_dc5 mt.models.detr_resnet50 mt.models.detr_resnet50_dc5 "
    "mt.models.dinov2_b_14 mt.models.dinov2_g_14 mt.models.dinov2_l_14 mt.models.dinov2_s_14 "
    "mt.models.gpt2 mt.models.gpt2_large mt.models.gpt2_medium mt.models.gpt2_xl "
    "mt.models.image_gpt_l mt.models.image_gpt_m mt.models.image_gpt_s mt.models.llama2_70b "
    "mt.models.llama3_8b mt.models.llama_13b mt.models.llama_33b mt.models.llama_65b "
    "mt.models.llama_7b mt.models.lr_net_26 mt.models.lr_net_50 mt.models.mae_b_16 "
    "mt.models.mae_h_14 mt.models.mae_l_16 mt.models.marian_base mt.models.mvit_b_16x4 "
    "mt.models.mvitv2_b mt.models.mvitv2_l mt.models.mvitv2_s mt.models.mvitv2_s_16x4 "
    "mt.models.mvitv2_t mt.models.non_local_resnet50 mt.models.resnet101 mt.models.resnet152 "
    "mt.models.resnet18 mt.models.resnet34 mt.models.resnet50 mt.models.swin_b "
    "mt.models.swin_l mt.models.swin_s mt.models.swin_t mt.models.swinv2_b mt.models.swinv2_l "
    "mt.models.swinv2_s mt.models.swinv2_t mt.models.t5_11b mt.models.t5_3b mt.models.t5_base "
    "mt.models.t5_large mt.models.t5_small mt.models.t5_v1_1_base mt.models.t5_v1_1_large "
    "mt.models.t5_v1_1_small mt.models.t5_v1_1_xl mt.models.t5_v1_1_xxl "
    "mt.models.timesformer_b mt.models.transformer_base mt.models.transformer_big "
    "mt.models.uniter_base mt.models.uniter_large mt.models.vilt_b_32 "
    "mt.models.vatt_bbs mt.models.vatt_lbs mt.models.vatt_ma_medium mt.models.vatt_mbs "
    "mt.models.video_mae_b mt.models.video_mae_l mt.models.video_mae_s "
    "mt.models.vision_transformer mt.models.vit_b_16 mt.models.vit_b_32 mt.models.vit_h_14 "
    "mt.models.vit_l_16 mt.models.vit_l_32 mt.models.vit_s_16 mt.models.vit_s_32 "
    "mt.models.vit_ti_16",
    "waits for another thread": "mt.generation.TextIteratorStreamer",
    "measures the speed of the machine": "mt.profiling.ceilings",
    "is made by the library, not by its users": "mt.autograd.Leaf mt.autograd.Context "
    "mt.autograd.Step mt.gradcheck.GradcheckItem mt.gradcheck.GradcheckReport mt.gradcheck.Hint "
    "mt.gradcheck.GradcheckError mt.profiling.Ceilings mt.profiling.Event mt.profiling.Profile "
    "mt.tracing.Difference mt.memory.MemoryTracker Optimizer.update LRScheduler.first_step",
}
_SKIPPED = {name for names in NOT_CALLED.values() for name in names.split()}
_SUBJECTS = {
    "Tensor": TENSORS,
    "Module": ["nn.Linear(3, 3)", "nn.Sequential(nn.Linear(3, 3), nn.ReLU())",
               "nn.MultiheadAttention(8, 2)", "nn.LSTM(3, 4)", "nn.ModuleList([nn.ReLU()])",
               "nn.ModuleDict({'a': nn.ReLU()})", "nn.ParameterList([mt.ones(2)])",
               "nn.ParameterDict({'a': mt.ones(2)})"],
    "ModuleList": ["nn.ModuleList([nn.ReLU()])", "nn.Sequential(nn.ReLU())"],
    "ModuleDict": ["nn.ModuleDict({'a': nn.ReLU()})"],
    "ParameterList": ["nn.ParameterList([mt.ones(2)])"],
    "ParameterDict": ["nn.ParameterDict({'a': mt.ones(2)})"],
    "Optimizer": ["mt.optim.SGD(P, 0.1)", "mt.optim.Adam(P)", "mt.optim.AdamW(P)"],
    "LRScheduler": ["mt.optim.lr_scheduler.StepLR(O, 1)",
                    "mt.optim.lr_scheduler.ReduceLROnPlateau(O)"],
    "Mask": ["mt.masks.causal(4)", "mt.masks.padding([2, 3], 4)"],
    "GenerationConfig": ["mt.generation.GenerationConfig()"],
    "Embedding": ["nn.Embedding(4, 3)"],
    "EmbeddingBag": ["nn.EmbeddingBag(4, 3)"],
    "LazyLinear": ["nn.LazyLinear(3)"],
    "BatchNorm1d": ["nn.BatchNorm1d(3)"],
    "LSTM": ["nn.LSTM(3, 4)"],
    "Attention": ["nn.Attention(8, 2)"],
    "MultiheadAttention": ["nn.MultiheadAttention(8, 2)"],
    "AdditiveAttention": ["nn.AdditiveAttention(3, 3, 4)"],
    "LuongAttention": ["nn.LuongAttention(3, 3)", "nn.LuongAttention(3, 3, local='predictive')"],
    "MaxPool2d": ["nn.MaxPool2d(2)"],
    "AdaptiveAvgPool2d": ["nn.AdaptiveAvgPool2d(2)"],
    "LearnedPositionalEmbedding2d": ["nn.LearnedPositionalEmbedding2d(3, 3, 4)"],
    "KVCache": ["nn.KVCache()"],
    "StaticKVCache": ["nn.StaticKVCache(4)"],
    "Transformer": ["nn.Transformer(8, 2, 1, 1, 8)"],
    "PackedSequence": ["nn.utils.rnn.pack_sequence([mt.ones(3, 2), mt.ones(2, 2)])"],
    "Complex": ["mt.fft.rfft(mt.ones(2, 4))"],
    "LBFGS": ["mt.optim.LBFGS(P)"],
    "Adafactor": ["mt.optim.Adafactor(P)"],
    "ChainedScheduler": ["mt.optim.lr_scheduler.ChainedScheduler("
                         "[mt.optim.lr_scheduler.StepLR(O, 1)])"],
    "SequentialLR": ["mt.optim.lr_scheduler.SequentialLR(O, [mt.optim.lr_scheduler.StepLR(O, 1), "
                     "mt.optim.lr_scheduler.StepLR(O, 2)], [1])"],
    "CosineAnnealingWarmRestarts": ["mt.optim.lr_scheduler.CosineAnnealingWarmRestarts(O, 2)"],
    "ReduceLROnPlateau": ["mt.optim.lr_scheduler.ReduceLROnPlateau(O)"],
    "TextStreamer": ["mt.generation.TextStreamer(mt.data.CharTokenizer('abc'))"],
    "Function": ["mt.autograd.Function"],
    "GradScaler": ["mt.amp.GradScaler()", "mt.amp.GradScaler(enabled=False)"],
    "MasterWeights": ["mt.amp.MasterWeights(O)"],
    "Generator": ["mt.Generator()"],
    "EpochSampler": ["mt.utils.data.EpochSampler([1, 2, 3])"],
    "TensorDataset": ["mt.utils.data.TensorDataset(mt.rand(6, 2))"],
    "CharTokenizer": ["mt.data.CharTokenizer('abc')"],
    "WordTokenizer": ["mt.data.WordTokenizer(['a', 'b'])"],
    "GPT": ["mt.models.GPT(11, 8, 8, 2, 1)"],
    "VisionTransformer": ["mt.models.VisionTransformer(8, 4, 3, 8, 2, 1)"],
    "RecurrentState": ["mt.models.RecurrentState()"],
    "Seq2Seq": ["mt.models.Seq2Seq(mt.models.RecurrentEncoder(11, 3, 4), "
                "mt.models.RecurrentDecoder(11, 3, 4))"],
}  # fmt: skip
_OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "==", "!=", "<", "<=", ">",
              ">="]  # fmt: skip
_GROUPS = {
    "call": 10, "module": 6, "method": 6, "operator": 1, "index": 2, "optimizer": 1, "scheduler": 2,
    "processor": 2, "object": 4, "data": 1, "model": 1, "protocol": 1,
}  # fmt: skip


class Program:
    """Source text of a fuzzed call.

    Parameters
    ----------
    name : str
        Name of the fuzzed callable, such as "F.softmax".
    text : str
        Statements, separated by semicolons, that assign the result to `r`.
    parameters : tuple of str
        Names of the callable's parameters.
    """

    def __init__(self, name, text, parameters=()):
        self.name, self.text, self.parameters = name, text, tuple(parameters)


def callables(space):
    """Return a dict of the public callables: {group in `_GROUPS`: list of (name, callable)}.

    Parameters
    ----------
    space : dict
        Namespace in which programs run.
    """
    found = {group: [] for group in _GROUPS}
    seen = set()
    for module in MODULES:
        holder = eval(module, space)
        for name in public_names(holder):
            value = getattr(holder, name)
            full = f"{module}.{name}"
            wanted = callable(value) and _of_package(value) and full not in _SKIPPED
            if wanted and id(value) not in seen:
                seen.add(id(value))
                found[_group(value, space)].append((full, value))
    seen = set()
    for kind in _SUBJECTS:
        cls = _class(kind, space)
        group = "method" if kind == "Tensor" else "object"
        for name in sorted(dir(cls)):
            value = getattr(cls, name)
            code = getattr(value, "__func__", value)  # the function of a class method
            full = f"{kind}.{name}"
            wanted = callable(value) and full not in _SKIPPED and not name.startswith("_")
            if kind not in ("Tensor", "Module"):
                wanted = wanted and _of_package(code) and code not in seen
                wanted = wanted and name not in ("forward", "pool")  # `pool` is an operation
            if wanted:
                seen.add(code)
                found[group].append((full, value))
    return found


def public_names(holder):
    """Return the public names of a module of the package, including those imported on first use."""
    names = getattr(holder, "__all__", None) or {*vars(holder), *getattr(holder, "_DEFINED_IN", ())}
    return sorted(name for name in names if not name.startswith("_"))


def write(choice, found):
    """Return a random program.

    It calls one of the callables in `found`, or uses an operator, an index or a Python protocol
    such as `float(x)`.

    Parameters
    ----------
    choice : random.Random
    found : dict
        Result of `callables`.

    Returns
    -------
    Program
    """
    group = choice.choices(list(_GROUPS), weights=_GROUPS.values())[0]
    if group in ("operator", "index", "protocol"):
        return _WRITERS[group](choice)
    name, value = choice.choice(found[group])
    names = parameters_of(value)
    return Program(name, _WRITERS.get(group, _call)(choice, name, value), names)


def parameters_of(value):
    """Return the parameter names of a callable. For a class, add those of its methods."""
    names = list(_signature(value))
    for method in ("forward", "__call__", "__getitem__"):
        if inspect.isclass(value) and method in dir(value):
            names += _signature(getattr(value, method))
    return [name for name in names if name not in ("self", "args", "kwargs")]


def _signature(value):
    try:
        return inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}


def _of_package(value):
    return str(getattr(value, "__module__", "")).startswith("minitorch_attn")


def _class(kind, space):
    nn, mt = space["nn"], space["mt"]
    places = (mt, nn, mt.optim, mt.optim.lr_scheduler, mt.generation, nn.utils.rnn, mt.fft,
              mt.autograd, mt.amp, mt.utils.data, mt.data, mt.models)  # fmt: skip
    return next(getattr(place, kind) for place in places if hasattr(place, kind))


def _group(value, space):
    if not inspect.isclass(value):
        return "call"
    if issubclass(value, space["nn"].Module):
        return "model" if ".models." in value.__module__ else "module"
    if issubclass(value, space["mt"].optim.Optimizer):
        return "optimizer"
    module = value.__module__
    if ".lr_scheduler" in module:
        return "scheduler"
    if ".generation" in module:
        return "processor"
    return "data" if ".utils.data" in module or ".data." in module else "call"


# Writers of each group


def _call(choice, name, value):
    return f"r = {name}({_arguments(choice, _signature(value))})"


def _module(choice, name, value):
    text = f"m = {name}({_arguments(choice, _signature(value), calm=True)}); r = m("
    forward = dict(_signature(value.forward))
    forward.pop("self", None)
    return text + _arguments(choice, forward) + ")"


def _method(choice, name, value):
    kind, _, method = name.partition(".")
    names = dict(_signature(value))
    if names and next(iter(names)) in ("self", "input", "x", "tensor", "cls"):
        names.pop(next(iter(names)))
    text = f"o = {choice.choice(_SUBJECTS[kind])}; r = o.{method}({_arguments(choice, names)})"
    if kind in _PREPARE:
        number = "0.5" if "Plateau" in text else ""
        text = f"{_PREPARED}{text}; " + ("" if kind == "LBFGS" else f"o.step({number})")
    elif method.startswith("register") and kind != "Tensor":
        text += "; y = o(mt.rand(2, 3, requires_grad=True))"
    elif method.startswith("register"):
        text += "; y = (o * 2).sum().backward()"
    return text


_PREPARE = {"Optimizer", "LRScheduler", "ChainedScheduler", "SequentialLR", "LBFGS", "Adafactor",
            "CosineAnnealingWarmRestarts", "MasterWeights", "ReduceLROnPlateau"}  # fmt: skip
_PREPARED = (
    "p = mt.ones(3, requires_grad=True); P = [p]; p.sum().backward(); O = mt.optim.SGD(P, 0.1); "
)


def _optimizer(choice, name, value):
    names = dict(_signature(value))
    names.pop("params", None)
    first = "P" if choice.random() < 0.7 else _value(choice, "params")
    return f"{_PREPARED}r = {name}({_after(first, _arguments(choice, names))}); r.step(); r.step()"


def _scheduler(choice, name, value):
    names = dict(_signature(value))
    names.pop("optimizer", None)
    first = "O" if choice.random() < 0.8 else _value(choice, "optimizer")
    arguments = _after(first, _arguments(choice, names))
    text = f"{_PREPARED}O = mt.optim.SGD(P, 0.1); r = {name}({arguments})"
    steps = "r.step(0.5)" if name.endswith("Plateau") else "r.step()"
    return f"{text}; {steps}; {steps}"


def _processor(choice, name, value):
    text = f"r = {name}({_arguments(choice, _signature(value))})"
    if "__call__" not in dir(value):
        return text
    names = dict(_signature(value.__call__))
    names.pop("self", None)
    return f"{text}; r = r({_arguments(choice, names, calm=True)})"


def _data(choice, name, value):
    text = f"r = {name}({_arguments(choice, _signature(value))})"
    if "__iter__" in dir(value) and choice.random() < 0.5:
        return f"{text}; r = iter(r)"
    if "__getitem__" not in dir(value):
        return text
    return f"{text}; r = r[{_value(choice, 'index')}]"


def _model(choice, name, value):
    settings, inputs = _MODELS[name.rpartition(".")[2]]
    settings = dict(setting.split("=") for setting in settings.split("|"))
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = {key for key, found in _signature(value).items() if found.kind not in kinds}
    names = sorted(names | {*settings})
    for parameter in choice.sample(names, min(choice.choice((0, 1, 1, 1, 2)), len(names))):
        settings[parameter] = _value(choice, parameter)
    text = ", ".join(f"{key}={setting}" for key, setting in settings.items())
    forward = dict(_signature(value.forward))
    forward.pop("self", None)
    if choice.random() < 0.5:
        inputs = _arguments(choice, forward)
    return f"m = {name}({text}); r = m({inputs})"


_STAGES = "num_classes=5|embed_dim=8|depths=[1, 1]|num_heads=[1, 2]|window_size=2"
_IMAGE = "image_size=8|patch_size=4|embed_dim=8|num_layers=1|num_heads=2|mlp_dim=8"
_TEXT = "vocab_size=11|embed_dim=8|num_heads=2|num_layers=1|ff_dim=8"
_PAIRED = "vocab_size=11|embed_dim=8|num_heads=2|num_encoder_layers=1|num_decoder_layers=1|ff_dim=8"
_IDS, _PIXELS = "mt.tensor([[1, 2, 3]])", "mt.rand(1, 3, 8, 8)"
_DETR = ("backbone=nn.Conv2d(3, 4, 2, 2)|backbone_dim=4|num_classes=5|num_queries=3|embed_dim=8|"
         "num_heads=2|ff_dim=8|num_encoder_layers=1|num_decoder_layers=1")  # fmt: skip
_POOLED = "embed_dim=8|num_heads=2|kernel_q=(1, 3, 3)|stride_q=(1, 2, 2)"
_MULTISCALE = ("input_size=(8, 8)|num_classes=5|embed_dim=8|depths=(1, 1)|patch_kernel=(3, 3)|"
               "patch_stride=(2, 2)|patch_padding=(1, 1)|kernel=(3, 3)|stride_q=(2, 2)|"
               "stride_kv=(2, 2)")  # fmt: skip
_CLIP, _TOKENS = "mt.rand(1, 3, 2, 8, 8)", "mt.rand(1, 17, 8), (1, 4, 4)"
_UNITER = "uniter=mt.models.UNITER(11, 3, 8, 2, 1)"
_REGIONS = f"{_IDS}, mt.rand(1, 2, 3), mt.rand(1, 2, 7)"
_FRAMES = "mt.models.ConformerEncoder(11, 8, 2, 1, 3)"
_MODELS = {  # arguments that build a small model, and its usual input
    "GPT": (f"{_TEXT}|context_length=8", _IDS),
    "ImageGPT": ("num_clusters=11|num_pixels=8|embed_dim=8|num_heads=2|num_layers=1", _IDS),
    "Llama": (_TEXT, _IDS),
    "T5": (f"{_TEXT}|head_dim=4", f"{_IDS}, {_IDS}"),
    **dict.fromkeys(("BART", "Marian", "Transformer"), (_PAIRED, f"{_IDS}, {_IDS}")),
    "ConditionalMaskedLM": (_PAIRED, f"{_IDS}, {_IDS}"),
    "RecurrentEncoder": ("vocab_size=11|embed_dim=3|hidden_dim=4", _IDS),
    "RecurrentDecoder": ("vocab_size=11|embed_dim=3|hidden_dim=4",
                         f"{_IDS}, mt.rand(1, 2, 4), (mt.rand(1, 1, 4), mt.rand(1, 1, 4))"),
    "Seq2Seq": ("encoder=mt.models.RecurrentEncoder(11, 3, 4)|"
                "decoder=mt.models.RecurrentDecoder(11, 3, 4)", f"{_IDS}, {_IDS}"),
    **{f"BERT{kind}": (_TEXT, _IDS) for kind in ("", "MaskedLM", "PreTraining",
                                                 "QuestionAnswering")},
    **{f"BERT{kind}Classifier": (f"num_classes=3|{_TEXT}", _IDS) for kind in ("", "Token")},
    "UNITER": (f"{_TEXT}|feature_dim=3", _REGIONS),
    "UNITERPreTraining": (f"num_classes=5|{_UNITER}", _REGIONS),
    "UNITERClassifier": (f"num_classes=5|{_UNITER}", _REGIONS),
    "VisualBERT": (f"{_TEXT}|feature_dim=3", f"{_IDS}, mt.rand(1, 2, 3)"),
    "ViLT": (f"{_IMAGE}|vocab_size=11", f"{_IDS}, {_PIXELS}"),
    **dict.fromkeys(("Swin", "SwinV2"), (f"image_size=8|patch_size=2|{_STAGES}", _PIXELS)),
    **dict.fromkeys(("DETR", "ReferenceDETR"), (_DETR, _PIXELS)),
    **dict.fromkeys(("MViT", "MViTv2"), (_MULTISCALE, _PIXELS)),
    "MultiscaleBlock": (f"output_dim=8|{_POOLED}", _TOKENS),
    "PoolingAttention": (_POOLED, _TOKENS),
    "TimeSformer": (f"{_IMAGE}|num_frames=2|num_classes=5", _CLIP),
    "VATT": ("video_size=(2, 8, 8)|video_patch=(1, 4, 4)|audio_length=6|audio_patch=2|"
             "vocab_size=11|text_length=7|embed_dim=8|num_heads=2|num_layers=1|mlp_dim=8|"
             "common_dim=5|text_common_dim=3", "mt.rand(2, 3, 2, 8, 8), mt.rand(2, 6)"),
    "CTCRecognizer": (f"encoder={_FRAMES}|vocab_size=5", "mt.rand(2, 17, 11)"),
    "LSTMEncoder": ("input_dim=11|embed_dim=8|hidden_dim=5|num_layers=1", "mt.rand(2, 17, 11)"),
    "RelativeAttention": ("embed_dim=8|num_heads=2", "mt.rand(2, 5, 8)"),
    "SpeechSeq2Seq": (f"encoder={_FRAMES}|vocab_size=11|num_layers=1|num_heads=2|ff_dim=8",
                      f"mt.rand(1, 17, 11), {_IDS}"),
    "Wav2Vec2Conformer": ("channels=(4, 6)|kernels=(5, 3)|strides=(3, 2)|embed_dim=6|num_heads=3|"
                          "hidden_dim=8|num_layers=1|kernel_size=3", "mt.rand(2, 50)"),
    "ConformerBlock": ("embed_dim=8|num_heads=2|kernel_size=3", "mt.rand(2, 5, 8)"),
    "ConformerEncoder": ("input_dim=11|embed_dim=8|num_heads=2|num_layers=1|kernel_size=3",
                         "mt.rand(2, 17, 11)"),
    "ConvSubsampling": ("input_dim=11|embed_dim=8", "mt.rand(2, 17, 11)"),
    "VideoMAE": (f"{_IMAGE}|num_frames=2|decoder_dim=8|decoder_layers=1|decoder_heads=2|"
                 "decoder_mlp_dim=8", _CLIP),
    "LRNet": ("layers=[1, 1]|num_classes=5|widths=[4, 6]|channels=[5, 7]|stem_channels=4|"
              "kernel_size=3|channels_per_group=2", _PIXELS),
    "LocalRelation": ("channels=3|kernel_size=3|channels_per_group=1", _PIXELS),
    "LocalSelfAttention": ("in_channels=3|out_channels=8|kernel_size=3|num_heads=2", _PIXELS),
    "NonLocalBlock": ("in_channels=3", _PIXELS),
    "ResNet": ("block=mt.models.resnet.BasicBlock|layers=[1, 1]|num_classes=5|channels=[4, 6]",
               _PIXELS),
    **dict.fromkeys(("VisionTransformer", "DistilledVisionTransformer"),
                    (f"{_IMAGE}|num_classes=5", _PIXELS)),
    **dict.fromkeys(("DINOTransformer", "DINOv2", "ImageTower"), (_IMAGE, _PIXELS)),
    "TextTower": ("vocab_size=11|context_length=8|embed_dim=8|num_layers=1|num_heads=2|mlp_dim=8",
                  _IDS),
    "CLIP": ("vision=nn.Sequential(nn.Flatten(), nn.Linear(192, 512))|"
             "text=mt.models.TextTower(11, 8, 8, 1, 2, 8)", f"{_PIXELS}, {_IDS}"),
    "DINO": ("make_network=lambda: mt.nn.Flatten()|out_dim=192", f"[{_PIXELS}, {_PIXELS}]"),
    "DINOHead": ("in_dim=4|out_dim=5|hidden_dim=6|bottleneck_dim=3", "mt.rand(2, 4)"),
    "MaskedAutoencoder": (f"{_IMAGE}|decoder_dim=8|decoder_layers=1|decoder_heads=2|"
                          "decoder_mlp_dim=8", _PIXELS),
    "ShowAttendTell": ("vocab_size=7|annotation_dim=5|embed_dim=2|hidden_dim=3|attention_dim=4",
                       f"mt.rand(1, 6, 5), {_IDS}"),
    "SoftAttention": ("annotation_dim=5|hidden_dim=3|attention_dim=4",
                      "mt.rand(2, 6, 5), mt.rand(2, 3)"),
    "ConvEncoder": ("image_size=8|in_channels=3|channels=[4, 5]", _PIXELS),
    "Captioner": ("encoder=mt.models.ConvEncoder(8, 3, [4, 5])|"
                  "decoder=mt.models.ShowAttendTell(7, 5, 2, 3, 4)", f"{_PIXELS}, {_IDS}"),
    "ELMo": ("filters=[(1, 2), (3, 5)]|num_highway=1|embed_dim=3|hidden_dim=5", f"{_IDS}[None]"),
    "BiLM": ("vocab_size=7|elmo=mt.models.ELMo(11, 3, [(1, 2)], 1, 3, 5)", f"{_IDS}[None]"),
    "ScalarMix": ("num_layers=3", "mt.rand(3, 2, 4)"),
    "ToyModel": ("num_features=5|hidden_dim=2", "mt.rand(3, 5)"),
    "ToyModels": ("num_models=2|num_features=5|hidden_dim=2", "mt.rand(3, 2, 5)"),
    "SkipGram": ("vocab_size=11|embed_dim=3", _IDS),
    "CBOW": ("vocab_size=11|embed_dim=3", _IDS),
    "HierarchicalSoftmax": ("counts=[4, 2, 3, 1]|embed_dim=3", _IDS + "[0]"),
}  # fmt: skip


def _protocol(choice):
    """Write a program that uses a tensor or module through a Python protocol, as in `float(x)`."""
    text = choice.choice(_PROTOCOLS)
    for name, values in (("T", TENSORS), ("M", _SUBJECTS["Module"]), ("V", None)):
        value = choice.choice(values) if values else _value(choice, "value")
        text = text.replace(f"<{name}>", f"({value})")
    return Program("protocol", text)


_PROTOCOLS = """
r = float(<T>)|r = int(<T>)|r = bool(<T>)|r = complex(<T>)|r = len(<T>)|r = list(<T>)|r = hash(<T>)
r = <V> in <T>|r = format(<T>, <V>)|r = f'{<T>:.3f}'|r = round(<T>, 2)|r = divmod(<T>, <V>)
r = -<T>|r = +<T>|r = ~<T>|r = abs(<T>)|r = np.asarray(<T>)|r = np.asarray(<T>, dtype=<V>)
r = np.add(<T>, <V>)|r = np.ones(3) * <T>|r = np.sum(<T>)|r = [1, 2, 3][<T>]|r = range(<T>)
r = <T>; r += <V>|r = <T>; r -= <V>|r = <T>; r *= <V>|r = <T>; r /= <V>|r = <T>; r **= <V>
r = <T>; r //= <V>|r = <T>; r %= <V>|r = <T>; r @= <V>|r = <T>; r &= <V>|r = <T>; r |= <V>
r = <T>; r.grad = <V>|r = <T>; r.data = <V>|r = <T>; r.requires_grad = <V>|r = <T>.T|r = <T>.mT
r = <T>.shape[<V>]|r = sorted(<T>)|r = sum(<T>)|r = max(<T>)|r = <T>.grad_fn|r = <T>.device
r = <M>; r.weight = <V>|r = <M>; r.bias = <V>|r = <M>; r.x = <V>|r = <M>; del r.weight|r = len(<M>)
r = <M>[<V>]|r = <M>; r[<V>] = nn.ReLU()|r = <M>; r[0] = <V>|r = <M>; del r[<V>]|r = <V> in <M>
r = <M>; r += <V>|r = list(<M>)|r = <M>(<V>)|r = <M>; r.training = <V>|r = <M> + <V>
r = nn.Parameter(<T>); r.data = <V>|import copy; r = copy.deepcopy(<T>)
import copy; r = copy.copy(<M>)|import copy; r = copy.copy(<T>)
"""
_PROTOCOLS = re.split(r"\n|\|(?=r = |import)", _PROTOCOLS.strip())


def _operator(choice):
    left, right = choice.choice(TENSORS), _value(choice, "other")
    if choice.random() < 0.3:
        left, right = right, left
    return Program("Tensor", f"r = ({left}) {choice.choice(_OPERATORS)} ({right})")


def _index(choice):
    count = choice.choice((1, 1, 1, 2, 3))
    index = ", ".join(_value(choice, "index") for _ in range(count))
    subject = choice.choice(TENSORS)
    if choice.random() < 0.6:
        return Program("x[index]", f"r = ({subject})[{index}]", ("index", "mask"))
    text = f"r = {subject}; r[{index}] = {_value(choice, 'value')}"
    return Program("x[index]", text, ("index", "mask", "value"))


_WRITERS = {
    "module": _module, "method": _method, "object": _method, "optimizer": _optimizer,
    "scheduler": _scheduler, "processor": _processor, "data": _data, "operator": _operator,
    "index": _index, "model": _model, "protocol": _protocol,
}  # fmt: skip


# Arguments


def _arguments(choice, parameters, calm=False):
    """Return the source text of the arguments for a call with these parameters.

    Parameters
    ----------
    choice : random.Random
    parameters : mapping of str to inspect.Parameter
    calm : bool
        If True, most calls get usual arguments, so that the program is likely to reach its next
        call. If False, more calls get random arguments. In both cases, some calls get one wrong
        argument.
    """
    usual_only = calm and choice.random() < 0.8
    wrong = choice.choice([*parameters, ""]) if choice.random() < 0.4 else None
    positional, keywords = [], []
    by_name = False
    for name, parameter in parameters.items():
        if parameter.kind == parameter.VAR_POSITIONAL:
            positional += [_value(choice, name) for _ in range(choice.randrange(3))]
        elif parameter.kind == parameter.VAR_KEYWORD:
            by_name = True
        elif parameter.default is not parameter.empty and name != wrong and choice.random() < 0.6:
            by_name = True
        else:
            value = _value(choice, name)
            if usual_only or wrong is not None:
                value = choice.choice(HOSTILE if name == wrong else usual(name))
            if by_name or parameter.kind == parameter.KEYWORD_ONLY:
                keywords.append(f"{name}={value}")
            else:
                positional.append(value)
    if choice.random() < 0.02:
        positional = positional[:-1]
    if choice.random() < 0.01:
        keywords.append("nonsense=1")
    return ", ".join(positional + keywords)


def _after(first, rest):
    return f"{first}, {rest}" if rest else first


def _value(choice, name):
    number = choice.random()
    if number < 0.62:
        return choice.choice(usual(name))
    return choice.choice(TENSORS) if number < 0.75 else choice.choice(HOSTILE)
