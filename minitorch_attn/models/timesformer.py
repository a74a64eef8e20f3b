"""TimeSformer: a Vision Transformer for video that attends over time and space, jointly or in turn.

Bertasius et al. 2021, "Is Space-Time Attention All You Need for Video Understanding?",
arXiv:2102.05095v4. A clip of F frames with N patches each has N F + 1 tokens, including the class
token. Joint attention compares each token with all tokens, which takes (N F + 1)^2 comparisons.
Divided attention first compares patches at the same position in different frames, and then patches
of the same frame. The paper also compares each patch with the class token, both times. Each patch
is then compared with F + 1 tokens and with N + 1 tokens, which takes (N F) (N + F + 2) comparisons
(section 3, Figure 1).
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import init
from ..nn.checks import check_layers
from .vit import Block, PatchEmbedding, initialize, pair

__all__ = ["TimeSformer", "timesformer_b"]

KINDS = ("divided", "joint", "space")


class DividedBlock(Block):
    """Block with divided attention: over time, then over space, then a feed-forward network.

    Parameters
    ----------
    embed_dim, num_heads, mlp_dim : int
    **options
        Arguments of `vit.Block`.

    Attributes
    ----------
    time_norm, time_attention, time_projection : Module
        Modules for attention over time: a norm, the attention, and a linear layer after the
        attention. Attention over space uses `norm1` and `attention`.

    References
    ----------
    .. [1] Bertasius et al. 2021, arXiv:2102.05095v4, Eqs. 10 and 11 and section 3, "Space-Time
       Self-Attention Models". The linear layer after attention over time is from the authors' code.
    """

    def __init__(
        self, embed_dim, num_heads, mlp_dim, *, attention_dropout=0.0, qkv_bias=True, eps=1e-6,
        **options,
    ):  # fmt: skip
        settings = {"attention_dropout": attention_dropout, "qkv_bias": qkv_bias, "eps": eps}
        super().__init__(embed_dim, num_heads, mlp_dim, **settings, **options)
        self.time_norm = nn.LayerNorm(embed_dim, eps=eps)
        self.time_attention = nn.Attention(
            embed_dim, num_heads, bias=qkv_bias, out_bias=True, dropout=attention_dropout
        )
        self.time_projection = nn.Linear(embed_dim, embed_dim)

    @computes("pre-norm block", "divided space-time attention")
    def forward(self, x, frames):
        """Return the output of the block.

        Parameters
        ----------
        x : Tensor of shape (batch, 1 + patch * frame, embed)
            The class token, then the patch tokens, ordered by position and, at each position, by
            frame.
        frames : int
            Number of frames.

        Returns
        -------
        Tensor of the same shape as `x`
        """
        first, patches = x[:, :1], x[:, 1:]
        patches = patches + self.over_time(patches, frames)
        x = ops.cat([first, patches], 1) + self.over_space(first, patches, frames)
        return x + self.drop_path(self.dropout(self.feed_forward(self.norm2(x))))

    def over_time(self, patches, frames):
        """Attend from each patch to the patches at the same position in all frames (Eq. 10)."""
        batch = patches.shape[0]
        places = self.time_norm(patches).unflatten(1, (-1, frames)).flatten(0, 1)
        attended = self.time_attention(places)  # (batch * patch, frame, embed)
        attended = self.drop_path(self.dropout(attended)).unflatten(0, (batch, -1))
        return self.time_projection(attended.flatten(1, 2))  # (batch, patch * frame, embed)

    def over_space(self, first, patches, frames):
        """Attend from each patch to the patches of its frame, and to the class token (Eq. 11).

        Each frame gets a copy of the class token. The outputs of the copies are averaged.
        """
        batch, _, embed_dim = patches.shape
        by_frame = patches.unflatten(1, (-1, frames)).transpose(1, 2)
        copies = first.unsqueeze(1).expand(batch, frames, 1, embed_dim)
        tokens = ops.cat([copies, by_frame], 2).flatten(0, 1)  # (batch * frame, 1 + patch, embed)
        attended = self.drop_path(self.dropout(self.attention(self.norm1(tokens))))
        attended = attended.unflatten(0, (batch, frames))  # (batch, frame, 1 + patch, embed)
        context = attended[:, :, 1:].transpose(1, 2).flatten(1, 2)  # (batch, patch * frame, embed)
        return ops.cat([attended[:, :, 0].mean(1, keepdim=True), context], 1)


class TimeSformer(nn.Module):
    """TimeSformer as a video classifier.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
        Height and width of a frame and of a patch in pixels.
    num_frames : int, default 8
    num_classes : int, default 400
        Number of classes. With 0 classes, the model returns the class token.
    embed_dim, num_layers, num_heads, mlp_dim : int
    in_channels : int, default 3
    attention : {"divided", "joint", "space"}, default "divided"
        "divided": attention over time, then over space. "joint": attention over all tokens of the
        clip. "space": attention only within each frame. The class tokens of the frames are then
        averaged.
    drop_path : float, default 0
        DropPath probability of the last block. It increases linearly from 0 at the first block.
    **options
        Arguments of the blocks: dropout, attention_dropout, activation, qkv_bias, eps.

    Attributes
    ----------
    positions, time_positions : LearnedPositionalEmbedding
        Position embeddings of the class token and the patches, and time embeddings of the frames
        (None if `attention` is "space").
    blocks : ModuleList of DividedBlock or vit.Block

    References
    ----------
    .. [1] Bertasius et al. 2021, arXiv:2102.05095v4, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = TimeSformer(8, 4, num_frames=3, num_classes=10, embed_dim=8, num_layers=1,
    ...     num_heads=2, mlp_dim=16, in_channels=1)
    >>> model(mt.zeros(5, 1, 3, 8, 8)).shape
    (5, 10)
    """

    named_methods = None  # all public methods

    def __init__(
        self, image_size=224, patch_size=16, num_frames=8, num_classes=400, embed_dim=768,
        num_layers=12, num_heads=12, mlp_dim=3072, *, in_channels=3, attention="divided",
        drop_path=0.0, dropout=0.0, eps=1e-6, **options,
    ):  # fmt: skip
        super().__init__()
        if attention not in KINDS:
            raise ArgumentError(
                "TimeSformer: the type of attention is invalid",
                got=repr(attention), expected=f"one of {KINDS}",
            )  # fmt: skip
        check_layers("TimeSformer", num_layers=num_layers)
        self.image_size, self.num_frames, self.kind = pair(image_size), num_frames, attention
        self.input_shape = (in_channels, num_frames, *self.image_size)
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, embed_dim)
        self.grid = self.patch_embedding.grid(*self.image_size)
        self.class_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        patches = self.grid[0] * self.grid[1]
        self.positions = nn.LearnedPositionalEmbedding(1 + patches, embed_dim)
        self.time_positions = None
        if attention != "space":
            self.time_positions = nn.LearnedPositionalEmbedding(num_frames, embed_dim)
        self.dropout = nn.Dropout(dropout)
        block_class = DividedBlock if attention == "divided" else Block
        options = {"dropout": dropout, "eps": eps, **options}
        self.blocks = nn.ModuleList([
            block_class(
                embed_dim, num_heads, mlp_dim, drop_path=drop_path * i / max(num_layers - 1, 1),
                **options,
            )
            for i in range(num_layers)
        ])  # fmt: skip
        self.norm = nn.LayerNorm(embed_dim, eps=eps)
        self.head = nn.Linear(embed_dim, num_classes) if num_classes else nn.Identity()
        self.apply(initialize)
        self._start_without_time()

    def _start_without_time(self):
        """Set the weights of the linear layer after attention over time to 0, except in block 0.

        The authors' code does the same. A model that is initialized with the weights of a Vision
        Transformer then computes almost the same function as the Vision Transformer.
        """
        for block in self.blocks[1:] if self.kind == "divided" else []:
            init.zeros_(block.time_projection.weight)

    @computes("video classifier")
    def forward(self, video):
        """Compute the class logits of each clip.

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width)

        Returns
        -------
        Tensor of shape (batch, classes)
        """
        frames = self._checked(video)
        tokens = self.encode(self.embed(video), frames)
        first = tokens[:, 0]
        if self.kind == "space":
            first = first.unflatten(0, (-1, frames)).mean(1)
        return self.head(first)

    def _checked(self, video):
        """Return the number of frames, after checking the shape of the video."""
        expected = (self.num_frames, *self.image_size)
        if video.ndim != 5 or video.shape[2:] != expected:
            raise ShapeError(
                "TimeSformer: the shape of the video does not match the model",
                got=f"shape {video.shape}",
                expected=f"(batch, channel, {', '.join(map(str, expected))})",
                hint="pass video.transpose(1, 2) if frames are before channels",
            )
        return video.shape[2]

    @computes("patches with positions")
    def embed(self, video):
        """Return the embeddings of a clip's tokens, with position embeddings added.

        Returns
        -------
        Tensor of shape (batch, 1 + patch * frame, embed)
            With "space" attention, the shape is (batch * frame, 1 + patch, embed).
        """
        batch, _, frames, *_ = video.shape
        patches = self.patch_embedding(video.transpose(1, 2).flatten(0, 1))
        return self.with_positions(patches, batch, self.positions.weight, self.time_weight(frames))

    def time_weight(self, frames):
        """Return the time embeddings (frame, embed), or None for "space" attention."""
        return None if self.time_positions is None else self.time_positions.weight[:frames]

    @computes("class token")
    def with_positions(self, patches, batch, positions, time_positions):
        """Add positions to the patches, and insert the class token before the patches.

        Parameters
        ----------
        patches : Tensor of shape (batch * frame, patch, embed)
        batch : int
        positions : Tensor of shape (1 + patch, embed)
        time_positions : Tensor of shape (frame, embed), or None
            If None, each frame remains a separate sequence.

        Returns
        -------
        Tensor of shape (batch, 1 + patch * frame, embed), or (batch * frame, 1 + patch, embed)
        """
        embed_dim = patches.shape[-1]
        first, patches = self.class_token + positions[:1], patches + positions[1:]
        if time_positions is None:
            first = first.expand(patches.shape[0], 1, embed_dim)
            return self.dropout(ops.cat([first, patches], 1))
        patches = self.dropout(patches).unflatten(0, (batch, -1)).transpose(1, 2)
        patches = self.dropout(patches + time_positions)  # (batch, patch, frame, embed)
        first = self.dropout(first.expand(batch, 1, embed_dim))
        return ops.cat([first, patches.flatten(1, 2)], 1)

    @computes("stack of layers")
    def encode(self, tokens, frames):
        """Apply all blocks and the final norm to the tokens that `embed` returns."""
        for block in self.blocks:
            tokens = block(tokens, frames) if self.kind == "divided" else block(tokens)
        return self.norm(tokens)


def timesformer_b(**changes):
    """TimeSformer: 8 frames of 224 x 224 pixels; 121,566,352 parameters.

    `changes` override the defaults.
    """
    return TimeSformer(**changes)
