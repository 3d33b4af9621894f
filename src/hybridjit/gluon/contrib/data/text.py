"""Text data sets for language models, from local files; nothing is downloaded.

Input: the three text files of a WikiText, or their archive. Output: pairs of rows of word indices;
the second row is shifted by one word.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from .... import nd
from ...._core.safe_open import open_file
from ....base import data_dir
from ....errors import ModelFormatError, MXNetError
from ....formats.atomic import system_errors
from ....nd import NDArray
from ...data.dataset import Dataset

if TYPE_CHECKING:
    from ....contrib.text.vocab import Vocabulary

__all__ = ["WikiText103", "WikiText2"]

END_OF_LINE = "<eos>"
_FILES = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}


class _WikiText(Dataset):
    """The words of a file as rows of ``seq_len`` int32 indices, independent of its lines.

    Each line with words ends with ``<eos>``. ``root`` is ``$MXNET_HOME/datasets/<name>`` by
    default. Without ``vocab`` a vocabulary of the words is made, the most frequent first. An
    incomplete last row is omitted. Raises MXNetError if neither the text nor its archive exists.
    """

    folder = ""

    def __init__(
        self,
        root: str | None = None,
        segment: str = "train",
        vocab: Vocabulary | None = None,
        seq_len: int = 35,
    ) -> None:
        default = os.path.join(data_dir(), "datasets", self.folder)
        self._root = os.path.expanduser(default if root is None else root)
        self._vocab = vocab
        self._counter: Counter[str] | None = None
        numbers = self._numbers(self._text(_FILES[segment]))
        whole = max(len(numbers) - 1, 0) // seq_len * seq_len
        rows = (nd.array(part, dtype="int32") for part in (numbers[:whole], numbers[1 : whole + 1]))
        self._data, self._label = (row.reshape((-1, seq_len)) for row in rows)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words and their indices."""
        assert self._vocab is not None
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """The number of occurrences of each word in this text."""
        return self._counter

    def _text(self, name: str) -> str:
        path = os.path.join(self._root, name)
        archive = os.path.join(self._root, f"{self.folder}-v1.zip")
        if os.path.exists(path):
            with system_errors(path), open_file(path) as file:
                return file.read().decode("utf-8")
        if os.path.exists(archive):
            return _text_in(archive, name)
        raise MXNetError(
            f"{type(self).__name__}: neither {name} nor {os.path.basename(archive)} exists in "
            f"{self._root}, and hybridjit does not download files: save one of them there"
        )

    def _numbers(self, text: str) -> np.ndarray:
        from ....contrib.text import utils, vocab  # noqa: PLC0415 (see test_layers.py)

        self._counter = utils.count_tokens_from_str(text)
        if self._vocab is None:
            self._vocab = vocab.Vocabulary(self._counter, reserved_tokens=[END_OF_LINE])
        lines = [words for words in map(str.split, text.splitlines()) if words]
        words = [word for line in lines for word in [*line, END_OF_LINE]]
        return np.array(self._vocab.to_indices(words), np.int32)

    def __getitem__(self, idx: int) -> tuple[NDArray, NDArray]:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText2(_WikiText):
    """WikiText-2, 2 million words of Wikipedia. Arguments are those of the base class."""

    folder = "wikitext-2"


class WikiText103(_WikiText):
    """WikiText-103, 100 million words of Wikipedia. Arguments are those of the base class."""

    folder = "wikitext-103"


def _text_in(archive: str, name: str) -> str:
    """The file ``name`` of an archive, in any of its folders."""
    try:
        with system_errors(archive), zipfile.ZipFile(archive) as file:
            for member in file.namelist():
                if os.path.basename(member) == name:
                    return file.read(member).decode("utf-8")
    except zipfile.BadZipFile as error:
        raise ModelFormatError(f"{archive}: {error}") from error
    raise ModelFormatError(f"{archive} has no {name}")
