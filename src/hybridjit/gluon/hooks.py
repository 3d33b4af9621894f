"""Handles of hooks: results of ``register_forward_hook``."""

from __future__ import annotations

from collections.abc import Callable


class HookHandle:
    """Removes its hook with ``detach()``, or at the end of a ``with`` block."""

    def __init__(
        self,
        hooks: dict[int, Callable[..., object]] | None = None,
        hook: Callable[..., object] | None = None,
    ) -> None:
        self._hooks: dict[int, Callable[..., object]] = {}
        self._key = 0
        if hooks is not None and hook is not None:
            self.attach(hooks, hook)

    def attach(
        self, hooks_dict: dict[int, Callable[..., object]], hook: Callable[..., object]
    ) -> None:
        """Add ``hook`` to the hooks. Raises AssertionError the second time."""
        assert not self._key, "The same handle cannot be attached twice."
        self._hooks = hooks_dict
        self._key = id(hook)
        hooks_dict[self._key] = hook

    def detach(self) -> None:
        """Remove the hook; no effect if it is removed already."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()
