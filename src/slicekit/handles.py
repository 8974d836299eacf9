"""Descriptions cross an operator that torch does not look into by a handle.

A compiled graph passes tensors, numbers and strings to an opaque operator. Structures and flows are
none of these: each has a handle, whose name is passed instead and recalled inside.

Two descriptions share a handle if nothing can tell them apart: they are of one class, a frozen
dataclass, and all that they hold, whether it is shown and compared or not, are plain values or
frozen dataclasses that are alike in the same sense. Any other description, one that can be changed
say, has a handle to itself. A handle lives as long as a description that has it; what a graph was
traced with is kept, because the graph may outlive it.
"""

import os
import threading
from abc import ABCMeta
from collections.abc import Callable, Hashable
from functools import wraps
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary, ref

import torch
from torch._C import _get_dispatch_mode, _get_tracing_state, _TorchDispatchModeKey

from slicekit.dispatch import constant_when_compiled

_VALUES = (bool, int, str, bytes, type(None), torch.dtype)
P = ParamSpec("P")
T = TypeVar("T")


class Handle:
    """What an operator is given instead of a description.

    Attributes:
        name: by which `recall` finds it.
        known: what was found out about descriptions that share it, and is forgotten with them.
    """

    def __init__(self, name: str, description: "Handled", twin: "Handled | None") -> None:
        """Hold a twin of all descriptions that share this handle, or refer to the only one."""
        self.name, self.known = name, dict[Hashable, Any]()
        self._twin, self._only = twin, ref(description)

    @property
    def shared(self) -> bool:
        """Whether descriptions that are alike share it, so that what it stands for is fixed."""
        return self._twin is not None

    def names(self, description: "Handled") -> bool:
        """Whether it is this description's, and not that of something it was copied from."""
        return self._twin is not None or self._only() is description

    def description(self) -> "Handled | None":
        """A description that has this handle; None if it is gone."""
        return self._only() if self._twin is None else self._twin

    def __reduce__(self) -> tuple[type, tuple]:
        """Nothing: a copy or a pickle of a description gets its handle where it arrives."""
        return type(None), ()


class _Settled(ABCMeta):
    """Gives every description its handle once it is made."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if not torch.compiler.is_dynamo_compiling():
            _settle(made)
        return made


class Handled(metaclass=_Settled):
    """A policy or a structure: an object that says what to compute, and holds no tensors to train.

    Best a frozen dataclass; equal ones are then one to the compiler.
    """

    _handle: Handle | None = None

    @property
    def key(self) -> str:
        """What an operator is given for it: a name that `recall` knows."""
        return self.handle_name()

    def handle_name(self) -> str:
        """The name of its handle."""
        if torch.compiler.is_dynamo_compiling():
            if self._handle is None:
                raise RuntimeError("a structure or flow was made inside a compiled function")
            return self._handle.name
        handle = self.handle
        if recording():
            keep(handle.name)
        return handle.name

    @property
    def handle(self) -> Handle:
        """Its handle."""
        handle = self._handle
        return handle if handle is not None and handle.names(self) else _settle(self)

    def __getstate__(self) -> dict[str, Any]:
        """All but the handle."""
        return _attributes(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come back from a pickle, possibly in a process that has not seen this description."""
        for name, value in state.items():
            object.__setattr__(self, name, value)
        _settle(self)


_named: WeakValueDictionary[str, Handle] = WeakValueDictionary()
_alike: WeakValueDictionary[Hashable, Handle] = WeakValueDictionary()
_kept: dict[str, tuple[Handle, Handled]] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # another thread may have held it
    os.register_at_fork(after_in_child=_new_lock)


def recall(name: str) -> Any:
    """A description with the handle of that name.

    Raises:
        RuntimeError: if there is none.
    """
    handle = _named.get(name)
    description = None if handle is None else handle.description()
    if description is None:
        raise RuntimeError(
            f"no structure or flow has the handle {name!r}: a graph that was traced with one needs "
            "it alive, or made again where the graph was loaded"
        )
    return description


def keep(name: str) -> None:
    """Keep what has that name for as long as the process lives, for a graph that refers to it."""
    handle = _named.get(name)
    description = None if handle is None else handle.description()
    if handle is not None and description is not None:
        _kept.setdefault(name, (handle, description))


class _Made:
    """What compiled functions read instead of making it, by name."""


_made = _Made()


def constant(function: Callable[P, T]) -> Callable[P, T]:
    """A function of plain values that gives an object for keeps, also inside a compiled function.

    There it is called while the graph is traced and not looked into, and what it gives is read as
    any object outside of the graph is.
    """

    @constant_when_compiled
    def put(*arguments: P.args, **named: P.kwargs) -> str:
        call = f"{function.__module__}.{function.__qualname__}{arguments}{named}"
        name = f"made_{_digest(call)}"
        setattr(_made, name, function(*arguments, **named))
        return name

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        if not torch.compiler.is_dynamo_compiling():
            return function(*arguments, **named)
        return getattr(_made, put(*arguments, **named))

    return call


def recording() -> bool:
    """Whether operators are written down, by torch.fx or torch.jit."""
    return (
        _get_dispatch_mode(_TorchDispatchModeKey.PROXY) is not None
        or _get_tracing_state() is not None
    )


def _settle(description: Handled) -> Handle:
    likeness = _likeness(description)
    twin = None if likeness is None else _twin(description)
    with _lock:
        handle = None if twin is None else _alike.get(likeness)
        if handle is None:
            name = None if twin is None else _portable(likeness)
            if name is None or name in _named:  # a class defined anew has the name of the old
                name = f"{type(description).__name__}@{uuid4().hex}"
            handle = Handle(name, description, twin)
            _named[name] = handle
            if twin is not None:
                _alike[likeness] = handle
    object.__setattr__(description, "_handle", handle)
    return handle


def _likeness(x: Any) -> Hashable | None:
    """Equal for values that nothing can tell apart; None where that can't be known."""
    cls = type(x)
    if cls in _VALUES:
        return cls, x
    if cls is float:
        return cls, x.hex()
    if cls is tuple:
        parts = [_likeness(part) for part in x]
        return None if None in parts else (cls, *parts)
    if not _is_frozen(cls):
        return None
    pairs = [(name, _likeness(value)) for name, value in sorted(_attributes(x).items())]
    return None if any(held is None for _, held in pairs) else (cls, *pairs)


def _is_frozen(cls: type) -> bool:
    """Whether it is itself a frozen dataclass: a subclass that is none can be written to."""
    parameters = cls.__dict__.get("__dataclass_params__")
    return parameters is not None and parameters.frozen


def _attributes(x: Any) -> dict[str, Any]:
    """All that an object holds, by name, but for its handle."""
    values = dict(getattr(x, "__dict__", {}))
    values.pop("_handle", None)
    for cls in type(x).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(x, name):
                values[name] = getattr(x, name)
    return values


def _twin(description: Handled) -> Handled | None:
    """A copy without a handle, which would keep itself alive; None for objects of another kind."""
    try:
        twin = object.__new__(type(description))
    except TypeError:  # it is a tuple or a number at the same time
        return None
    for name, value in _attributes(description).items():
        object.__setattr__(twin, name, value)
    return twin


def _portable(likeness: Any) -> str:
    """A name that is the same in every process, so that stored graphs can be found again."""
    return f"{likeness[0].__name__}@{_digest(_said(likeness))}"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _said(likeness: Any) -> str:
    if isinstance(likeness, type):
        return f"{likeness.__module__}.{likeness.__qualname__}"
    if isinstance(likeness, tuple):
        return f"({', '.join(map(_said, likeness))})"
    return repr(likeness)
