"""A network, its compilation and its run, to be looked at: as one JSON document, or one HTML page.

In: a block and arrays, or files. Out: a :class:`.schema.Document`, and what is written of it. The
page shows what the document says and nothing else. Importing this package loads LLVM.
"""

from .comparing import compare, read_document
from .document import Subject, inference_document, training_document
from .nets import view
from .page import Page, write_page
from .schema import Document

__all__ = [
    "Document",
    "Page",
    "Subject",
    "compare",
    "inference_document",
    "read_document",
    "training_document",
    "view",
    "write_page",
]
