"""Run the routines of references with every array adjacent to inaccessible memory.

    python tests/support/guarded_routines.py end|start [--too-far]

As ``guarded.py``: one element too far ends the process. The last line has the kinds that ran.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from guarded import Guarded
from hybridjit.ops import lookup, native
from hybridjit.ops.random.draws import drawn_places
from hybridjit.ops.sequence.ctc import BACK_FROM_CTC, ctc_loss
from hybridjit.ops.sequence.hawkes import SLOPES, hawkesll
from hybridjit.ops.tensor.ordering import topk
from hybridjit.ops.vision.bilinear_samples import BACK_FROM_SAMPLES
from hybridjit.ops.vision.interpolation import resample
from hybridjit.ops.vision.resolution import RESIZE_BACK
from hybridjit.ops.vision.roi_pooling import ROI_POOLING, ROI_POOLING_BACK
from hybridjit.ops.vision.warp import SAMPLE_BACK

SIZES = (((97, 61, 3), (40, 130)), ((2, 31, 90, 1), (64, 33)), ((37, 150, 5), (90, 20)))
Case = Callable[[], object]


def cases() -> Iterator[tuple[str, Case]]:
    """Calls that run routines, by name."""
    rng = np.random.default_rng(0)
    for dtype in ("uint8", "float32"):
        for shape, size in SIZES:
            for method in range(5):
                x = rng.integers(0, 256, shape).astype(dtype)
                yield (
                    f"resize {dtype} {shape} {method}",
                    lambda x=x, s=size, m=method: resample(x, *s, m),
                )
    for shape in ((3, 400), (5, 83), (1, 16)):
        for k, ascending in ((1, True), (2, False)):
            for dtype in ("float32", "float64", "int32", "int64", "uint8"):
                x = rng.integers(0, 9, shape).astype(dtype)
                x[0, 3] = 255 if x.dtype.kind in "iu" else np.nan
                both = {"axis": -1, "ret_typ": "both", "dtype": np.dtype("int32")}
                yield (
                    f"topk {dtype} {shape} {k}",
                    lambda x=x, k=k, a=ascending, b=both: joined(topk(x, k=k, is_ascend=a, **b)),
                )
    yield from losses(rng)
    yield from samples(rng)
    yield from bins(rng)
    yield from moved(rng)
    yield from rotated(rng)
    yield from draws(rng)
    yield from inverses(rng)
    yield from processes(rng)
    yield from reflections(rng)
    for dtype in ("float32", "float64"):
        for new, old in (((31, 20), (9, 47)), ((5, 6), (5, 30)), ((40, 3), (40, 1))):
            for align in (True, False):
                d = rng.standard_normal((2, 3, *new)).astype(dtype)
                sizes = {"how": "bilinear", "height": old[0], "width": old[1], "align": align}
                yield (
                    f"spread {dtype} {new} {align}",
                    lambda d=d, k=sizes: RESIZE_BACK.ref(d, **k),
                )
    for dtype in ("float32", "float64"):
        for n, m in ((1, 1), (7, 5), (12, 70), (70, 5)):
            for lower, transpose, right in ((True, False, False), (False, False, True)):
                a = (rng.uniform(0, 1, (2, n, n)) + 2 * n * np.eye(n)).astype(dtype)
                x = rng.standard_normal((2, m, n) if right else (2, n, m)).astype(dtype)
                attrs = {"lower": lower, "transpose": transpose, "rightside": right, "alpha": 2.0}
                trsm = lookup("_linalg_trsm").ref
                yield f"trsm {dtype} {n} {m} {lower}", lambda o=(a, x), k=attrs, f=trsm: f(*o, **k)


def inverses(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Inverses and determinants: rows that are exchanged, and singular matrices."""
    inverse, det, slogdet, or_zeros = (
        lookup(name).ref
        for name in ("_linalg_inverse", "_linalg_det", "_linalg_slogdet", "_inverse_or_zeros")
    )
    for dtype in ("float32", "float64"):
        for n in (1, 2, 5, 17, 33):
            a = rng.standard_normal((3, n, n)).astype(dtype)
            yield f"inverse {dtype} {n}", lambda a=a: inverse(a)
            a = np.concatenate([a, np.zeros((1, n, n), dtype)])
            yield f"determinant {dtype} {n}", lambda a=a: det(a)
            yield f"logarithm {dtype} {n}", lambda a=a: joined(slogdet(a))
            yield f"regular {dtype} {n}", lambda a=a: or_zeros(a)
    a = rng.standard_normal((2, 195, 195))
    yield "inverse float64 195", lambda a=a: inverse(a)
    singular = np.concatenate([a, np.zeros((1, 195, 195))])
    yield "regular float64 195", lambda a=singular: or_zeros(a)


