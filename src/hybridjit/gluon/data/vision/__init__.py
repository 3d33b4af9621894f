"""Pictures: datasets of them, and transforms."""

from . import datasets, transforms
from .datasets import ImageFolderDataset

__all__ = ["ImageFolderDataset", "datasets", "transforms"]
