"""Vocabularies: tokens and their indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

__all__ = ["UNKNOWN_INDEX", "Vocabulary"]

UNKNOWN_INDEX = 0


class Vocabulary:
    """The unknown token, reserved tokens, then the tokens of a counter by decreasing frequency.

    Tokens of equal frequency are sorted. ``most_freq_count`` bounds the number of tokens from the
    counter, ``min_freq`` (at least 1) is their minimum frequency. Raises AssertionError for
    repeated reserved tokens, and if ``counter`` is not a Counter.
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ) -> None:
        assert min_freq > 0, "`min_freq` must be set to a positive value."
        reserved = [] if reserved_tokens is None else list(reserved_tokens)
        assert unknown_token not in reserved, "`reserved_token` cannot contain `unknown_token`."
        assert len(set(reserved)) == len(reserved), (
            "`reserved_tokens` cannot contain duplicate reserved tokens."
        )
        self._unknown_token = unknown_token
        self._reserved_tokens: list[Hashable] | None = None if reserved_tokens is None else reserved
        self._idx_to_token: list[Hashable] = [unknown_token, *reserved]
        if counter is not None:
            assert isinstance(counter, Counter), (
                "`counter` must be an instance of collections.Counter."
            )
            self._idx_to_token += self._chosen(counter, most_freq_count, min_freq)
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def _chosen(self, counter: Counter[Any], most: int | None, least: int) -> list[Hashable]:
        taken = set(self._idx_to_token)
        order = sorted(counter.items(), key=lambda pair: pair[0])
        order.sort(key=lambda pair: pair[1], reverse=True)
        found = [token for token, count in order if count >= least and token not in taken]
        return found[: len(counter) if most is None else max(most, 0)]

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Hashable, int]:
        """The index of each token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Hashable]:
        """The tokens by index."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Hashable:
        """Replacement of tokens outside of the vocabulary; its index is 0."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Hashable] | None:
        """The tokens that are included regardless of the counter."""
        return self._reserved_tokens

    def to_indices(self, tokens: object) -> int | list[int]:
        """The index of a token, or of each in a list; unknown ones are 0."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, UNKNOWN_INDEX) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN_INDEX)

    def to_tokens(self, indices: int | list[int]) -> Any:
        """The token of an index, or of each in a list. Raises ValueError for an index out of
        range."""
        if isinstance(indices, list):
            return [self._token(index) for index in indices]
        return self._token(indices)

    def _token(self, index: int) -> Hashable:
        if not isinstance(index, int) or index >= len(self):
            raise ValueError(f"Token index {index} in the provided `indices` is invalid.")
        return self._idx_to_token[index]