def bins(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Bins of regions inside, outside and of no image, forward and backward."""
    places = rng.uniform(-9, 30, (6, 4))
    rois = np.concatenate([[[0], [1], [0], [2], [-1], [1]], places], 1)
    for dtype in ("float32", "float64"):
        data = rng.integers(-9, 9, (2, 12, 9, 7)).astype(dtype)
        data[0, 0, 3, 3] = np.nan
        regions = rois.astype(dtype)
        attrs = {"pooled_size": (3, 2), "spatial_scale": 0.5}
        head = rng.integers(-9, 9, (6, 12, 3, 2)).astype(dtype)
        yield f"maxima {dtype}", lambda a=(data, regions), k=attrs: ROI_POOLING.ref(*a, **k)
        yield (
            f"maxima back {dtype}",
            lambda a=(head, data, regions), k=attrs: ROI_POOLING_BACK.ref(*a, **k),
        )
        attrs = {"spatial_scale": 0.5, "output_dim": 3, "pooled_size": 3, "group_size": 2}
        means, back = lookup("_contrib_PSROIPooling").ref, lookup("_position_sensitive_back").ref
        head = rng.integers(-9, 9, (6, 3, 3, 3)).astype(dtype)
        yield f"means {dtype}", lambda a=(data, regions), k=attrs, f=means: f(*a, **k)
        yield (
            f"means back {dtype}",
            lambda a=(head, regions), k=attrs, f=back: f(*a, shape=(2, 12, 9, 7), **k),
        )


def moved(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Bins that move by offsets, of regions inside, outside and of no image, and gradients."""
    places = rng.uniform(-9, 30, (5, 4))
    rois = np.concatenate([[[0], [1], [0], [2], [-1]], places], 1)
    forward, back = (
        lookup(name).ref for name in ("_contrib_DeformablePSROIPooling", "_deformable_pooling_back")
    )
    for dtype in ("float32", "float64"):
        data = rng.standard_normal((2, 16, 9, 7)).astype(dtype)
        attrs = {
            "spatial_scale": 0.5, "output_dim": 4, "pooled_size": 3, "group_size": 2,
            "part_size": 2, "sample_per_part": 3, "trans_std": 0.3, "no_trans": False,
        }  # fmt: skip
        trans = rng.standard_normal((5, 4, 2, 2)).astype(dtype)
        operands = (data, rois.astype(dtype), trans)
        head = rng.standard_normal((5, 4, 3, 3)).astype(dtype)
        yield f"moved {dtype}", lambda o=operands, k=attrs: forward(*o, **k)
        yield f"moved back {dtype}", lambda o=(head, *operands), k=attrs: joined(back(*o, **k))


def draws(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Indices drawn from rows of one and of many elements, with zeros, infinity and NaN."""
    for dtype in ("float32", "float64", "float16"):
        for size, count in ((1, 3), (15, 4), (16, 1), (17, 40), (100, 7), (700, 30)):
            rows = (rng.random((3, size)) * (rng.random((3, size)) < 0.7)).astype(dtype)
            parts = rng.random((3, count))
            parts[0, 0], rows[1] = 0, 0
            rows[2, -1] = rng.choice([1, np.inf, np.nan])
            yield f"draw {dtype} {size}", lambda r=rows, p=parts: drawn_places(r, p)


def rotated(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Bins of rotated regions inside, outside and of no image; few and many samples of a bin."""
    pool = lookup("_contrib_RROIAlign").ref
    places = rng.uniform((-9, -9, 0, 0, -180), (30, 30, 40, 40, 180), (7, 5))
    places[5, 3], places[6, 2] = 400, np.nan
    rois = np.concatenate([[[0], [1], [0], [2], [-1], [1], [0]], places], 1)
    for dtype in ("float32", "float64"):
        operands = rng.standard_normal((2, 5, 9, 7)).astype(dtype), rois.astype(dtype)
        for ratio in (-1, 3):
            attrs = {"pooled_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": ratio}
            yield f"rotated {dtype} {ratio}", lambda o=operands, k=attrs: pool(*o, **k)


def samples(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Gradients of bilinear samples, inside and outside of images."""
    for dtype in ("float32", "float64"):
        for shape, size in (((2, 19, 5, 7), (3, 4)), ((1, 3, 4, 1), (2, 9))):
            data = rng.standard_normal(shape).astype(dtype)
            grid = rng.uniform(-1.6, 1.6, (shape[0], 2, *size)).astype(dtype)
            head = rng.standard_normal((*shape[:2], *size)).astype(dtype)
            yield (
                f"sampler {dtype} {shape}",
                lambda a=(head, data, grid): joined(SAMPLE_BACK.ref(*a)),
            )
            images, heads = (np.moveaxis(a, 1, 3).copy() for a in (data, head))
            places = rng.uniform(-2, 6, grid.shape).astype(dtype)
            mask = rng.uniform(0, 1, (shape[0], *size)).astype(dtype)
            for operands, held in (
                ((heads, images, places), True),
                ((heads, images, places, mask), False),
            ):
                yield (
                    f"cells {dtype} {shape} {held}",
                    lambda o=operands, h=held: joined(
                        BACK_FROM_SAMPLES.ref(*o, is_held=h, is_masked=not h)
                    ),
                )


def losses(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """CTC, forward and backward: paths of one place, sequences without steps or without a way."""
    for steps, batch, classes, most in ((20, 3, 17, 5), (1, 2, 5, 1), (9, 4, 8, 9), (5, 2, 3, 0)):
        data = rng.standard_normal((steps, batch, classes)).astype(np.float32)
        label = rng.integers(0, classes, (batch, most)).astype(np.float32)
        lengths = [rng.integers(0, n + 1, batch).astype(np.float32) for n in (steps, most)]
        uses = {"use_data_lengths": True, "use_label_lengths": True, "blank_label": "last"}
        arrays, head = (data, label, *lengths), np.ones(batch, np.float32)
        yield (
            f"CTC {data.shape} {most}",
            lambda a=arrays, h=head, u=uses: joined(
                (ctc_loss(*a, **u), BACK_FROM_CTC.ref(h, *a, **u))
            ),
        )


def reflections(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """LQ factors of matrices of few and many rows, square ones and zeros."""
    factors = lookup("_linalg_gelqf").ref
    for m, n in ((1, 1), (1, 9), (3, 3), (4, 17), (9, 16), (33, 70)):
        a = rng.standard_normal((3, m, n)).astype(np.float32)
        a[1] = 0
        yield f"reflect {m} {n}", lambda a=a: joined(factors(a))


def processes(rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Hawkes processes and their slopes: sequences without events, and invalid marks after them."""
    for dtype in ("float32", "float64", "float16"):
        for n, steps, kinds in ((3, 9, 2), (1, 1, 1), (4, 33, 5), (2, 0, 3)):
            shapes = ((n, kinds), (kinds,), (kinds,), (n, kinds), (n, steps))
            numbers = [rng.uniform(0.1, 1, shape).astype(dtype) for shape in shapes]
            marks = rng.integers(0, kinds, (n, steps)).astype(np.int32)
            valid = rng.integers(0, steps + 1, n)
            valid[0], marks[-1, valid[-1] :] = steps, -1
            ends = valid.astype(dtype), np.full(n, steps + 1, dtype)
            operands, head = (*numbers, marks, *ends), rng.standard_normal(n).astype(dtype)
            yield (
                f"Hawkes {dtype} {n} {steps}",
                lambda o=operands, h=head: joined((*hawkesll(*o), *SLOPES.ref(h, *o))),
            )


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """All arrays in one."""
    return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in arrays])


def guard(at_end: bool, ran: set[str], missing: int) -> None:
    """Let routines run in guarded memory, the arrays ``missing`` bytes too short."""
    provider = native._providers[0]

    def load(name: str, facts: tuple[object, ...]) -> native.Routine:
        run = provider(name, facts)
        ran.add(name)

        def call(arrays: Sequence[np.ndarray], numbers: Sequence[int]) -> None:
            regions = [Guarded(a.nbytes - missing, at_end) for a in arrays]
            views = [region.bytes for region in regions]
            for view, array in zip(views, arrays):
                view[:] = array.reshape(-1).view(np.uint8)[: len(view)]
            run(views, numbers)
            for view, array in zip(views, arrays):
                if array.flags.writeable:
                    array.reshape(-1).view(np.uint8)[: len(view)] = view

        return call

    native.provide(load)
    native.WORTH_NATIVE = 0


def main() -> None:
    missing = 8 if "--too-far" in sys.argv else 0
    ran: set[str] = set()
    guard(sys.argv[1] == "end", ran, missing)
    for name, case in cases():
        print(name, flush=True)
        case()
    print(*sorted(ran))


if __name__ == "__main__":
    main()
