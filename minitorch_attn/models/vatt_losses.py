"""NCE and MIL-NCE: contrastive losses between clips and their sounds or sentences.

Akbari et al. 2021, "VATT: Transformers for Multimodal Self-Supervised Learning from Raw Video,
Audio and Text", arXiv:2104.11178v3, section "Multimodal Contrastive Learning". NCE stands for
noise-contrastive estimation, and MIL for multiple-instance learning. MIL-NCE (Miech et al. 2019,
arXiv:1912.06430v4) is for clips with several sentences, of which only some describe the clip.
"""

import math

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..nn.functional import cross_entropy

__all__ = ["mil_nce_loss", "nce_loss"]


@names_arguments
def nce_loss(a, b, temperature=0.07, symmetric=False):
    """Noise-contrastive loss: row i of `a` should be most similar to row i of `b`.

    The loss is the mean over i of `-log(exp(a_i b_i / T) / sum_j exp(a_i b_j / T))`, where a_i b_j
    is the dot product of row i of `a` and row j of `b`.

    Parameters
    ----------
    a, b : Tensor of shape (batch, embed)
        Embeddings of two modalities. Rows with the same index belong together. The function does
        not normalize the embeddings. To compare cosine similarities, normalize them first.
    temperature : float, default 0.07
        Temperature T, by which the dot products are divided. With a smaller T, the most similar
        rows have more influence on the loss.
    symmetric : bool, default False
        Whether to return the mean of `nce_loss(a, b)` and `nce_loss(b, a)`.

    Returns
    -------
    0-d Tensor

    Raises
    ------
    ShapeError
        If the shapes are not equal or do not have two axes.
    ArgumentError
        If the temperature is not positive.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3, Eq. 5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> nce_loss(mt.zeros(4, 3), mt.zeros(4, 3))  # no difference between the rows: log 4
    tensor(1.3863)
    """
    if a.ndim != 2 or a.shape != b.shape:
        raise ShapeError(
            "nce_loss: the shapes of a and b do not match",
            got=f"a {a.shape} and b {b.shape}", expected="(batch, embed) for both",
        )  # fmt: skip
    _check_temperature("nce_loss", temperature)
    logits = a @ b.transpose(0, 1) / temperature  # (batch of a, batch of b)
    own = ops.arange(a.shape[0], device=a.device)
    loss = cross_entropy(logits, own)
    if not symmetric:
        return loss
    return (loss + cross_entropy(logits.transpose(0, 1), own)) / 2


@names_arguments
def mil_nce_loss(video, text, temperature=0.07, valid=None):
    """MIL-NCE loss: a clip should be similar to at least one of its own sentences.

    The loss is the mean over the clips of `-log(own / all)`. Here, `own` is the sum of
    `exp(video text / T)` over the clip's own sentences, where `video text` is the dot product of
    the embeddings, and `all` is the same sum over the sentences of all clips. The loss is small if
    at least one sentence of each clip matches the clip, so an unrelated sentence does little harm.

    Parameters
    ----------
    video : Tensor of shape (batch, embed)
    text : Tensor of shape (batch, sentence, embed)
        Embeddings of the sentences of each clip. The function does not normalize the embeddings.
    temperature : float, default 0.07
        Temperature T, by which the dot products are divided.
    valid : bool Tensor of shape (batch, sentence), optional
        False for missing sentences. Clips without a sentence do not contribute to the loss.

    Returns
    -------
    0-d Tensor
        Mean over the clips that have a sentence; 0 if there are none.

    Raises
    ------
    ShapeError
        If the shapes do not match.
    ArgumentError
        If the temperature is not positive.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3, Eq. 6.
    .. [2] Miech et al. 2019, "End-to-End Learning of Visual Representations from Uncurated
       Instructional Videos", arXiv:1912.06430v4, Eq. 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mil_nce_loss(mt.zeros(4, 3), mt.zeros(4, 2, 3))  # 2 of 8 sentences are a clip's own: log 4
    tensor(1.3863)
    """
    _check_sentences(video, text, valid)
    _check_temperature("mil_nce_loss", temperature)
    batch, sentences, _ = text.shape
    scores = video @ text.flatten(0, 1).transpose(0, 1) / temperature  # (clip, batch * sentence)
    clips = ops.arange(batch, device=video.device)
    own = scores.reshape(batch, batch, sentences)[clips, clips]  # (clip, sentence)
    if valid is None:
        return (scores.logsumexp(1) - own.logsumexp(1)).mean()
    has_text = valid.any(1)
    # logsumexp is not differentiable if all scores are -inf. Clips without text keep their scores.
    own = ops.where(valid | ~has_text.unsqueeze(1), own, -math.inf)
    scores = ops.where(valid.flatten() | ~valid.any(), scores, -math.inf)
    counts = has_text.to(dtype=scores.dtype)
    loss = (scores.logsumexp(1) - own.logsumexp(1)) * counts
    return loss.sum() / counts.sum().clamp(min=1.0)


def _check_temperature(name, temperature):
    if not temperature > 0:
        raise ArgumentError(f"{name}: temperature must be positive", got=repr(temperature))


def _check_sentences(video, text, valid):
    fits = video.ndim == 2 and text.ndim == 3
    fits = fits and video.shape == (text.shape[0], text.shape[2]) and text.shape[1] > 0
    if not fits or (valid is not None and valid.shape != text.shape[:2]):
        raise ShapeError(
            "mil_nce_loss: the shapes of video, text and valid do not match",
            got=f"video {video.shape}, text {text.shape}, "
            f"valid {None if valid is None else valid.shape}",
            expected="(batch, embed), (batch, sentence, embed) and (batch, sentence)",
            hint="pass text.unsqueeze(1) if each clip has one sentence",
        )
