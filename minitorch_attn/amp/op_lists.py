"""Lists of the operations that autocast runs in float16 or in float32, as PyTorch does for CUDA.

Most of the arithmetic of a model is in matrix products. They lose little accuracy in float16, and
on a GPU they run several times faster than in float32. Functions whose results can be very large or
very small (exp, pow) and sums (softmax, norms, losses) need float32. All other operations compute
in the dtype of their inputs; if the inputs have two dtypes, in the wider of the two.

PyTorch has different, shorter lists for the CPU, where softmax and layer normalization stay in
float16. This library uses the CUDA lists on both devices, so that the CPU shows what a GPU would
compute.
"""

__all__ = ["FUNCTIONS", "OPERATIONS"]

# Name of a list -> the names of its operations, which are subclasses of `autograd.Function`.
OPERATIONS = {
    # Inputs are converted to float16, the dtype of `autocast`.
    "float16": """
        AdditiveAttention Attention CausalAttention Conv ConvKernel ConvNormRelu ConvTransposed
        FeedForward FeedForwardInBlocks GruSequence Linear LstmSequence MatMul Prelu Projections
        RingAttention RnnSequence TiledAttention
    """,
    # Inputs are converted to float32.
    "float32": """
        CrossEntropy Cumprod Cumsum Erfinv EuclideanNorm Exp Expm1 LayerNorm Log Log1p LogSoftmax
        LogSumExp LogToBase MaskedSoftmax PNorm Power PowerOfNumber Prod RMSNorm Reciprocal Rsqrt
        SingularValues SlidingWindowAttention Softmax Softplus Square Sum Tan
    """,
    # Inputs are converted to the widest of their dtypes.
    "widest": "AddAt Assign Cat ScatterAdd Stack",
    # Not supported: the gradient of a probability near 0 overflows in float16.
    "refused": "BinaryCrossEntropy",
    "unaffected": """
        Abs Add Alias AllGather AllReduce AllToAll Broadcast BroadcastTo Cast Clamp ClampTo Clone
        ColumnSum CopyToRanks Cos CtcLoss Diagonal DiagonalPlace Div Dropout Elu Embedding Erf
        Extreme Flip Fmod Fourier Gather GatherBack GatherFromRanks Gelu GeluTanh HardSwish HardTanh
        LeakyRelu Lerp LogAddExp LogSigmoid LookUp MaxPool Maximum Mean Median Minimum Mish Move Mul
        Neg NormByRunning NormOver Overwrite Pad Parallel PatchSum Patches Permute Pick Place
        PlaceAt Recurrence Reduce ReduceFromRanks ReduceScatter Relu Remainder Reshape
        ResidualDropout Roll Rotary Round RowSum RowTake Scatter ScatterExtreme ScatterProduct
        ScatterToRanks Seam Shift Sigmoid Sign Silu Sin Slice Split Sqrt Std Sub Tanh TapSum
        TieShare Tile Transpose Triangle Unbind Var Where WholeQuotient WindowSum Windows
        WriteThrough Zero _Blank
    """,
}

# Functions that may run several operations. The inputs are converted once, before the first
# operation, so that the result's dtype does not depend on which operations the function runs.
FUNCTIONS = {
    "float16": """
        addmm addmv baddbmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        einsum gru_cell gru_sequence lstm_cell lstm_sequence prelu rnn_relu_cell rnn_sequence
        rnn_tanh_cell
    """,
    "float32": """
        binary_cross_entropy_with_logits cdist cosine_similarity cross_entropy group_norm huber_loss
        interpolate kl_div l1_loss layer_norm mse_loss nll_loss rms_norm
        smooth_l1_loss
    """,
    "widest": "addcdiv addcmul bilinear dot grid_sample inner scatter_add tensordot vdot",
    # Computed in float32, with a result in the dtype of the input. In PyTorch, cuDNN does this: it
    # accepts a float16 input with float32 parameters.
    "float32 inside": "batch_norm instance_norm",
}
