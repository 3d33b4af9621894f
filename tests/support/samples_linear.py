"""Samples of linear algebra, tables, attention, recurrent nets and sequences."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad, ints

F16, F64, I32 = (np.dtype(t) for t in ("float16", "float64", "int32"))


def positive(*lead: int, n: int = 3, dtype: str = "float32") -> np.ndarray:
    """Symmetric positive definite matrices."""
    half = np.random.default_rng(n).normal(size=(*lead, n, n))
    return (half @ half.swapaxes(-1, -2) + np.eye(n)).astype(dtype)


def products() -> None:
    gemm2 = "_linalg_gemm2"
    add(gemm2, (2, 3), (3, 4))
    add(gemm2, (5, 3, 2), (5, 3, 4), transpose_a=True, alpha=2.5)
    add(gemm2, (2, 2, 3, 17), (2, 2, 5, 17), transpose_b=True)
    add(gemm2, (2, 5, 3), (3, 5, 4), axis=0)
    add(gemm2, (2, 3), (3, 4), dtype="float64")
    bad(gemm2, (2, 3), (4, 4), error=ShapeError, says="lhs contracts 3 elements, but rhs 4")
    bad(gemm2, (5, 2, 3), (3, 4), error=ShapeError, says="operands of equal rank")
    bad(gemm2, (5, 2, 3), (5, 3, 4), error=ShapeError, says="that of the columns", axis=2)
    gemm = "_linalg_gemm"
    add(gemm, (2, 3), (3, 4), (2, 4), alpha=2, beta=0.5)
    add(gemm, (5, 3, 2), (5, 4, 3), (5, 2, 4), transpose_a=True, transpose_b=True)
    bad(gemm, (2, 3), (3, 4), (1, 4), error=ShapeError, says="C has shape (1,4)")
    add("khatri_rao", (2, 3), num_args=1)
    add("khatri_rao", (2, 3), (4, 3), (5, 3), num_args=3)
    bad("khatri_rao", (2, 3), (4, 2), error=ShapeError, says="numbers of columns", num_args=2)


def matrices() -> None:
    for lower in (True, False):
        add("_linalg_potrf", positive(2), lower=lower)
        add("_linalg_potri", np.linalg.cholesky(positive()), lower=lower)
        for name in ("_linalg_trmm", "_linalg_trsm"):
            add(name, positive(2), (2, 3, 4), lower=lower, transpose=True, alpha=2)
            add(name, positive(2), (2, 4, 3), lower=lower, rightside=True)
            add(name, positive(), (3, 1), lower=lower)
        add("_linalg_extracttrian", (2, 4, 4), lower=lower)
        add("_triangle_of", (2, 4, 4), lower=lower, offset=-1)
        add("_linalg_maketrian", (2, 6), lower=lower)
    for offset in (-2, 0, 1):
        for name in ("_linalg_extractdiag", "_linalg_extracttrian"):
            add(name, (2, 4, 4), offset=offset)
        add("_linalg_makediag", (2, 3), offset=offset)
        add("_linalg_maketrian", (2, 6), offset=offset)
    add("_linalg_syrk", (2, 3, 4), alpha=0.5)
    add("_linalg_syrk", (3, 4), transpose=True, dtype="float64")
    add("_inverse_or_zeros", positive())
    add("_inverse_or_zeros", positive(2, 2, n=4, dtype="float64"))
    for name in ("inverse", "det", "slogdet", "sumlogdiag", "syevd"):
        add(f"_linalg_{name}", positive())
        add(f"_linalg_{name}", positive(2, 2, n=4, dtype="float64"))
        bad(f"_linalg_{name}", (2, 3), error=ShapeError, says="square matrices")
    add("_linalg_gelqf", (3, 5))
    add("_linalg_gelqf", (2, 3, 3), dtype="float64")
    bad("_linalg_gelqf", (3, 2), error=ShapeError, says="at least as many columns as rows")
    bad("_linalg_potrf", TensorType((2, 2), I32), error=DTypeError, says="int32")
    bad("_linalg_trmm", (3, 3), (2, 3), error=ShapeError, says="do not match on the left side")
    bad("_linalg_extractdiag", (3, 3), error=ShapeError, says="offset 3 is out of range", offset=3)
    bad(
        "_linalg_maketrian",
        (5,),
        error=ShapeError,
        says="5 elements are not the size of a triangle",
    )
    bad("_linalg_makediag", TensorType((5,), I32), error=DTypeError, says="int32")


def tables() -> None:
    emb = "Embedding"
    add("_contrib_SparseEmbedding", np.float32([0, 3, 9]), (4, 2), input_dim=4, output_dim=2)
    sizes = {"input_dim": 5, "output_dim": 3}
    add(emb, np.array([[0, 1.9], [-1, 7]], np.float32), (5, 3), **sizes)
    add(emb, ints(4, 0, 2), **sizes)
    add(emb, np.array(3.0, np.float32), (5, 3), **sizes)
    add(emb, ints([[1], [3]], dtype="uint8"), **sizes, dtype_="float64")
    add(emb, np.zeros((0, 2), np.float32), **sizes)
    bad(emb, (2,), (4, 3), error=ShapeError, says="weight has shape (4,3)", **sizes)
    bad(emb, (2,), (4, 3), error=AttributeValueError, says="at least 1", input_dim=0, output_dim=3)


def attention() -> None:
    interleaved = "_contrib_interleaved_matmul_"
    add(interleaved + "selfatt_qk", (5, 2, 24), heads=2)
    add(interleaved + "selfatt_qk", (3, 1, 51), heads=1)
    add(interleaved + "selfatt_valatt", (5, 2, 24), (4, 5, 5), heads=2)
    add(interleaved + "encdec_qk", (5, 2, 8), (3, 2, 16), heads=2)
    add(interleaved + "encdec_valatt", (3, 2, 16), (4, 5, 3), heads=2)
    add(interleaved + "selfatt_qk", (5, 2, 24), heads=2, dtype="float16")
    bad(interleaved + "selfatt_qk", (5, 24), error=ShapeError, says="should be 3D", heads=2)
    bad(interleaved + "selfatt_qk", (5, 2, 25), error=ShapeError, says="does not divide 25",
        heads=2)  # fmt: skip
    bad(interleaved + "selfatt_valatt", (5, 2, 24), (4, 5, 4), error=ShapeError,
        says="attention should be (4, query length, 5)", heads=2)  # fmt: skip
    bad(interleaved + "encdec_qk", (5, 2, 8), (3, 2, 8), error=ShapeError,
        says="twice the queries' projection", heads=2)  # fmt: skip
    bad(interleaved + "encdec_valatt", (3, 2, 16), (3, 5, 3), error=ShapeError,
        says="attention should be (4, query length, 3)", heads=2)  # fmt: skip
    add("_contrib_div_sqrt_dim", (2, 3, 5))
    add("_contrib_div_sqrt_dim", (4,), dtype="float16")
    add("_contrib_div_sqrt_dim", (3, 5), dtype="int32")
    bad("_contrib_div_sqrt_dim", TensorType((2,), np.dtype("bool")), error=DTypeError, says="bool")


def fused_attention() -> None:
    name = "_attention"
    q, k, v = (2, 3, 5, 4), (2, 3, 37, 4), (2, 3, 37, 6)
    add(name, q, k, v)
    add(name, q, k, v, dtype="float64", scale=0.5)
    add(name, q, k, v, (1,), (2, 1, 1, 37), (1, 3, 5, 37), has_factor=True, biases=2)
    add(name, (1, 1, 30, 20), (1, 1, 300, 20), (1, 1, 300, 40), (1, 1, 30, 300), biases=1)
    mask = np.random.default_rng(3).integers(0, 2, (2, 1, 5, 37)).astype("float32")
    lengths = np.random.default_rng(4).integers(0, 45, (2, 3, 5)).astype("int32")
    for after in ("none", "where", "times"):
        add(name, q, k, v, mask * np.float32(0.5), fill=-1e9, after=after)
    add(name, q, k, v, lengths, use_length=True)
    add(name, q, k, v, (1,), mask, lengths, has_factor=True, fill=0.0, use_length=True)
    bad(name, q, k, v, TensorType((2, 3), I32), error=ShapeError, says="length",
        use_length=True)  # fmt: skip
    bad(name, (3, 5, 4), k, v, error=ShapeError, says="needs 4 axes")
    bad(name, q, (2, 3, 37, 5), v, error=ShapeError, says="do not match query")
    bad(name, q, k, v, (2, 2, 1, 37), error=ShapeError, says="does not broadcast", biases=1)
    bad(name, *[TensorType((1, 1, 2, 2), I32)] * 3, error=DTypeError, says="int32")


def recurrent() -> None:
    rnn = "RNN"
    for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        add(rnn, (4, 2, 3), state_size=5, num_layers=1, mode=mode)
        add(rnn, (3, 2, 4), state_size=5, num_layers=2, mode=mode, bidirectional=True,
            state_outputs=True)  # fmt: skip
        add(rnn, (1, 1, 1), state_size=1, num_layers=3, mode=mode, state_outputs=True)
    add(rnn, (3, 2, 4), state_size=5, num_layers=2, mode="lstm", projection_size=3,
        bidirectional=True, state_outputs=True)  # fmt: skip
    add(rnn, (3, 2, 4), state_size=5, num_layers=1, mode="gru", dtype="float64")
    add(rnn, (3, 2, 4), state_size=5, num_layers=1, mode="lstm", dtype="float16")
    for mode, states in (("lstm", 2), ("gru", 1)):
        add("_RNN_keeping", (3, 2, 4), state_size=5, num_layers=2, mode=mode,
            state_outputs=states == 2, bidirectional=states == 1)  # fmt: skip
        add("_RNN_training", (3, 2, 4), state_size=5, num_layers=3, mode=mode, p=0.5,
            state_outputs=states == 2, bidirectional=states == 1)  # fmt: skip
    x, attrs = (3, 2, 4), {"state_size": 5, "num_layers": 1, "mode": "gru"}
    bad(rnn, x, (7,), (1, 2, 5), error=ShapeError, says="the attributes and the data need (165)",
        **attrs)  # fmt: skip
    bad(rnn, x, (165,), (1, 2, 4), error=ShapeError, says="(1,2,4)", **attrs)
    bad(rnn, (3, 4), (165,), (1, 2, 5), error=ShapeError, says="rank-3 tensor", **attrs)
    bad(rnn, x, (165,), (1, 2, 3), error=AttributeValueError, says="needs mode lstm, got gru",
        projection_size=3, **attrs)  # fmt: skip
    concat = "_rnn_param_concat"
    add(concat, (3,), (4,), (1,), num_args=3, dim=0)
    add(concat, (2, 3), (2, 4), num_args=2)
    bad(concat, (2, 3), (3, 3), error=ShapeError, says="(3,", num_args=2)


def sequences() -> None:
    lengths = np.array([1, 4, 2.9], np.float32)
    mask, last, back = "SequenceMask", "SequenceLast", "SequenceReverse"
    for name in (mask, last, back):
        add(name, (4, 3))
        add(name, (4, 3, 2, 5), lengths, use_sequence_length=True)
        add(name, (4, 3), ints(1, 4, 2), use_sequence_length=True)
        bad(name, (4, 3), (4,), error=ShapeError, says="(4)", use_sequence_length=True)
        bad(name, (4,), error=ShapeError, says="rank 2 or greater")
    add(mask, (3, 4, 2), lengths, use_sequence_length=True, axis=1, value=-1.5)
    add(mask, np.arange(12, dtype="int32").reshape(4, 3), lengths, use_sequence_length=True)
    add(last, (3, 4, 2), lengths, use_sequence_length=True, axis=1)
    add(last, (3, 4, 2), axis=1)
    bad(mask, (4, 3, 2), error=ShapeError, says="axis to be 0 or 1, got 2", axis=2)
    bad(last, (4, 3, 2), error=ShapeError, says="axis to be 0 or 1, got 2", axis=2)
    bad(back, (4, 3, 2), error=ShapeError, says="axis to be 0, got 1", axis=1)


def declare() -> None:
    """List them all."""
    products()
    matrices()
    tables()
    attention()
    fused_attention()
    recurrent()
    sequences()
