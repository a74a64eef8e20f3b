"""A float32 model computes in float32: every array of every step, forward, backward and update."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import op_log
from minitorch_attn.models.dino import DINOHead
from minitorch_attn.models.set_loss import auxiliary_losses, total_loss


def tokens(rng, device, *shape):
    return mt.tensor(rng.integers(0, 11, shape), device=device)


def numbers(rng, device, *shape):
    return mt.tensor(rng.standard_normal(shape).astype("float32"), device=device)


class Image(nn.Module):
    """Convolution, both norms, pooling and upsampling in one stack."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.MaxPool2d(2),
            nn.ConvTranspose2d(4, 2, 2, stride=2), nn.GroupNorm(2, 2), nn.Dropout(0.3),
        )  # fmt: skip

    def forward(self, x):
        y = nn.functional.interpolate(self.body(x), scale_factor=1.5, mode="bicubic")
        return nn.functional.avg_pool2d(y, 2)


def gpt(rng, device):
    model = mt.models.GPT(11, 7, 12, 3, 2, dropout=0.2).to(device)
    return (
        model,
        model.parameters(),
        lambda: nn.functional.cross_entropy(
            model(tokens(rng, device, 2, 7)).reshape(-1, 11),
            tokens(rng, device, 14),
            label_smoothing=0.1,
        ),
    )


def transformer(rng, device):
    model = nn.Transformer(12, 3, 1, 1, 17, batch_first=True, activation="gelu").to(device)
    source, target = numbers(rng, device, 2, 5, 12), numbers(rng, device, 2, 3, 12)
    hidden = mt.tensor(np.arange(5) > np.array([[3], [4]]), device=device)
    mask = mt.masks.causal(3, device=device)
    return (
        model,
        model.parameters(),
        lambda: model(source, target, tgt_mask=mask, src_key_padding_mask=hidden).square().mean(),
    )


def recurrent(rng, device):
    model = nn.AttentionSeq2Seq(4, 5, 6).to(device)
    x, y = numbers(rng, device, 2, 7, 4), numbers(rng, device, 2, 3, 5)
    padding = mt.tensor(np.arange(7) > np.array([[5], [6]]), device=device)
    return model, model.parameters(), lambda: model(x, y, key_padding_mask=padding)[0].std()


def image(rng, device):
    model = Image().to(device)
    x = numbers(rng, device, 2, 3, 8, 8)
    return (
        model,
        model.parameters(),
        lambda: nn.functional.huber_loss(model(x), mt.zeros(2, 2, 6, 6, device=device)),
    )


def vit(rng, device):
    sizes = dict(image_size=8, patch_size=4, embed_dim=8, num_layers=1, num_heads=2, mlp_dim=11)
    model = mt.models.DistilledVisionTransformer(num_classes=5, **sizes).to(device).resize(12)
    other = mt.models.VisionTransformer(num_classes=5, positions="relative", **sizes).to(device)
    x, y = numbers(rng, device, 2, 3, 12, 12), numbers(rng, device, 2, 3, 8, 8)
    return (
        model,
        [*model.parameters(), *other.parameters()],
        lambda: nn.functional.cross_entropy(model(x) + other(y), tokens(rng, device, 2) % 5),
    )


def mae(rng, device):
    model = mt.models.MaskedAutoencoder(
        8, 2, 8, 1, 2, 11, decoder_dim=4, decoder_layers=1, decoder_heads=1, decoder_mlp_dim=7
    ).to(device)
    x = numbers(rng, device, 2, 3, 8, 8)
    learned = [p for p in model.parameters() if p.requires_grad]
    return model, learned, lambda: model.loss(x, *model(x))


def relations(rng, device):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), mt.models.LocalRelation(8, 3, 4), mt.models.NonLocalBlock(8),
        mt.models.LocalSelfAttention(8, 4, 3, 2),
    ).to(device)  # fmt: skip
    x = numbers(rng, device, 2, 3, 7, 6)
    return model, model.parameters(), lambda: model(x).square().mean()


def detr(rng, device):
    backbone = nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.FrozenBatchNorm2d(6))
    model = mt.models.DETR(backbone, 6, 5, 7, 8, 2, 11, 1, 2).to(device)
    x = numbers(rng, device, 2, 3, 12, 8)
    box = mt.tensor([[0.5, 0.4, 0.2, 0.3]], device=device)
    targets = [{"class_labels": mt.tensor([3], device=device), "boxes": box}] * 2
    return (
        model,
        model.parameters(),
        lambda: total_loss(auxiliary_losses(*model.layer_outputs(x), targets, 5)),
    )


def dino(rng, device):
    sizes = dict(image_size=8, patch_size=4, embed_dim=8, num_layers=1, num_heads=2, mlp_dim=11)

    def network():
        backbone = mt.models.DINOTransformer(**sizes)
        return nn.Sequential(backbone, DINOHead(8, 7, 5, 3))

    model = mt.models.DINO(network, 7).to(device)
    large, small = numbers(rng, device, 2, 3, 8, 8), numbers(rng, device, 2, 3, 4, 4)

    def loss_of():
        loss = model([large, large + 1], [small])
        model.update(0.9)
        return loss

    learned = [p for p in model.parameters() if p.requires_grad]
    return model, learned, loss_of


def mvit(rng, device):
    still = mt.models.MViTv2((16, 16), 5, 8, (1, 1), stride_kv=(2, 2)).to(device)
    moving = mt.models.TimeSformer(8, 4, 3, 5, 8, 1, 2, 11).to(device)
    x, y = numbers(rng, device, 2, 3, 16, 16), numbers(rng, device, 2, 3, 3, 8, 8)
    return (
        still,
        [*still.parameters(), *moving.parameters()],
        lambda: (still(x) + moving(y)).square().mean(),
    )


def video_mae(rng, device):
    model = mt.models.VideoMAE(
        8, 4, 4, 2, 12, 1, 2, 13, decoder_dim=8, decoder_layers=1, decoder_heads=2,
        decoder_mlp_dim=11, mask_ratio=0.75,
    ).to(device)  # fmt: skip
    x = numbers(rng, device, 2, 3, 4, 8, 8)
    learned = [p for p in model.parameters() if p.requires_grad]
    return model, learned, lambda: model.loss(x, *model(x))


def dtypes_of(steps):
    for step in steps:
        groups = {"outputs": step.outputs, "grads": step.grads, "results": step.results}
        for name, arrays in groups.items():
            for array in arrays or ():
                if hasattr(array, "dtype"):
                    yield f"{step.op} {name}", str(array.dtype)


BUILDS = [
    gpt, transformer, recurrent, image, vit, mae, relations, detr, dino, mvit, video_mae
]  # fmt: skip


@pytest.mark.parametrize("build", BUILDS)
def test_no_step_of_a_float32_model_is_float64(build, rng, device):
    mt.manual_seed(0)
    _model, parameters, loss_of = build(rng, device)
    parameters = list(parameters)
    optimizer = mt.optim.AdamW(parameters)
    with op_log() as steps:
        loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    seen = list(dtypes_of(steps))
    assert len(seen) > 50
    assert [place for place, dtype in seen if dtype == "float64"] == []
    for p in parameters:
        assert p.dtype == p.grad.dtype == mt.float32
        assert optimizer.state[p]["exp_avg"].dtype == mt.float32


def test_the_walk_would_notice_float64(rng, device):
    x = numbers(rng, device, 3)
    with op_log() as steps:
        (x.requires_grad_().double() * 2).float().sum().backward()
    assert "float64" in {dtype for _, dtype in dtypes_of(steps)}
