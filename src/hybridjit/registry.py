"""``mx.registry``: classes by name.

Input: a base class and the word for its instances. Output: functions that register subclasses, add
further names, and make instances from a name, a configuration or an instance. Names are compared in
lower case.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Protocol, TypeVar

from ._core.frames import public
from .errors import did_you_mean

_CLASSES: dict[type, dict[str, type]] = {}


_Class = TypeVar("_Class")
_Base = TypeVar("_Base")


class _Register(Protocol):
    def __call__(self, klass: type[_Class], name: str | None = None) -> type[_Class]: ...


class _Alias(Protocol):
    def __call__(self, *aliases: str) -> Callable[[type[_Class]], type[_Class]]: ...


def get_registry(base_class: type) -> dict[str, type]:
    """The registered subclasses by name, as a copy."""
    return dict(_CLASSES.get(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> _Register:
    """``register(klass, name=None)``, usable as a decorator.

    It raises AssertionError for a class that is not a subclass, and warns if a name is replaced.
    """
    known = _CLASSES.setdefault(base_class, {})

    def register(klass: type[_Class], name: str | None = None) -> type[_Class]:
        """Register a class under a name, by default the name of the class."""
        assert issubclass(klass, base_class), (
            f"only a subclass of {base_class.__name__} can be registered, got {klass}"
        )
        key = (name or klass.__name__).lower()
        if known.get(key, klass) is not klass:
            warnings.warn(
                f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {key} "
                f"is overriding existing {nickname} {known[key].__name__}",
                stacklevel=2,
            )
        known[key] = klass
        return klass

    return register


def get_alias_func(base_class: type, nickname: str) -> _Alias:
    """``alias(*names)``: a decorator that registers a class under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[type[_Class]], type[_Class]]:
        """A decorator that registers a class under these names."""

        def decorate(klass: type[_Class]) -> type[_Class]:
            for name in aliases:
                register(klass, name)
            return klass

        return decorate

    return alias


def get_create_func(base_class: type[_Base], nickname: str) -> Callable[..., _Base]:
    """``create(name, *args, **kwargs)``; an instance in place of the name is returned.

    A dictionary, or JSON of a dictionary or of ``[name, {arguments}]``, is a configuration. Raises
    AssertionError for an unregistered name and for other objects.
    """
    known = _CLASSES.setdefault(base_class, {})

    @public
    def create(*args: object, **kwargs: object) -> _Base:
        """An instance from a name, a configuration or an instance."""
        name, *rest = args or (kwargs.pop(nickname),)
        if isinstance(name, base_class):
            assert not rest and not kwargs, (
                f"{nickname} is already an instance. Additional arguments are invalid"
            )
            return name
        if isinstance(name, dict):
            return create(**name)
        way = f": write {name.__name__}()" if isinstance(name, type) else ""
        assert isinstance(name, str), (
            f"{nickname} must be a registered name, its configuration or an instance, "
            f"got {name!r}{way}"
        )
        if name.startswith(("[", "{")):
            assert not rest and not kwargs, "a configuration must not have further arguments"
            found = json.loads(name)
            return create(**found) if isinstance(found, dict) else create(found[0], **found[1])
        assert name.lower() in known, (
            f"{name} is not registered. Please register with {nickname}.register first"
            f"{did_you_mean(name, known)}"
        )
        return known[name.lower()](*rest, **kwargs)

    return create
