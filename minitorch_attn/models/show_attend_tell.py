"""Show, attend and tell: captions for images, with soft or hard attention before each word.

Xu et al. 2015, "Show, Attend and Tell: Neural Image Caption Generation with Visual Attention",
arXiv:1502.03044v3. An encoder turns an image into annotations, one vector per position. Before each
word, an LSTM decoder reads either a weighted mean of the annotations (soft attention, trained by
backpropagation) or a single annotation (hard attention, trained with REINFORCE; see
`hard_attention.py`). `captioner.py` contains a small encoder and the complete captioning model.
"""

from .. import nn, ops
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn.attention_inputs import attend_mask, check_tokens, show_weights
from ..nn.checks import check_sizes
from ..ops.attention.additive import additive_attention
from .hard_attention import SampledCaption, hard_attention, reinforce_loss, update_baseline
from .recurrent_state import RecurrentState

__all__ = [
    "SampledCaption", "ShowAttendTell", "SoftAttention", "caption_log_p", "caption_loss",
    "hard_attention", "reinforce_loss", "update_baseline",
]  # fmt: skip


class SoftAttention(nn.Module):
    r"""Soft attention: a weighted mean of the annotations of an image, times a learned gate.

    Parameters
    ----------
    annotation_dim, hidden_dim : int
        Sizes of an annotation and of the decoder's state.
    attention_dim : int
        Size of the hidden layer that computes the scores.

    Notes
    -----
    In the notation of Xu et al. 2015 [1]_, with annotations a_i and previous state h:
        e_i   = v^T tanh(W_a a_i + W_h h)         Eq. 4, f_att, the scores of Bahdanau et al.
        alpha = softmax(e)                        Eq. 5
        z     = beta sum_i alpha_i a_i            Eq. 13 and section 4.2.1, beta = sigmoid(f_beta h)
    The gate beta is one number per image. It lets the decoder ignore the image when a word
    follows from the previous words. If all positions of an image are masked, its context is
    zero, and so are the gradients of its annotations and its state.

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3, sections 3.1.2 and 4.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = SoftAttention(annotation_dim=5, hidden_dim=3, attention_dim=7)
    >>> context, alpha = attention(mt.zeros(2, 11, 5), mt.zeros(2, 3))
    >>> context.shape, alpha.shape
    ((2, 5), (2, 11))
    """

    def __init__(self, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        check_sizes("SoftAttention", annotation_dim=annotation_dim, hidden_dim=hidden_dim,
                    attention_dim=attention_dim)  # fmt: skip
        self.annotation_dim, self.hidden_dim = annotation_dim, hidden_dim
        self.W_a = nn.Linear(annotation_dim, attention_dim, bias=False)
        self.W_h = nn.Linear(hidden_dim, attention_dim)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.f_beta = nn.Linear(hidden_dim, 1)
        self.weight_hooks = []  # see `watch_attention`

    def forward(self, annotations, hidden, key_padding_mask=None):
        """Return the context (the gated mean of the annotations) and the attention weights.

        Parameters
        ----------
        annotations : Tensor of shape (batch, position, annotation_dim)
        hidden : Tensor of shape (batch, hidden_dim)
            State before the step.
        key_padding_mask : bool Tensor of shape (batch, position), or Mask, optional
            Positions to ignore. A bool tensor is True at these positions.

        Returns
        -------
        context : Tensor of shape (batch, annotation_dim)
        alpha : Tensor of shape (batch, position)
        """
        _check_annotations("SoftAttention", annotations, self.annotation_dim)
        _check_state("SoftAttention", hidden, (annotations.shape[0], self.hidden_dim))
        projected = self.W_a(annotations)  # (batch, position, attention)
        context, alpha = self.attend(projected, hidden, annotations, key_padding_mask)
        return self.gate(hidden) * context, alpha

    def attend(self, projected, hidden, annotations, key_padding_mask=None):
        """Return the weighted mean of the annotations, without the gate, and the weights alpha.

        `projected` contains W_a a_i for each annotation a_i, which is the same at all steps.
        """
        query = self.W_h(hidden).unsqueeze(1)  # (batch, 1, attention)
        mask = attend_mask("SoftAttention", key_padding_mask, annotations)
        v = self.v.weight.squeeze(0)  # (attention,)
        context, alpha = additive_attention(query, projected, v, annotations, mask)  # Eqs. 4, 5, 13
        show_weights(self, alpha)
        return context.squeeze(1), alpha.squeeze(1)  # (batch, annotation_dim), (batch, position)

    def gate(self, hidden):
        """Return the gate beta, of shape (batch, 1), for states of shape (batch, hidden_dim)."""
        return ops.sigmoid(self.f_beta(hidden))  # section 4.2.1


class ShowAttendTell(nn.Module):
    r"""Caption decoder: an LSTM that attends to an image's annotations before it predicts a word.

    Parameters
    ----------
    vocab_size : int
        Number of words.
    annotation_dim : int
        Size of an annotation.
    embed_dim, hidden_dim : int
        Sizes of a word embedding and of the state.
    attention_dim : int
        Size of the hidden layer of the attention.
    hard : bool, default False
        Whether `forward` and `decode` look only at the most probable position.

    Notes
    -----
    In the notation of Xu et al. 2015 [1]_, with words y, annotations a_1 ... a_L, the word
    embedding E and linear layers L_o, L_h and L_z (~ means "is proportional to"):
        c_0 = tanh(init_c mean_i a_i),  h_0 = tanh(init_h mean_i a_i)      section 3.1.2
        z_t = attention(a, h_{t-1})                                        Eqs. 4 to 6
        h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})                Eqs. 1 to 3
        p(y_t) ~ exp(L_o (E y_{t-1} + L_h h_t + L_z z_t))                  Eq. 7
    Soft attention uses z_t = beta sum_i alpha_i a_i. Hard attention uses z_t = beta a_s with
    one position s (Eq. 9), which `sample` draws from alpha (Eq. 8). In the paper, only soft
    attention has the gate beta. Here both have it, so that hard attention can start from
    trained soft attention. Train soft attention with `caption_loss` and hard attention with
    `reinforce_loss`.

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ShowAttendTell(vocab_size=11, annotation_dim=5, embed_dim=3, hidden_dim=7,
    ...                        attention_dim=2)
    >>> logits, alphas = model(mt.zeros(2, 6, 5), mt.tensor([[1, 4, 4], [1, 9, 2]]))
    >>> logits.shape, alphas.shape
    ((2, 3, 11), (2, 3, 6))
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, annotation_dim, embed_dim, hidden_dim, attention_dim, hard=False
    ):
        super().__init__()
        self.hard = hard
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.attention = SoftAttention(annotation_dim, hidden_dim, attention_dim)
        self.init_h = nn.Linear(annotation_dim, hidden_dim)
        self.init_c = nn.Linear(annotation_dim, hidden_dim)
        self.cell = nn.LSTMCell(embed_dim + annotation_dim, hidden_dim)
        self.L_h = nn.Linear(hidden_dim, embed_dim, bias=False)
        self.L_z = nn.Linear(annotation_dim, embed_dim, bias=False)
        self.L_o = nn.Linear(embed_dim, vocab_size, bias=False)

    def forward(self, annotations, words):
        """Compute the logits of the next word at every position (teacher forcing).

        Parameters
        ----------
        annotations : Tensor of shape (batch, position, annotation_dim)
        words : int64 Tensor of shape (batch, word)
            Caption, beginning with the start token.

        Returns
        -------
        logits : Tensor of shape (batch, word, vocabulary)
        alphas : Tensor of shape (batch, word, position)
        """
        return self._read(annotations, words, RecurrentState())

    def sample(self, annotations, words, num_samples=1, samples=None, noise=None, generator=None):
        """Compute logits with hard attention: before each word, sample the position to attend to.

        Parameters
        ----------
        annotations : Tensor of shape (batch, position, annotation_dim)
        words : int64 Tensor of shape (batch, word)
        num_samples : int, default 1
            Number of sampled sequences of positions for each caption (N in Eq. 12).
        samples : int64 Tensor of shape (sample, batch, word), optional
            Positions to attend to. Default: positions sampled from alpha.
        noise : Tensor of shape (sample, batch, word, position), optional
            Gumbel noise, -log(-log u) for uniform u. The position with the largest log alpha +
            noise is chosen, which is a sample from alpha (the Gumbel-max trick).
        generator : Generator, optional

        Returns
        -------
        SampledCaption
        """
        batch = words.shape[0]
        given = noise if samples is None else samples
        count = num_samples if given is None else given.shape[0]

        def each(x):  # (batch, ...) -> (sample * batch, ...)
            return x.expand(count, *x.shape).flatten(0, 1) if count != 1 else x

        given = None if given is None else given.flatten(0, 1)  # (sample * batch, word, ...)
        chosen = []

        def look(annotations, alpha):  # s: (1, sample * batch), Eq. 8
            if samples is not None:
                s = given[:, len(chosen)].unsqueeze(0)
            elif noise is not None:
                s = (alpha.detach().log() + given[:, len(chosen)]).argmax(-1).unsqueeze(0)
            else:
                s = ops.multinomial(alpha.detach(), 1, generator=generator).T
            context, log_p_s, entropy = hard_attention(annotations, alpha, s)
            chosen.append((log_p_s[0], entropy, s[0]))
            return context[0]

        logits, alphas = self._read(each(annotations), each(words), RecurrentState(), look)
        found = [logits, alphas, *[ops.stack(part, 1) for part in zip(*chosen, strict=True)]]
        return SampledCaption(*[x.reshape(count, batch, *x.shape[1:]) for x in found])

    def padding_mask(self, annotations):
        """Return None, because images do not have padding.

        `translate` calls this method if it is not given a `source_mask`.
        """

    def new_cache(self):
        """Return an empty `RecurrentState`, which `decode` fills."""
        return RecurrentState()

    def encode(self, annotations, source_mask=None):
        """Return a dict for `decode`, with the annotations and the initial state of the LSTM."""
        _check_annotations("ShowAttendTell", annotations, self.attention.annotation_dim)
        if annotations.shape[1] == 0:
            raise ShapeError(
                "ShowAttendTell: annotations must have at least one position",
                got=f"annotations {annotations.shape}",
            )
        mean = annotations.mean(1)  # (batch, annotation_dim)
        h, c = ops.tanh(self.init_h(mean)), ops.tanh(self.init_c(mean))  # section 3.1.2
        return {"last_hidden_state": annotations, "h": h, "c": c}

    def decode(self, words, memory, source_mask=None, cache=None):
        """Compute the logits of the next word, with shape (batch, word, vocabulary).

        Parameters
        ----------
        words : int64 Tensor of shape (batch, word)
            Word ids. If a cache is given, only the words that follow the cached ones.
        memory : dict
            Output of `encode`.
        source_mask : optional
            Not used.
        cache : RecurrentState, optional
        """
        return self._read(memory, words, RecurrentState() if cache is None else cache)[0]

    def _read(self, annotations, words, past, look=None):
        """Run the LSTM on `words` and update its state `past`. Return (logits, alphas).

        `look(annotations, alpha)` computes the context before the gate. Default: the annotation at
        the most probable position if `hard` is True, otherwise the weighted mean.
        """
        look = _most_probable if look is None and self.hard else look
        memory = annotations if isinstance(annotations, dict) else self.encode(annotations)
        annotations = memory["last_hidden_state"]
        _check_words(words, annotations)
        h, c = (memory["h"], memory["c"]) if past.state is None else [s[0] for s in past.state]
        if past.projected is None:
            past.projected = self.attention.W_a(annotations)
        embedded = self.embedding(words)  # (batch, word, embed)
        states, contexts, alphas = [], [], []
        for e_y in embedded.unbind(1):  # (batch, embed)
            context, alpha = self.attention.attend(past.projected, h, annotations)
            if look is not None:
                context = look(annotations, alpha)
            context = self.attention.gate(h) * context  # Eq. 6
            h, c = self.cell(ops.cat([e_y, context], -1), (h, c))  # Eqs. 1 to 3
            for found, x in zip((states, contexts, alphas), (h, context, alpha), strict=True):
                found.append(x)
        past.state = h.unsqueeze(0), c.unsqueeze(0)  # (layer, batch, hidden)
        past.position += words.shape[1]
        h_t, z_t = ops.stack(states, 1), ops.stack(contexts, 1)
        logits = self.L_o(embedded + self.L_h(h_t) + self.L_z(z_t))  # Eq. 7
        return logits, ops.stack(alphas, 1)


def _most_probable(annotations, alpha):
    """Return the annotation (batch, annotation_dim) at the most probable position (Eq. 9)."""
    return hard_attention(annotations, alpha, alpha.argmax(-1).unsqueeze(0))[0][0]


def caption_log_p(logits, targets, ignore_index=-100):
    """Return the log probability of each target word, or 0 for ignored targets.

    Parameters
    ----------
    logits : Tensor of shape (..., vocabulary)
    targets : int64 Tensor of shape (...)
    ignore_index : int, default -100

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> caption_log_p(mt.zeros(1, 2, 4), mt.tensor([[3, -100]]))
    tensor([[-1.3863,  0.    ]])
    """
    flat = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    loss = nn.functional.cross_entropy(*flat, ignore_index=ignore_index, reduction="none")
    return 0.0 - loss.reshape(targets.shape)  # 0, not -0, for ignored targets


@names_arguments
def caption_loss(logits, targets, alphas, penalty=1.0, ignore_index=-100):
    """Return the loss of soft attention: -log p plus the doubly stochastic penalty.

    Parameters
    ----------
    logits : Tensor of shape (batch, word, vocabulary)
    targets : int64 Tensor of shape (batch, word)
    alphas : Tensor of shape (batch, word, position)
    penalty : float, default 1
        Weight lambda of the penalty.
    ignore_index : int, default -100
        Target value of steps that do not contribute to the loss, such as padding.

    Returns
    -------
    Tensor of shape ()
        Mean over the captions of -sum_t log p(y_t) + lambda sum_i (1 - sum_t alpha_ti)^2.

    Notes
    -----
    Eq. 14 of Xu et al. 2015, arXiv:1502.03044v3. The weights of a step sum to 1 over the positions.
    The penalty encourages the weights of a position to sum to about 1 over the steps too, so that
    the decoder looks at the whole image.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> alphas = mt.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> caption_loss(mt.zeros(1, 2, 1), mt.tensor([[0, 0]]), alphas)  # (1 - 2)^2 + (1 - 0)^2
    tensor(2.)
    """
    if logits.shape[:-1] != targets.shape or alphas.shape[:-1] != targets.shape:
        raise ShapeError(
            "caption_loss: the shapes do not match",
            got=f"logits {logits.shape}, targets {targets.shape}, alphas {alphas.shape}",
            expected="(batch, word, vocabulary), (batch, word) and (batch, word, position)",
        )
    log_p = caption_log_p(logits, targets, ignore_index).sum(-1)  # (batch,)
    read = ops.where((targets != ignore_index).unsqueeze(-1), alphas, 0.0).sum(-2)
    return (penalty * (1 - read).square().sum(-1) - log_p).mean()  # Eq. 14


def _check_annotations(where, annotations, size):
    check_tokens(where, "annotations", annotations, size, annotations, batched=True)


def _check_state(where, hidden, expected):
    if hidden.shape != expected:
        raise ShapeError(
            f"{where}: hidden has the wrong shape",
            got=f"hidden {hidden.shape}", expected=f"{expected}: (batch, hidden_dim)",
        )  # fmt: skip


def _check_words(words, annotations):
    if words.ndim != 2 or words.shape[0] != annotations.shape[0] or words.shape[1] == 0:
        raise ShapeError(
            "ShowAttendTell: words must have one row per image, and at least one word",
            got=f"words {words.shape} and annotations {annotations.shape}",
            hint="begin each caption with a start token",
        )
