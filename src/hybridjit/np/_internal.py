"""``mx.np._internal``: every ``_npi_`` operator under its name, for programs that call these."""

import sys
from typing import TYPE_CHECKING, Any

from .._core.lazy import Late
from ..nd.custom import Custom as _custom
from ..ops.namespace import attach
from .front import INTERNAL, as_np

if TYPE_CHECKING:
    from .. import image as _image
else:  # a layer above, which most programs do not use
    _image = Late("..image", __package__)


def Custom(*args: Any, **kwargs: Any) -> Any:
    """Result of the class registered as ``op_type`` on arrays of NumPy mode."""
    return as_np(_custom(*args, **kwargs))


def cvimdecode(buf: Any, flag: int = 1, to_rgb: bool = True) -> Any:
    """The image that bytes encode; an array of uint8 may hold the bytes."""
    data = buf.asnumpy() if hasattr(buf, "asnumpy") else buf
    return as_np(_image.imdecode(data, flag, to_rgb))


def cvimread(filename: str, flag: int = 1, to_rgb: bool = True) -> Any:
    """The image in a file."""
    return as_np(_image.imread(filename, flag, to_rgb))


def cvimresize(src: Any, w: int, h: int, interp: int = 1) -> Any:
    """The image, resized to ``w`` x ``h``."""
    return as_np(_image.imresize(src, w, h, interp))


attach(sys.modules[__name__], INTERNAL)
