"""Seq2seq models: a recurrent encoder and a recurrent decoder, with or without attention.

In Sutskever et al. 2014, the decoder receives one vector, the encoder's last state. In Bahdanau
et al. 2015, it attends to all encoder states before each step, and in Luong et al. 2015 after
each step.
"""

from .. import nn, ops
from ..errors import ArgumentError, ShapeError
from ..nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from ..tensor import Tensor, tensor
from .recurrent_state import RecurrentState

__all__ = ["RecurrentDecoder", "RecurrentEncoder", "Seq2Seq"]

_LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU}


def _layers(where, cell, *args, **kwargs):
    """Create an LSTM or GRU, depending on `cell`. Error messages begin with `where`."""
    if cell not in _LAYERS:
        raise ArgumentError(f"{where}: cell must be 'lstm' or 'gru'", got=repr(cell))
    return _LAYERS[cell](*args, batch_first=True, **kwargs)


def _as_tuple(state):
    return state if isinstance(state, tuple) else (state,)  # (h, c) of an LSTM, (h,) of a GRU


class RecurrentEncoder(nn.Module):
    """Encoder: word embeddings and an LSTM or GRU that reads packed sequences.

    Parameters
    ----------
    vocab_size : int
        Size of the source vocabulary.
    embed_dim, hidden_dim : int
        Sizes of a word embedding, and of the state of one direction.
    num_layers : int, default 1
    cell : "lstm" or "gru", default "lstm"
    bidirectional : bool, default False
        Whether a second network reads the source backward.
    reverse : bool, default False
        Whether the network reads the source from its last word to its first.
    dropout : float, default 0
        Dropout probability between the layers.

    Notes
    -----
    Sutskever et al. 2014, arXiv:1409.3215v3, section 3.3, reverse the source, which brings its
    first words close to the first words of the target. Bahdanau et al. 2015, arXiv:1409.0473v7,
    section 3.2, use both directions: h_j = [forward h_j; backward h_j].

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = RecurrentEncoder(vocab_size=11, embed_dim=3, hidden_dim=5, bidirectional=True)
    >>> memory, (h, c) = encoder(mt.tensor([[1, 2, 3], [4, 0, 0]]), lengths=[3, 1])
    >>> memory.shape, h.shape
    ((2, 3, 10), (2, 2, 5))
    """

    def __init__(
        self, vocab_size, embed_dim, hidden_dim, num_layers=1, cell="lstm", bidirectional=False,
        reverse=False, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.rnn = _layers(
            "RecurrentEncoder", cell, embed_dim, hidden_dim, num_layers,
            bidirectional=bidirectional, dropout=dropout,
        )  # fmt: skip
        self.reverse = reverse

    def forward(self, source, lengths=None):
        """Return the states of the source words, and the final state.

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
            Word ids, padded at the end.
        lengths : list of int, or int64 Tensor of shape (batch,), optional
            Number of words of each sentence. Default: all of `source`.

        Returns
        -------
        memory : Tensor of shape (batch, source, direction * hidden)
            States of the last layer in the order of `source`, zeros at padding.
        state : tuple of Tensor of shape (layer * direction, batch, hidden)
            State (h, c) of an LSTM or (h,) of a GRU after it has read the last word.
        """
        order = self._order(source, lengths) if self.reverse else None
        x = self.embedding(source if order is None else source.gather(1, order))
        if lengths is None:
            memory, state = self.rnn(x)
        else:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            memory, state = self.rnn(packed)
            memory = pad_packed_sequence(memory, batch_first=True, total_length=source.shape[1])[0]
        if order is not None:
            memory = memory.gather(1, order.unsqueeze(-1).expand(*memory.shape))
        return memory, _as_tuple(state)

    def _order(self, source, lengths):
        """Return the positions (batch, source) that reverse the words but not the padding."""
        batch, size = source.shape
        position = ops.arange(size, device=source.device)  # (source,)
        if lengths is None:
            return (size - 1 - position).expand(batch, size)
        lengths = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype="int64")
        count = lengths.to(source.device).unsqueeze(-1)  # (batch, 1)
        return ops.where(position < count, count - 1 - position, position)


