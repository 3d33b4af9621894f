"""Presentation of a network, its compilation and its run, as a JSON document or an HTML page.

Input: a block and arrays, or files. Output: a :class:`.schema.Document`, and files made from it.
The page presents only the document. Importing this package loads LLVM.
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
