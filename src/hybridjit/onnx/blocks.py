"""Blocks of ONNX models, including models whose graph depends on the input sizes.

Input: a graph, or a file with nodes that need sizes which the file leaves symbolic. Output: a
hybridized block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import sym
from .._core.async_safety import holding, uncollected
from .._core.fork_locks import Rank, held_at_fork
from .._core.recording import FLAGS
from .._core.types import DType, PartialShape, Shape, TensorType, is_known_shape
from ..context import Context
from ..errors import MXNetError, ShapeError
from ..gluon.hybrid_block import flags_of
from ..gluon.interface import of_types
from ..gluon.parameter import Parameter, ParameterDict
from ..gluon.parameter.single import Fresh
from ..gluon.structure import Nested
from ..gluon.symbol_block import SymbolBlock
from ..gluon.trace import Trace
from ..nd import NDArray
from ..runtime.variant import BUGS, MAX_VARIANTS, NotServedError, warn_of_bug
from ..sym import Symbol
from .files import ModelFile
from .graph import fits
from .open_sizes import Imported

if TYPE_CHECKING:
    from ..gluon.bound import BoundCall
    from ..io.batches import DataDesc
    from ..verification import Verdict

KEPT = 16
"""Number of graphs that a block keeps; the least recently used one is dropped."""

_making = held_at_fork(Rank.TRACING)


@uncollected
def make_block(
    imported: Imported, ctx: Context | None = None, shared: ParameterDict | None = None
) -> SymbolBlock:
    """Hybridized block of a graph and its parameters; those in ``shared`` are reused."""
    inputs = [sym.var(name) for name in imported.inputs]
    block = SymbolBlock(Symbol(imported.heads), inputs, shared)
    held = () if shared is None else shared.keys()
    fresh = {name: Fresh(array) for name, array in imported.params.items() if name not in held}
    block.collect_params().load_dict(
        fresh, ctx, bool(held), ignore_extra=True, cast_dtype=True, dtype_source="saved"
    )
    block.hybridize()
    return block


class SizedBlock(SymbolBlock):
    """Block of a file with nodes that need sizes which the file leaves symbolic.

    A call with other sizes builds another graph from the file, which must remain in its place. All
    graphs share the parameters of the file; constants that depend on sizes belong to one graph.
    Inference uses graphs with symbolic sizes, each for all sizes that satisfy its guards.
    """

    def __init__(
        self, file: ModelFile, first: Imported | None = None, ctx: Context | None = None
    ) -> None:
        """Block of a file; ``first`` is a graph for given sizes, without which none is general."""
        self._begin(None)
        self._file, self._ctx = file, ctx
        self._asks_once = first is not None  # try once to build a graph for all sizes
        self._open: list[tuple[list[PartialShape | None], SymbolBlock]] = []
        self._blocks: OrderedDict[tuple[Shape, ...], SymbolBlock] = OrderedDict()
        self._latest: tuple[tuple[Shape, ...], SymbolBlock] | None = None
        self._changes: dict[str, Callable[[SymbolBlock], None]] = {}
        self._symbolic: list[SymbolBlock] = []  # the one that was used last comes last
        self._served: tuple[tuple[Shape, ...], SymbolBlock] | None = None
        self._seen: tuple[Shape, ...] | None = None  # sizes of the latest call, if one of these
        self._may_be_symbolic = True
        if first is not None:
            self._keep(first)

    def _interface(self) -> tuple[list[DataDesc], list[DataDesc]]:
        ins, outs = self._file.declared
        return of_types(ins), of_types(outs)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self._file.shapes)

    @property
    def input_shapes(self) -> dict[str, PartialShape | None]:
        return dict(self._file.shapes)

    def __getstate__(self) -> dict[str, object]:
        """For copies and pickles: without graphs of symbolic sizes, which are made again."""
        return {**super().__getstate__(), "_symbolic": [], "_served": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.name}: {', '.join(self._file.shapes)})"

    # Graphs

    def for_arrays(self, *args: Nested) -> SymbolBlock:
        """Block of the graph for these arrays' sizes; builds it if necessary.

        Raises ShapeError with the input's name for a size that differs from the file's, and the
        errors of ``hybridjit.onnx.load`` for these sizes.
        """
        arrays = [array for array in args if isinstance(array, NDArray)]
        shapes = tuple([array._data.shape for array in arrays])
        names = self._file.shapes
        if len(arrays) != len(names) or len(arrays) != len(args):
            raise ValueError(f"the network needs arrays for {', '.join(names)}, got {len(args)}")
        return self._found(shapes)

    @holding(_making)
    def _found(self, shapes: tuple[Shape, ...]) -> SymbolBlock:
        block = self._blocks.get(shapes) or self._made(shapes)
        self._blocks[shapes] = block
        self._blocks.move_to_end(shapes)
        if len(self._blocks) > KEPT:
            self._blocks.popitem(last=False)
        self._latest, self._seen = (shapes, block), None
        return block

    def _made(self, shapes: tuple[Shape, ...]) -> SymbolBlock:
        if self._asks_once:
            self._asks_once = False
            with suppress(ShapeError):  # nodes need symbolic sizes
                self._keep(self._file.graph({}))
        for declared, block in self._open:
            if all(map(fits, shapes, declared)):
                return block
        return self._keep(self._file.graph(dict(zip(self._file.shapes, shapes))))

    def _keep(self, imported: Imported) -> SymbolBlock:
        """Keep the block of a graph for exact sizes, or for all."""
        block = self._block_of(imported)
        shapes = [t.shape for t in imported.inputs.values()]
        if all(map(is_known_shape, shapes)):
            self._blocks[tuple(shapes)] = block  # type: ignore[arg-type]
        else:
            self._open.append((shapes, block))
        return block

    def _block_of(self, imported: Imported) -> SymbolBlock:
        """Block of a graph, configured as the earlier ones."""
        block = make_block(imported, self._ctx, self._shared(imported))
        for change in self._changes.values():
            change(block)
        if not self._reg_params:
            self._params.update(
                {n: p for n, p in block.collect_params().items() if n not in imported.sized}
            )
            self._reg_params = {name: self._params[name] for name in self._params}
        return block

    def _shared(self, imported: Imported) -> ParameterDict:
        """Parameters that all graphs share."""
        shared = ParameterDict("")
        for name, array in imported.params.items():
            param = self._params.find(name)
            if param is not None and name not in imported.sized and param.shape == array.shape:
                shared.update({name: param})
        return shared

    def _of_latest_call(self) -> SymbolBlock | None:
        """Block of the graph for the sizes of the latest call."""
        if self._seen is not None:
            return self._found(self._seen)
        return None if self._latest is None else self._latest[1]

    @holding(_making)
    def _any(self) -> SymbolBlock | None:
        """Any block: the latest, or one for assumed sizes; None if these do not fit."""
        blocks = [*self._blocks.values(), *(block for _, block in self._open)]
        latest = self._of_latest_call()
        if latest is not None:
            return latest
        if blocks:
            return blocks[-1]
        for shapes in self._file.examples():
            with suppress(MXNetError):
                return self._keep(self._file.graph(shapes))
        return None

    # Methods that delegate to the graph for their arguments

    def forward(self, x: Nested, *args: Nested) -> Nested:
        if not isinstance(x, NDArray):
            return super().forward(x, *args)
        is_inference = not (FLAGS.training or FLAGS.recording or self._monitor)
        is_inference &= self._is_compiled
        latest = self._served if is_inference else self._latest
        if latest is not None and latest[0] == tuple([_shape(a) for a in (x, *args)]):
            with suppress(NotServedError):  # after a change of switches
                return latest[1].forward(x, *args)
        if is_inference and self._may_be_symbolic:
            found = self._of_any_size(x, *args)
            if found is not None:
                return found
        block = self.for_arrays(x, *args)
        self._served = self._latest
        return block.forward(x, *args)

    def _of_any_size(self, *args: Nested) -> Nested | None:
        """The results of a graph with symbolic sizes; None where there is none for this call."""
        arrays = [array for array in args if isinstance(array, NDArray)]
        shapes = tuple([array._data.shape for array in arrays])
        if self._asks_once or self._open or shapes in self._blocks:
            return None
        if len(arrays) != len(args) or len(arrays) != len(self._file.shapes):
            return None
        if not all(type(array) is NDArray for array in arrays):
            return None
        for block in reversed(self._symbolic):
            with suppress(NotServedError):
                found = block.forward(*args)
                self._served, self._seen = (shapes, block), shapes
                return found
        made = self._new_symbolic(arrays)
        if made is None:
            return None
        try:
            found = made.forward(*args)
        except MXNetError:
            return None  # the graph for these sizes raises the error
        except BUGS as error:
            self._may_be_symbolic = False
            warn_of_bug(self._file.name, error)
            return None
        self._symbolic = [*self._symbolic, made][-MAX_VARIANTS:]
        self._served, self._seen = (shapes, made), shapes
        return found

    @holding(_making)
    def _new_symbolic(self, arrays: Sequence[NDArray]) -> SymbolBlock | None:
        """A block of the graph whose open sizes are symbols; None where none is to be made."""
        shapes = dict(zip(self._file.shapes, [array._data.shape for array in arrays]))
        if flags_of(self).get("dynamic") is False or self._are_narrow():
            return None
        try:
            made = self._file.symbolic(shapes)
        except MXNetError:
            return None
        if made is None:
            return None
        scope, imported = made
        block = self._block_of(imported)
        types = [
            TensorType(imported.inputs[name].shape, array._data.dtype)
            for name, array in zip(shapes, arrays)
        ]
        block._build(arrays).graph.made_for = scope, types
        return block

    def _are_narrow(self) -> bool:
        """Whether the graphs of symbolic sizes serve too few sizes each to be worth compiling."""
        graphs = [block._build(()).graph for block in self._symbolic]
        served = sum(variant.served for graph in graphs for variant in graph.variants())
        return len(graphs) >= MAX_VARIANTS and served < 2 * MAX_VARIANTS

    def forward_symbols(self, *args: Nested) -> Nested:
        """Apply the graph of the latest call, which rejects other sizes."""
        block = self._any()
        if block is None:
            raise MXNetError(
                f"the graph of {self._file.name} depends on the sizes of its inputs: call the "
                "network with arrays first, or load it with shapes"
            )
        return block.forward_symbols(*args)

    def bind(
        self, *args: Nested, out: NDArray | Sequence[NDArray] | None = None, **named: Nested
    ) -> BoundCall:
        args = self._arguments(args, named)
        return self.for_arrays(*args).bind(*args, out=out)

    def verify(
        self,
        *args: Nested,
        tolerance: float | None = None,
        train: bool = False,
        **named: Nested,
    ) -> Verdict:
        args = self._arguments(args, named)
        return self.for_arrays(*args).verify(*args, tolerance=tolerance, train=train)

    def export_onnx(self, path: str, *args: object, **how: Any) -> str:
        return self.for_arrays(*args).export_onnx(path, *args, **how)

    def infer_shape(self, *args: Nested) -> None:
        self.for_arrays(*args).infer_shape(*args)

    def infer_type(self, *args: Nested) -> None:
        self.for_arrays(*args).infer_type(*args)

    def optimize_for(self, x: object, *args: object, **how: Any) -> None:
        self.for_arrays(x, *args).optimize_for(x, *args, **how)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> tuple[str, str]:
        """Write the graph of the latest call, which is valid for its sizes only."""
        latest = self._of_latest_call()
        if latest is None:
            return super().export(path, epoch, remove_amp_cast)
        return latest.export(path, epoch, remove_amp_cast)

    def _exportable(self) -> Trace | None:
        latest = self._of_latest_call()
        return None if latest is None else latest._exportable()

    def _check_containers(self) -> None:
        """Do nothing: the blocks of graphs are not children."""

    # Methods that apply to all graphs, also to those built later

    def collect_params(self, select: str | None = None) -> ParameterDict:
        self._any()
        return super().collect_params(select)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        self._any()
        return super()._collect_params_with_prefix(prefix)

    def hybridize(
        self, active: bool = True, backend: str | None = None, clear: bool = True, **flags: Any
    ) -> None:
        super().hybridize(active, backend, clear, **flags)
        self._change("hybridize", active, backend, clear, **flags)

    def cast(self, dtype: DType) -> None:
        super().cast(dtype)
        self._change("cast", dtype)

    def reset_ctx(self, ctx: Context | list[Context]) -> None:
        super().reset_ctx(ctx)
        self._change("reset_ctx", ctx)

    def register_op_hook(self, callback: Callable[..., object], monitor_all: bool = False) -> None:
        super().register_op_hook(callback, monitor_all)
        self._change("register_op_hook", callback, monitor_all)

    def _change(self, method: str, *args: Any, **flags: Any) -> None:
        self._changes[method] = partial(_change, method, args, flags)
        self._symbolic, self._served = [], None
        for block in {*self._blocks.values(), *(block for _, block in self._open)}:
            self._changes[method](block)


def _shape(x: object) -> Shape | None:
    """Shape of an array; skips the public property, which is slower."""
    return x._data.shape if type(x) is NDArray else None


def _change(method: str, args: tuple[Any, ...], flags: dict[str, Any], block: SymbolBlock) -> None:
    getattr(block, method)(*args, **flags)
