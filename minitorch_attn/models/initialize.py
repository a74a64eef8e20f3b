"""Initialize all matrices in a model from one normal distribution."""

from .. import nn

__all__ = ["draw_normal"]


def draw_normal(module, std):
    """Initialize all matrices in a module and its submodules from N(0, std^2), and biases to 0.

    Parameters
    ----------
    module : Module
    std : float

    Examples
    --------
    >>> layer = nn.Linear(3, 5)
    >>> draw_normal(layer, 0.02)
    >>> layer.bias.abs().sum().item()
    0.0
    """
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            nn.init.normal_(layer.weight, std=std)
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