class RecurrentDecoder(nn.Module):
    r"""Decoder: an LSTM or GRU over the target words, with additive, Luong or no attention.

    Parameters
    ----------
    vocab_size : int
        Size of the target vocabulary.
    embed_dim, hidden_dim : int
        Sizes of a word embedding and of the state.
    attention : AdditiveAttention or LuongAttention, optional
        Attention layer whose `query_dim` equals `hidden_dim`. Without attention, the decoder knows
        the source only from its first state.
    num_layers : int, default 1
    cell : "lstm" or "gru", default "lstm"
    input_feeding : bool, default False
        Whether each step of Luong's decoder also reads the attentional state of the previous step.
    dropout : float, default 0
        Dropout probability between the layers.

    Notes
    -----
    Here y_{t-1} is the embedding of the previous word, s_t the state, c_t the context, htilde_t the
    attentional state and W the weight of `out`:
        s_t = f(y_{t-1}, s_{t-1}),  p = softmax(W s_t)              Sutskever [1]_, Eq. 1
        c_t = attention(s_{t-1}),  s_t = f(s_{t-1}, y_{t-1}, c_t)   Bahdanau [2]_, A.2.2, Eq. 5
        p = softmax(W [s_t; c_t])
        s_t = f([y_{t-1}; htilde_{t-1}], s_{t-1})                   Luong [3]_, section 3.3
        htilde_t = tanh(W_c [c_t; s_t])                             Luong, Eq. 5
        p = softmax(W htilde_t)                                     Luong, Eq. 6
    Without `input_feeding`, htilde_{t-1} is not used, and one call computes all steps of Luong's
    decoder. Two details of Bahdanau's decoder differ from this class: its output layer is a maxout
    layer that also depends on y_{t-1}, and its recurrent unit has a different reset gate (see
    `nn.GRU`). If the decoder has several layers, the query is the state of the last layer.

    References
    ----------
    .. [1] "Sequence to Sequence Learning with Neural Networks", arXiv:1409.3215v3.
    .. [2] "Neural Machine Translation by Jointly Learning to Align and Translate",
       arXiv:1409.0473v7.
    .. [3] "Effective Approaches to Attention-based Neural Machine Translation",
       arXiv:1508.04025v5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.LuongAttention(query_dim=5, key_dim=7, score="general")
    >>> decoder = RecurrentDecoder(11, 3, 5, attention, cell="gru", input_feeding=True)
    >>> logits, state = decoder(mt.tensor([[1, 2]]), mt.zeros(1, 4, 7), (mt.zeros(1, 1, 5),))
    >>> logits.shape
    (1, 2, 11)
    """

    def __init__(
        self, vocab_size, embed_dim, hidden_dim, attention=None, num_layers=1, cell="lstm",
        input_feeding=False, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        additive = isinstance(attention, nn.AdditiveAttention)
        _check_attention(attention, hidden_dim, input_feeding, additive)
        extra = attention.key_dim if additive else 0
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.rnn = _layers(
            "RecurrentDecoder", cell, embed_dim + extra + hidden_dim * input_feeding, hidden_dim,
            num_layers, dropout=dropout,
        )  # fmt: skip
        self.attention, self.input_feeding, self.additive = attention, input_feeding, additive
        self.out = nn.Linear(hidden_dim + extra, vocab_size)

    def forward(self, target, memory, state, source_mask=None, past=None):
        """Compute the logits of the next word at every position.

        Parameters
        ----------
        target : int64 Tensor of shape (batch, target)
        memory : Tensor of shape (batch, source, key_dim)
            States of the encoder.
        state : tuple of Tensor of shape (layer, batch, hidden)
            First state of the decoder.
        source_mask : bool Tensor of shape (batch, source), or Mask, optional
            Source tokens to ignore. A bool tensor is True at padding.
        past : RecurrentState, optional
            State from which the decoder continues. The call updates `past`.

        Returns
        -------
        logits : Tensor of shape (batch, target, vocabulary)
        state : tuple of Tensor of shape (layer, batch, hidden)
            State of the decoder after the last word.
        """
        past = RecurrentState() if past is None else past
        state = state if past.state is None else past.state
        x = self.embedding(target)  # (batch, target, embed)
        if past.projected is None and self.attention is not None:
            project = self.attention.W_k if self.additive else self.attention.project
            past.projected = project(memory)
        if self.additive or self.input_feeding:
            outputs = []
            for x_t in x.split(1, 1):  # (batch, 1, embed)
                step = self._attend_first if self.additive else self._feed
                output, state = step(x_t, memory, state, source_mask, past)
                outputs.append(output)
                past.position += 1
            output = ops.cat(outputs, 1)
        else:
            output, state = self._run(x, state)
            if self.attention is not None:
                output, _ = self.attention.attend(
                    output, past.projected, memory, source_mask, past.position
                )
            past.position += target.shape[1]
        past.state = state
        return self.out(output), state

    def _run(self, x, state):
        output, state = self.rnn(x, state if len(state) == 2 else state[0])
        return output, _as_tuple(state)

    def _attend_first(self, x_t, memory, state, source_mask, past):
        """Compute one step of Bahdanau's decoder. The previous state is the query."""
        query = state[0][-1].unsqueeze(1)  # last layer, (batch, 1, hidden)
        context, _ = self.attention.attend(query, past.projected, memory, source_mask)
        output, state = self._run(ops.cat([x_t, context], -1), state)
        return ops.cat([output, context], -1), state  # (batch, 1, hidden + key_dim)

    def _feed(self, x_t, memory, state, source_mask, past):
        """Compute one step of Luong's decoder with input feeding. The new state is the query."""
        if past.attentional is None:
            past.attentional = ops.zeros(
                len(x_t), 1, self.rnn.hidden_size, dtype=x_t.dtype, device=x_t.device
            )
        query, state = self._run(ops.cat([x_t, past.attentional], -1), state)
        past.attentional, _ = self.attention.attend(
            query, past.projected, memory, source_mask, past.position
        )
        return past.attentional, state  # (batch, 1, hidden)


class Seq2Seq(nn.Module):
    """Sequence-to-sequence model with a recurrent encoder and a recurrent decoder.

    To translate with the model, call `generation.translate`, which uses greedy or beam search.

    Parameters
    ----------
    encoder : RecurrentEncoder
    decoder : RecurrentDecoder
        Decoder with the same cell and number of layers as the encoder.
    pad_id : int, optional
        Id of the padding token at the end of short source sentences.

    Notes
    -----
    The encoder's last state is the decoder's first state (Sutskever et al. 2014, arXiv:1409.3215v3,
    section 2; Luong et al. 2015, arXiv:1508.04025v5, section 2). If the encoder is bidirectional or
    has a different size, a layer converts each of its states: s_0 = tanh(W_s [forward h; backward
    h]). Bahdanau et al. 2015, arXiv:1409.0473v7, appendix A.2.2, use only the backward state at the
    first word.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> encoder = RecurrentEncoder(11, 3, 5, bidirectional=True)
    >>> attention = mt.nn.AdditiveAttention(query_dim=5, key_dim=10, hidden_dim=5)
    >>> model = Seq2Seq(encoder, RecurrentDecoder(13, 3, 5, attention), pad_id=0)
    >>> source, target = mt.tensor([[4, 5, 6], [7, 8, 0]]), mt.tensor([[1, 2], [1, 3]])
    >>> model(source, target).shape
    (2, 2, 13)
    """

    named_methods = None  # all public methods

    def __init__(self, encoder, decoder, pad_id=None):
        super().__init__()
        a, b = encoder.rnn, decoder.rnn
        if (a.mode, a.num_layers) != (b.mode, b.num_layers):
            raise ArgumentError(
                "Seq2Seq: encoder and decoder must have the same cell and number of layers",
                got=f"encoder {a.mode}, num_layers={a.num_layers}; "
                f"decoder {b.mode}, num_layers={b.num_layers}",
            )
        size = a.hidden_size * (2 if a.bidirectional else 1)
        attention = decoder.attention
        if attention is not None and attention.key_dim != size:
            raise ShapeError(
                "Seq2Seq: key_dim of the decoder's attention does not match the encoder",
                got=f"key_dim {attention.key_dim}",
                expected=f"key_dim {size}, the number of directions times hidden_dim",
            )
        self.encoder, self.decoder, self.pad_id = encoder, decoder, pad_id
        states = 2 if a.mode == "LSTM" else 1
        self.bridge = None
        if a.bidirectional or size != b.hidden_size:
            self.bridge = nn.ModuleList([nn.Linear(size, b.hidden_size) for _ in range(states)])

    def forward(self, source, target, source_mask=None):
        """Compute the logits of the next target word at every position (teacher forcing).

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
        target : int64 Tensor of shape (batch, target)
            Target, beginning with the start token.
        source_mask : Mask, optional
            Mask of the source words, for example `nn.masks.padding(lengths)`. Default: a mask of
            the positions that contain `pad_id`.

        Returns
        -------
        Tensor of shape (batch, target, vocabulary)
        """
        mask = source_mask if source_mask is not None else self.padding_mask(source)
        return self.decode(target, self.encode(source, mask), mask)

    def padding_mask(self, source):
        """Return the padding mask (batch, 1, 1, source), or None if `pad_id` is None."""
        pad = self.pad_id
        return None if pad is None else nn.masks.from_key_padding(source == pad)

    def new_cache(self):
        """Return an empty `RecurrentState`, which `decode` fills."""
        return RecurrentState()

    def encode(self, source, source_mask=None):
        """Encode the source sentences.

        Returns
        -------
        dict
            `last_hidden_state` contains the encoder's states (batch, source, key_dim). `h` (and `c`
            for an LSTM) is the first state of the decoder, (batch, layer, hidden).
        """
        memory, state = self.encoder(source, _lengths(source, source_mask))
        if self.bridge is not None:
            directions = 2 if self.encoder.rnn.bidirectional else 1
            layers, batch, hidden = state[0].shape
            sides = (layers // directions, directions, batch, hidden)
            # (layer, direction, batch, hidden) -> (layer, batch, direction * hidden)
            both = [s.reshape(sides).swapaxes(1, 2).flatten(2) for s in state]
            state = [ops.tanh(f(s)) for f, s in zip(self.bridge, both, strict=True)]
        first = {name: s.swapaxes(0, 1) for name, s in zip("hc", state, strict=False)}
        return {"last_hidden_state": memory, **first}

    def decode(self, target, memory, source_mask=None, cache=None):
        """Compute the logits of the next word, with shape (batch, target, vocabulary).

        Parameters
        ----------
        target : int64 Tensor of shape (batch, target)
            Target word ids. If a cache is given, only the ids that follow the cached ones.
        memory : dict
            Output of `encode`.
        source_mask : Mask, optional
        cache : RecurrentState, optional
        """
        first = tuple([memory[name].swapaxes(0, 1) for name in "hc" if name in memory])
        mask = _as_mask(source_mask)
        return self.decoder(target, memory["last_hidden_state"], first, mask, cache)[0]


def _as_mask(mask):
    return mask if mask is None or isinstance(mask, nn.Mask) else nn.masks.from_attend(mask)


def _lengths(source, mask):
    """Return each sentence's number of words. Raise an error if padding comes before a word."""
    if mask is None:
        return None
    attend = _as_mask(mask).attend.reshape(-1, source.shape[1]).expand(*source.shape)
    lengths = attend.sum(1)  # (batch,)
    behind = ops.arange(source.shape[1], device=source.device) < lengths.unsqueeze(1)
    if not (attend == behind).all().item():
        raise ArgumentError(
            "Seq2Seq: source has padding before a word",
            expected="padding only at the end of each sentence",
            hint="pad on the right; the recurrent network would read the padding",
        )
    return lengths.cpu()


def _check_attention(attention, hidden_dim, input_feeding, additive):
    """Raise an error if the attention layer does not match the decoder."""
    if attention is not None and attention.query_dim != hidden_dim:
        raise ShapeError(
            "RecurrentDecoder: query_dim of attention must be equal to hidden_dim",
            got=f"query_dim {attention.query_dim} and hidden_dim {hidden_dim}",
        )
    if input_feeding and (additive or attention is None):
        raise ArgumentError(
            "RecurrentDecoder: input_feeding requires a LuongAttention",
            got=type(attention).__name__,
            hint="use input_feeding=False; additive attention always feeds its context to the cell",
        )
