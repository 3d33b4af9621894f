"""Vectors of tokens, read from local files; nothing is downloaded.

Input: text files with a token and its numbers on each line. Output: a vocabulary with the tokens'
vectors as one NDArray (tokens, length).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ... import nd, registry
from ..._core.frames import warn
from ..._core.safe_open import open_file
from ...base import data_dir
from ...errors import MXNetError
from ...formats.atomic import system_errors
from ...nd import NDArray
from . import vocab

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]

_Class = TypeVar("_Class", bound=type)
_Init = Callable[..., Any]

_GLOVE = (
    *(f"glove.6B.{size}d.txt" for size in (50, 100, 200, 300)),
    *(f"glove.twitter.27B.{size}d.txt" for size in (25, 50, 100, 200)),
    *("glove.42B.300d.txt", "glove.840B.300d.txt"),
)
_FASTTEXT = ("crawl-300d-2M.vec", "wiki.simple.vec", "wiki.en.vec", "wiki.zh.vec")


class _TokenEmbedding(vocab.Vocabulary):
    """A vocabulary with a vector for each token."""

    pretrained_file_name_sha1: dict[str, str] = {}
    source = ""  # origin of its files

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vec_len = 0
        self._idx_to_vec: NDArray | None = None

    @property
    def vec_len(self) -> int:
        """The length of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray | None:
        """The vectors by index, (tokens, length)."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: object, lower_case_backup: bool = False) -> NDArray:
        """The vector of a token, or of each in a list: (tokens, length).

        An unknown token has the vector of index 0. With ``lower_case_backup`` a missing token is
        looked up in lower case.
        """
        asked = tokens if isinstance(tokens, list) else [tokens]
        numbers = [self._number(token, lower_case_backup) for token in asked]
        rows = nd.take(self._vectors(), nd.array(numbers, dtype="int64"))  # type: ignore[attr-defined]
        return rows if isinstance(tokens, list) else rows[0]

    def update_token_vectors(self, tokens: object, new_vectors: NDArray) -> None:
        """Set the vectors of tokens, (tokens, length), or (length,) for one token.

        Raises ValueError for an unknown token, AssertionError for another shape.
        """
        asked = tokens if isinstance(tokens, list) else [tokens]
        assert isinstance(new_vectors, NDArray), "`new_vectors` must be an NDArray."
        one = len(asked) == 1 and new_vectors.ndim == 1
        rows = new_vectors.reshape((1, -1)) if one else new_vectors
        assert rows.shape == (len(asked), self.vec_len), (
            f"`new_vectors` must have shape {(len(asked), self.vec_len)}, got {new_vectors.shape}"
        )
        for token in asked:
            if token not in self.token_to_idx:
                raise ValueError(
                    f"Token {token} is unknown. To update the embedding vector for an unknown "
                    f"token, name the `unknown_token` {self.unknown_token} in `tokens`."
                )
        vectors = self._vectors()
        for token, row in zip(asked, rows):
            vectors[self.token_to_idx[token]] = row

    def _vectors(self) -> NDArray:
        assert self._idx_to_vec is not None, "The property `idx_to_vec` has not been properly set."
        return self._idx_to_vec

    def _number(self, token: Any, small_too: bool) -> int:
        if small_too and token not in self.token_to_idx:
            token = token.lower()
        return self.token_to_idx.get(token, vocab.UNKNOWN_INDEX)

    # ---- reading --------------------------------------------------------------------------------

    def _load_embedding(
        self,
        pretrained_file_path: str,
        elem_delim: str,
        init_unknown_vec: _Init,
        encoding: str = "utf8",
    ) -> None:
        """Read tokens and vectors from a file; the first vector of a repeated token counts.

        Raises ValueError for a missing file, AssertionError for vectors of different lengths.
        """
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise ValueError(
                "`pretrained_file_path` must be a valid path to the pre-trained token embedding "
                f"file, got {pretrained_file_path!r}"
            )
        rows: dict[object, list[float]] = {}
        with system_errors(path), open_file(path) as file:
            try:
                for number, line in enumerate(io.TextIOWrapper(file, encoding), 1):
                    _add_line(rows, line, elem_delim, f"line {number} of {path}")
            except UnicodeDecodeError as error:
                raise MXNetError(f"{path} is not text in {encoding}: {error}") from None
        if not rows:
            raise MXNetError(f"{path} contains no vector")
        self._take(rows, init_unknown_vec)

    def _take(self, rows: dict[object, list[float]], init_unknown_vec: _Init) -> None:
        unknown = rows.pop(self.unknown_token, None)
        self._vec_len = len(unknown if unknown is not None else next(iter(rows.values())))
        first = init_unknown_vec(shape=self._vec_len) if unknown is None else nd.array(unknown)
        table = np.empty((1 + len(rows), self._vec_len), np.float32)
        table[0] = first.asnumpy()
        for i, row in enumerate(rows.values(), 1):
            table[i] = row
        self._idx_to_token += rows
        self._token_to_idx.update((t, i) for i, t in enumerate(self._idx_to_token))
        self._idx_to_vec = nd.array(table)

    def _load_named(
        self,
        name: str,
        embedding_root: str | None,
        init_unknown_vec: _Init,
        vocabulary: vocab.Vocabulary | None,
    ) -> None:
        """Read the vectors of a file by its name; with a vocabulary only those of its tokens."""
        path = self._file(embedding_root or _root(), name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)

    @classmethod
    def _file(cls, embedding_root: str, name: str) -> str:
        """The path of a file by name. Raises MXNetError if it is missing, KeyError if unknown."""
        known = cls.pretrained_file_name_sha1
        if name not in known:
            raise KeyError(
                f"Cannot find pretrained file {name} for token embedding {cls.__name__.lower()}. "
                f"Valid pretrained files: {', '.join(known)}"
            )
        path = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower(), name)
        if not os.path.isfile(path):
            raise MXNetError(
                f"{cls.__name__}: {path} is missing, and hybridjit does not download files: get it "
                f"from {cls.source} and save it there"
            )
        return path

    # ---- for a vocabulary -----------------------------------------------------------------------

    def _build_embedding_for_vocabulary(self, vocabulary: vocab.Vocabulary | None) -> None:
        """Reduce the embedding to the tokens of ``vocabulary``, if it is given."""
        if vocabulary is not None:
            self._adopt(vocabulary, [self])

    def _adopt(self, vocabulary: vocab.Vocabulary, sources: Sequence[_TokenEmbedding]) -> None:
        assert isinstance(vocabulary, vocab.Vocabulary), (
            "The argument `vocabulary` must be an instance of mxnet.contrib.text.vocab.Vocabulary."
        )
        tokens = vocabulary.idx_to_token[1:]
        columns = [_table(source, tokens) for source in sources]
        self._idx_to_vec = nd.array(np.concatenate(columns, axis=1))
        self._vec_len = self._idx_to_vec.shape[1]
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._unknown_token = vocabulary.unknown_token
        reserved = vocabulary.reserved_tokens
        self._reserved_tokens = None if reserved is None else list(reserved)


def _table(source: _TokenEmbedding, tokens: Sequence[object]) -> np.ndarray:
    """The vector of the unknown token, then those of ``tokens``."""
    numbers = [vocab.UNKNOWN_INDEX, *(source._number(token, False) for token in tokens)]
    return source._vectors().asnumpy()[numbers]


def _add_line(rows: dict[object, list[float]], line: str, delimiter: str, place: str) -> None:
    token, *texts = line.rstrip().split(delimiter)
    assert texts, f"{place}: expected a token and numbers, got {line[:80]!r}"
    try:
        row = [float(text) for text in texts]
    except ValueError:
        raise ValueError(f"{place}: expected numbers after the token {token[:80]!r}") from None
    if token in rows:
        warn(f"{place}: {token} has a vector already; skipped.")
    elif len(row) == 1:
        warn(f"{place}: {token} has one number, likely a header; skipped.")
    else:
        length = len(next(iter(rows.values()), row))
        assert len(row) == length, (
            f"{place}: the dimension of token {token} is {len(row)} but the dimension of previous "
            f"tokens is {length}. Dimensions of all the tokens must be the same."
        )
        rows[token] = row


_register = registry.get_register_func(_TokenEmbedding, "token embedding")
_create = registry.get_create_func(_TokenEmbedding, "token embedding")


def register(embedding_cls: _Class) -> _Class:
    """Register a class for :func:`create` under its name in lower case."""
    _register(embedding_cls)
    return embedding_cls


def create(embedding_name: str, **kwargs: object) -> _TokenEmbedding:
    """Make the embedding of this name. Raises MXNetError with the expected path of a missing
    file."""
    return _create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> object:
    """Names of files of an embedding, or of all embeddings. Raises KeyError."""
    classes: dict[str, Any] = dict(registry.get_registry(_TokenEmbedding))
    known = {name: list(each.pretrained_file_name_sha1) for name, each in classes.items()}
    if embedding_name is None:
        return known
    if embedding_name not in known:
        raise KeyError(
            f"Cannot find `embedding_name` {embedding_name}; known are {', '.join(known)}"
        )
    return known[embedding_name]


def _root() -> str:
    return os.path.join(data_dir(), "embeddings")


@register
class GloVe(_TokenEmbedding):
    """The vectors of nlp.stanford.edu/projects/glove, from ``<embedding_root>/glove``."""

    pretrained_file_name_sha1 = dict.fromkeys(_GLOVE, "")
    source = "https://nlp.stanford.edu/projects/glove"

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str | None = None,
        init_unknown_vec: _Init = nd.zeros,
        vocabulary: vocab.Vocabulary | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._load_named(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary)


@register
class FastText(_TokenEmbedding):
    """The vectors of fasttext.cc, from ``<embedding_root>/fasttext``."""

    pretrained_file_name_sha1 = dict.fromkeys(_FASTTEXT, "")
    source = "https://fasttext.cc/docs/en/pretrained-vectors.html"

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str | None = None,
        init_unknown_vec: _Init = nd.zeros,
        vocabulary: vocab.Vocabulary | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._load_named(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """The vectors of a user's file: a token and numbers per line, separated by ``elem_delim``.

    Raises ValueError for a missing file, AssertionError for vectors of different lengths.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: _Init = nd.zeros,
        vocabulary: vocab.Vocabulary | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The tokens of a vocabulary with the concatenated vectors of one or more embeddings."""

    def __init__(
        self,
        vocabulary: vocab.Vocabulary,
        token_embeddings: _TokenEmbedding | list[_TokenEmbedding],
    ) -> None:
        super().__init__()
        given = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for each in given:
            assert isinstance(each, _TokenEmbedding), (
                "The argument `token_embeddings` must be an instance or a list of instances of "
                "`mxnet.contrib.text.embedding._TokenEmbedding`."
            )
        self._adopt(vocabulary, given)
