"""Names that MXNet has in a module in which hybridjit does not define them.

Input: hybridjit's modules. Output: the same modules, with MXNet's import paths:
``from mxnet.gluon.block import HybridBlock``, ``from mxnet.ndarray.ndarray import array``.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import private_names as private_names  # must be loaded, like all modules in the tables
from .modules import module_at, part_of

_NORMS = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]
_POOLS = [
    f"{scope}{kind}Pool{rank}D"
    for scope in ("", "Global")
    for kind in ("Avg", "Max")
    for rank in (1, 2, 3)
]
_CREATION = ["arange", "eye", "full", "histogram", "linspace", "ones", "zeros"]
_ARRAYS = [
    *("array", "concatenate", "empty", "from_dlpack", "from_numpy", "moveaxis", "onehot_encode"),
    *("to_dlpack_for_read", "to_dlpack_for_write", "waitall"),
]
_ITERATORS = [
    *("DataBatch", "DataDesc", "DataIter", "MXDataIter", "NDArrayIter", "PrefetchingIter"),
    "ResizeIter",
]
_PICTURES = [
    *("Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug"),
    *("ColorNormalizeAug", "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug"),
    *("HorizontalFlipAug", "HueJitterAug", "ImageIter", "LightingAug", "RandomCropAug"),
    *("RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug"),
    *("SaturationJitterAug", "SequentialAug", "imrotate", "random_rotate"),
]
_SWITCHES = ["is_np_array", "is_np_shape", "use_np", "use_np_array", "use_np_shape"]
_SYMBOLS = ["Group", "Variable", "load", "load_json", "pow", "var"]

# Module path below the package: the defining module, and the names.
ELSEWHERE: dict[str, tuple[str, list[str]]] = {
    "": ("util", [*_SWITCHES, "np_array", "np_shape", "set_np_shape"]),
    "gluon": ("gluon.parameter", ["DeferredInitializationError"]),
    "image.image": ("image", _PICTURES),
    "image.detection": ("image", ["ImageDetIter"]),
    "gluon.block": ("gluon", ["DeferredInitializationError", "HybridBlock", "SymbolBlock"]),
    "gluon.nn.basic_layers": ("gluon.nn", [*_NORMS, "HybridSequential", "Sequential"]),
    "gluon.nn.conv_layers": ("gluon.nn", [*_POOLS, "ReflectionPad2D"]),
    "initializer": ("nd", ["load"]),
    "io.io": ("io", _ITERATORS),
    "nd.utils": ("nd", ["array", "empty", "load", "load_frombuffer", "save", "zeros"]),
    "nd.ndarray": ("nd", [*_CREATION, *_ARRAYS]),
    "onnx.onnx2mx.import_model": ("onnx", ["get_model_metadata", "import_model"]),
    "onnx.onnx2mx.import_to_gluon": ("onnx", ["import_to_gluon"]),
    "sym.symbol": ("sym", [*_CREATION, *_SYMBOLS]),
}

_FLAGS = ["is_np_array", "is_np_shape"]
_NAMESPACES = ["ndarray", "symbol"]

# Names of the top module that MXNet's modules have because they import them.
IMPORTED: dict[str, list[str]] = {
    "autograd": ["NDArray", "Symbol"],
    "executor": ["ndarray"],
    "gluon.block": [*_NAMESPACES, *_FLAGS, "MXNetError", "NDArray", "Symbol"],
    "gluon.loss": ["ndarray", "is_np_array"],
    "gluon.parameter": [
        *(*_NAMESPACES, *_FLAGS, "Context", "MXNetError", "autograd", "context", "cpu"),
        "initializer",
    ],
    "gluon.rnn.rnn_cell": _NAMESPACES,
    "gluon.rnn.rnn_layer": [*_NAMESPACES, "is_np_array"],
    "gluon.utils": ["ndarray", *_FLAGS],
    "image": ["io", "nd"],
    "initializer": ["ndarray", "is_np_array", "random"],
    "metric": ["ndarray", "registry"],
    "model": ["io", "metric", "nd", "sym"],
    "nd.contrib": ["current_context", "ndarray"],
    "nd.random": ["current_context"],
    "random": ["Context"],
    "rnn": [*_NAMESPACES, "init"],
    "sym.symbol": ["AttrScope", "Context", "NDArray", "current_context"],
    "test_utils": ["Context", "Symbol", "current_context"],
}

_STORAGE = [
    *("CSR", "DEFAULT", "ID_TO_STR", "ROW_SPARSE", "STR_TO_ID", "UNDEFINED"),
]
_INDEXING = ["ADVANCED", "BASIC", "EMPTY_TUPLE", "UNSUPPORTED"]
_CODES = ["_DTYPE_MX_TO_NP", "_DTYPE_NP_TO_MX", "_GRAD_REQ_MAP"]
_ARRAY_CODES = [
    *("py_slice", *_CODES),
    *(f"_STORAGE_TYPE_{name}" for name in _STORAGE),
    *(f"_NDARRAY_{name}_INDEXING" for name in _INDEXING),
]
_SYMBOL_CODES = [*_CODES, "_STORAGE_TYPE_STR_TO_ID"]

_STORES = {
    f"_{name}": name
    for name in (
        *("create_kvstore", "create_sparse_kvstore", "initialize_kvstore"),
        *("update_params", "update_params_on_kvstore"),
    )
}
_NAMES = {f"_{n}": n for n in ("check_input_names", "check_names_match", "parse_data_desc")}
_LOADS = {f"_{name}": name for name in ("load_data", "load_general", "load_label")}
_SLICES = {f"_{name}": name for name in ("check_arguments", "split_input_slice")}
_GROUP = {
    "DataParallelExecutorGroup": "DataParallelExecutorGroup",
    "_merge_multi_context": "merge_multi_context",
}

_SEQUENCES = {
    "_format_sequence": "formed",
    "_mask_sequence_variable_length": "masked",
    "_reverse_sequences": "reverse",
}
_CELLS = {f"_cells_{name}": f"cells_{name}" for name in ("begin_state", "state_info")}
_SOURCES = {"_getdata_by_idx": "chosen", "_has_instance": "has_instance", "_init_data": "named"}

# Private names that programs import: their equivalents here.
PRIVATE: list[tuple[str, str, dict[str, str]]] = [
    ("nd.ndarray", "compat.private_names", dict(zip(_ARRAY_CODES, _ARRAY_CODES))),
    ("sym.symbol", "compat.private_names", dict(zip(_SYMBOL_CODES, _SYMBOL_CODES))),
    ("gluon", "gluon.structure", {"tensor_types": "tensor_types"}),
    ("gluon.block", "gluon.structure", {"_flatten": "flatten"}),
    ("gluon.data.dataloader", "util", {"_thread_worker_initializer": "set_np"}),
    ("gluon.data.dataloader", "gluon.data.dataloader", {"_as_in_context": "as_in_context"}),
    ("gluon.data.dataloader", "gluon.data.pooled", {"_MultiWorkerIter": "MultiWorkerIter"}),
    ("gluon.loss", "gluon.loss.base", {"_reshape_like": "reshape_like"}),
    ("gluon.nn.conv_layers", "gluon.nn.pool_layers", {"_Pooling": "_Pooling"}),
    ("gluon.nn.conv_layers", "compat.private_names", {"_infer_weight_shape": "weight_shapes"}),
    ("gluon.parameter", "gluon.structure", {"tensor_types": "tensor_types"}),
    ("gluon.rnn.rnn_cell", "gluon.rnn.base", {"_get_begin_state": "first_states"}),
    ("gluon.rnn.rnn_cell", "gluon.rnn.composed_cells", _CELLS),
    ("gluon.rnn.rnn_cell", "gluon.rnn.sequences", _SEQUENCES),
    (
        "gluon.utils",
        "compat.private_names",
        {"_brief_print_list": "brief_list", "_indent": "indented"},
    ),
    *((path, "io.ndarray_iter", _SOURCES) for path in ("io", "io.utils")),
    ("model", "mod.base_module", {"_multiple_callbacks": "call_each"}),
    *((path, "mod.by_hand", _STORES) for path in ("model", "mod.module")),
    ("mod.module", "io.checkpoint", {"load_checkpoint": "load_checkpoint"}),
    ("mod.base_module", "mod.by_hand", _NAMES),
    ("mod.base_module", "base", {"_as_list": "_as_list"}),
    ("mod.executor_group", "mod.by_hand", _LOADS),
    ("mod.executor_group", "mod.device_group", _GROUP),
    ("executor_manager", "mod.by_hand", {**_LOADS, **_SLICES}),
]


def place_elsewhere(package: str, part: str) -> None:
    """Set the names of the tables in one lazily loaded part, or with "" in permanent modules.

    The modules that define the names must be loaded.
    """
    for path, source, names in _rows():
        if part_of(path) == part:
            _place(package, path, source, names)


def _rows() -> Iterator[tuple[str, str, dict[str, str]]]:
    """All rows: path of a module, path of the defining module, and names by alias."""
    for path, (source, names) in ELSEWHERE.items():
        yield path, source, dict(zip(names, names))
    for path, names in IMPORTED.items():
        yield path, "", dict(zip(names, names))
    yield from PRIVATE


def _place(package: str, path: str, source: str, names: dict[str, str]) -> None:
    """Set names of module ``source`` in module ``path``."""
    module, origin = module_at(package, path), module_at(package, source)
    for name, theirs in names.items():
        setattr(module, name, getattr(origin, theirs))
