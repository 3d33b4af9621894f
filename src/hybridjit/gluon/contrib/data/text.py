"""Texts for language models, from files that lie on this machine; nothing is downloaded.

In: the three texts of a WikiText, or the archive that they come in. Out: pairs of rows of word
numbers, the second one word further on than the first.
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
    """The words of a text in rows of ``seq_len``, whatever lines they are in, as int32 numbers.

    Each line that has words ends with ``<eos>``. ``root`` is ``$MXNET_HOME/datasets/<name>`` by
    default. Without ``vocab`` the text's own words are numbered, the most frequent first. Words
    that fill no row are left out. Raises MXNetError when neither the text nor its archive is there.
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
        """The words and their numbers."""
        assert self._vocab is not None
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """How often each word stands in this text."""
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
            f"{type(self).__name__}: there is neither {name} nor {os.path.basename(archive)} in "
            f"{self._root}, and hybridjit downloads nothing: put one of them there"
        )

    def _numbers(self, text: str) -> np.ndarray:
        from ....contrib.text import utils, vocab  # noqa: PLC0415 (see tests/test_layers.py)

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
    """WikiText-2, 2 million words of Wikipedia. Arguments as the base's."""

    folder = "wikitext-2"


class WikiText103(_WikiText):
    """WikiText-103, 100 million words of Wikipedia. Arguments as the base's."""

    folder = "wikitext-103"


def _text_in(archive: str, name: str) -> str:
    """The file ``name`` of an archive, in whatever folder of it."""
    try:
        with system_errors(archive), zipfile.ZipFile(archive) as file:
            for member in file.namelist():
                if os.path.basename(member) == name:
                    return file.read(member).decode("utf-8")
    except zipfile.BadZipFile as error:
        raise ModelFormatError(f"{archive}: {error}") from error
    raise ModelFormatError(f"{archive} has no {name}")
