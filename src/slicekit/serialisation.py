"""Models on disk, without pickle: tensors as safetensors, the configuration as JSON beside them.

One file holds both, the configuration in the safetensors header, with a digest. It is written to a
temporary file and renamed, so that a file of that name is always whole. A configuration only names
classes that slicekit knows, or that the caller of `load` hands over: loading a file runs no code
from it. Tensors that are one in the model (tied ones, or a block that occurs twice) are one again
after loading, and parameters that are frozen (`requires_grad_(False)`) are frozen again.
"""

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from slicekit.configurations import assemble, describe
from slicekit.stored_files import read_stored, told, write_stored
from slicekit.ties import checked_ties, tie, ties


def save(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a model to one file, atomically.

    Args:
        model: `SLiCE`, `Block`, `SequenceModel`, or a module of yours with a `configuration()` that
            gives its constructor's arguments.
        path: the file, by custom with the ending .safetensors.

    Raises:
        TypeError: if it is no module, or a part of it can't be described (a module of yours inside
            `Pointwise`, say), or a parameter shares memory with another tensor and is not the same;
            nothing is written then.
        OSError: if it can't be written; an earlier file of that name stays as it is.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; expected a SLiCE or another module")
    tied = ties(model)
    header = {"model": describe(model, "model"), "frozen": _frozen(model)}
    header |= {"ties": tied} if tied else {}
    write_stored(path, "model", header, model.state_dict())


def load(
    path: str | os.PathLike[str],
    *,
    classes: Iterable[type] = (),
    device: str | torch.device = "cpu",
) -> Any:
    """Read a model that `save` wrote.

    A file from a stranger is safe to load: it runs no code, and takes no more memory than its
    tensors need. Damage to it is noticed; files of older versions, which have no digest, come with
    a warning.

    Args:
        path: the file.
        classes: your own structures and modules that the model contains.
        device: where to put it.

    Returns:
        The model, in evaluation mode. What was frozen is frozen; in files of older versions, which
        do not tell, what the constructors freeze.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, truncated, no slicekit model, or names an unknown class.
    """
    configuration, tensors = read_stored(path, "model")
    handed = {cls.__name__: cls for cls in classes}
    # The file may be a stranger's, and then a constructor may raise anything.
    try:
        model = assemble(configuration["model"], handed, tensors)
        if "frozen" in configuration:
            _freeze(model, configuration["frozen"])
        tied = checked_ties(model, configuration.get("ties", []))
    except Exception as error:
        raise ValueError(f"{path}: the model can't be built again: {told(error)}") from error
    model = model.to(device).eval()
    tie(model, tied)  # last, because a move takes buffers apart
    return model


def _frozen(model: nn.Module) -> list[str]:
    """The names of the parameters that are not trained."""
    named = model.named_parameters(remove_duplicate=False)
    return [name for name, x in named if not x.requires_grad]


def _freeze(model: nn.Module, claimed: Any) -> None:
    """Train all parameters but some, of which a stranger may have given the names.

    Raises:
        ValueError: if these are no names of parameters.
    """
    if not isinstance(claimed, list):
        raise ValueError("its frozen parameters are no list of names")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name in claimed:
        if not isinstance(name, str) or name not in parameters:
            raise ValueError(f"it freezes {name!r:.100}, which is no parameter of the model")
    frozen = set(claimed)
    for name, x in parameters.items():
        x.requires_grad_(name not in frozen)
