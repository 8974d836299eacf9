"""Models as plain data: what `describe` says of one, `assemble` makes one from again.

A description is what a stranger's file may hold. It only names classes that slicekit knows, or that
the caller hands over, and no more is made than the file has tensors for: a module is first built on
the device "meta", where a tensor has a shape and no numbers, and takes the numbers of the file.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import isabstract
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from slicekit import flows, layers, mixers, scans, structures
from slicekit.stored_files import told

_KNOWN: dict[str, type] = {
    name: value
    for room in (structures, flows, scans, layers, mixers)
    for name, value in vars(room).items()
    if isinstance(value, type)
    and value.__module__.startswith("slicekit.")
    and (is_dataclass(value) or hasattr(value, "configuration"))
    and not isabstract(value)
}

_FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_MISFIT = "the tensors do not fit the configuration"
_ACTIVATIONS = "torch.nn.modules.activation"
"""Where the classes of torch live that a description may name."""

_FIRST, _EACH = 1000, 50
"""Most calls of torch that make a module: so many, and so many for each of its tensors."""


def describe(value: Any, place: str) -> Any:
    """A description by plain data, which `build` makes the value from again.

    Args:
        value: plain data, a policy, a structure, or a module with a `configuration()`.
        place: where it stands, for the error message.

    Raises:
        TypeError: if it is none of these.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [describe(x, f"{place}[{i}]") for i, x in enumerate(value)]}
    if isinstance(value, type) and _activation(value.__name__) is value:
        return {"nn": value.__name__}
    if isinstance(value, type):
        arguments = None
    elif hasattr(value, "configuration"):
        arguments = value.configuration()
    elif is_dataclass(value):
        arguments = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    else:
        arguments = None
    if arguments is None:
        shown = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(
            f"{place} is a {shown}, which can't be saved by its configuration; save "
            "its state_dict and build it in code"
        )
    name, described = type(value).__name__, {}
    if _KNOWN.get(name) is not type(value):
        described["own"] = True  # a class of the user's, perhaps with the name of one of ours
    described["class"] = name
    described["arguments"] = {k: describe(v, f"{place}.{k}") for k, v in arguments.items()}
    return described


def _activation(name: Any) -> type[nn.Module] | None:
    kind = getattr(nn, name, None) if isinstance(name, str) else None
    is_module = isinstance(kind, type) and issubclass(kind, nn.Module)
    fits = is_module and (kind is nn.Identity or kind.__module__ == _ACTIVATIONS)
    return kind if fits else None


def build(described: Any, handed: Mapping[str, type]) -> Any:
    """What `describe` described, with fresh parameters; `handed` are the caller's own classes."""
    if not isinstance(described, dict):
        return described
    if "tuple" in described:
        return tuple(build(x, handed) for x in described["tuple"])
    if "list" in described:
        return [build(x, handed) for x in described["list"]]
    if "nn" in described:
        activation = _activation(described["nn"])
        if activation is None:
            raise ValueError(f"it names torch.nn.{described['nn']}, which is no activation")
        return activation
    name = described["class"]
    known = handed if described.get("own") else {**handed, **_KNOWN}
    if name not in known:
        raise ValueError(f"it holds a {name}; hand its class over: load(..., classes=[{name}])")
    arguments = {k: build(v, handed) for k, v in described["arguments"].items()}
    positional = arguments.pop("*", ())
    return known[name](*positional, **arguments)


def assemble(
    described: Any, handed: Mapping[str, type], tensors: Mapping[str, Tensor]
) -> nn.Module:
    """The module that `describe` described, with the tensors of its `state_dict`.

    Args:
        described: what `describe` gave, or a stranger.
        handed: the caller's own classes, by name.
        tensors: by their names in the module.

    Raises:
        ValueError: if it describes no module, or one that does not fit the tensors. The classes'
            own checks may raise nearly anything else.
    """
    if _names_own(described):
        return _with_own(described, handed, tensors)
    model = _blueprint(described, handed, len(tensors))
    _check_dtypes(model, tensors)
    _take(model, tensors, assign=True)
    return model


def _with_own(
    described: Any, handed: Mapping[str, type], tensors: Mapping[str, Tensor]
) -> nn.Module:
    """As the user makes it, if that is not too large.

    A class of the user's may look at the numbers that it draws, which meta tensors lack, may hold
    tensors besides those of its state, and may share them.
    """
    try:
        blank = _blueprint(described, handed, len(tensors))
    except (RuntimeError, TypeError):
        blank = nn.Module()
    needed = sum(x.numel() for x in blank.state_dict().values())
    stored = sum(x.numel() for x in tensors.values())
    if needed > 2 * stored + 2**20:
        raise ValueError(f"it describes {needed} numbers, but has {stored}")
    model = _module(build(described, handed))
    _check_dtypes(model, tensors)
    for name, present in [*model.named_parameters(), *model.named_buffers()]:
        if name in tensors:
            present.data = present.data.to(tensors[name].dtype)
    _take(model, tensors, assign=False)
    return model


def _names_own(described: Any) -> bool:
    if isinstance(described, dict):
        return bool(described.get("own")) or any(map(_names_own, described.values()))
    return isinstance(described, list) and any(map(_names_own, described))


def _blueprint(described: Any, handed: Mapping[str, type], tensors: int) -> nn.Module:
    """A module without numbers."""
    with torch.device("meta"), _Allowance(_FIRST + _EACH * tensors):
        return _module(build(described, handed))


def _module(built: Any) -> nn.Module:
    if not isinstance(built, nn.Module):
        raise TypeError(f"it describes a {type(built).__name__}, not a module")
    return built


class _Allowance(TorchFunctionMode):
    """So many calls of torch are allowed inside: a number in a file is no licence to go on and on.

    Args:
        calls: how many.
    """

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.left = calls

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("it describes far more parts than it has tensors for")
        return func(*args, **(kwargs or {}))


def _check_dtypes(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    for name, present in model.state_dict().items():
        stored = tensors[name].dtype if name in tensors else present.dtype
        if present.is_floating_point():
            fits, expected = stored in _FLOATING, "a floating dtype"
        else:
            fits, expected = stored == present.dtype, str(present.dtype)
        if not fits:
            raise ValueError(f"{_MISFIT}: {name} has dtype {stored}; expected {expected}")


def _take(model: nn.Module, tensors: Mapping[str, Tensor], assign: bool) -> None:
    try:
        model.load_state_dict(dict(tensors), assign=assign)
    except RuntimeError as error:
        raise ValueError(f"{_MISFIT}: {told(error)}") from error
