"""Models on disk, without pickle: tensors as safetensors, the configuration as JSON beside them.

One file holds both, the configuration in the safetensors header. It is written to a temporary file
and renamed, so that a file of that name is always whole. A configuration only names classes that
slicekit knows, or that the caller of `load` hands over: loading a file runs no code from it.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from slicekit import flows, layers, mixers, scans, structures

FORMAT = "slicekit-model-1"

_KNOWN: dict[str, type] = {
    name: value
    for room in (structures, flows, scans, layers, mixers)
    for name, value in vars(room).items()
    if isinstance(value, type)
}


def save(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a model to one file, atomically.

    Args:
        model: `SLiCE`, `Block`, `SequenceModel`, or a module of yours with a `configuration()` that
            gives its constructor's arguments.
        path: the file, by custom with the ending .safetensors.

    Raises:
        TypeError: if a part of the model can't be described (a module of yours inside `Pointwise`,
            say); nothing is written then.
    """
    configuration = json.dumps({"format": FORMAT, "model": describe(model, "model")})
    tensors = {name: x.detach().contiguous().clone() for name, x in model.state_dict().items()}
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        save_file(tensors, temporary, metadata={"slicekit": configuration})
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The mask for new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load(
    path: str | os.PathLike[str],
    *,
    classes: Iterable[type] = (),
    device: str | torch.device = "cpu",
) -> Any:
    """Read a model that `save` wrote.

    Args:
        path: the file.
        classes: your own structures and modules that the model contains.
        device: where to put it.

    Returns:
        The model, in evaluation mode.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, truncated, no slicekit model, or names an unknown class.
    """
    configuration, tensors = read_stored(path, FORMAT, "model", device)
    handed = {cls.__name__: cls for cls in classes}
    try:
        model = build(configuration["model"], handed)
        if not isinstance(model, nn.Module):
            raise TypeError(f"it describes a {type(model).__name__}, not a module")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: the model can't be built again: {error}") from error
    model = model.to(device)
    for name, own in [*model.named_parameters(), *model.named_buffers()]:
        if name in tensors:
            own.data = own.data.to(tensors[name].dtype)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path}: the tensors do not fit the configuration: {error}") from error
    return model.eval()


def read_stored(
    path: str | os.PathLike[str],
    wanted: str,
    what: str,
    device: str | torch.device = "cpu",
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The header and the tensors of a file of slicekit's.

    Args:
        path: the file.
        wanted: the format that its header must name.
        what: it should hold, for the messages.
        device: where to put the tensors.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, truncated or of another format.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no {what} at {path}")
    try:
        with safe_open(path, framework="pt", device=str(device)) as stored:
            text = (stored.metadata() or {}).get("slicekit")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or truncated: {error}") from error
    try:
        header = json.loads(text or "")
        if header["format"] != wanted:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is a safetensors file, but no slicekit {what}") from error
    return header, tensors


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
    if isinstance(value, type) and getattr(nn, value.__name__, None) is value:
        return {"nn": value.__name__}
    if hasattr(value, "configuration"):
        arguments = value.configuration()
    elif is_dataclass(value) and not isinstance(value, type):
        arguments = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    else:
        raise TypeError(
            f"{place} is a {type(value).__name__}, which can't be saved by its configuration; save "
            "its state_dict and build it in code"
        )
    name, described = type(value).__name__, {}
    if _KNOWN.get(name) is not type(value):
        described["own"] = True  # a class of the user's, perhaps with the name of one of ours
    described["class"] = name
    described["arguments"] = {k: describe(v, f"{place}.{k}") for k, v in arguments.items()}
    return described


def build(described: Any, handed: dict[str, type]) -> Any:
    """What `describe` described, with fresh parameters; `handed` are the caller's own classes."""
    if not isinstance(described, dict):
        return described
    if "tuple" in described:
        return tuple(build(x, handed) for x in described["tuple"])
    if "list" in described:
        return [build(x, handed) for x in described["list"]]
    if "nn" in described:
        found = getattr(nn, described["nn"], None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise ValueError(f"it names torch.nn.{described['nn']}, which is no module")
        return found
    name = described["class"]
    known = handed if described.get("own") else handed | _KNOWN
    if name not in known:
        raise ValueError(f"it holds a {name}; hand its class over: load(..., classes=[{name}])")
    arguments = {k: build(v, handed) for k, v in described["arguments"].items()}
    positional = arguments.pop("*", ())
    return known[name](*positional, **arguments)
