"""Handles of hooks: what ``register_forward_hook`` gives back."""

from __future__ import annotations

from collections.abc import Callable


class HookHandle:
    """Takes its hook off again with ``detach()``, or at the end of a ``with`` block."""

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
        """Put ``hook`` among the hooks. Raises AssertionError the second time."""
        assert not self._key, "The same handle cannot be attached twice."
        self._hooks = hooks_dict
        self._key = id(hook)
        hooks_dict[self._key] = hook

    def detach(self) -> None:
        """Take the hook off; doing so again does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()
