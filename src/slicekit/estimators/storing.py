"""Fitted estimators on disk, without pickle: one safetensors file with a JSON header.

Tensors are what was drawn and fitted; the header holds parameters, labels, numbers and the names of
classes. It only names classes that slicekit knows, or that the caller of `load` hands over: loading
a file runs no code from it. What it describes is checked, and tried on a series, before it is given
out.
"""

import os
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicekit.configurations import assemble, build, describe
from slicekit.devices import Device, find_device
from slicekit.estimators.blocks import Blocks
from slicekit.estimators.features import Features
from slicekit.estimators.inputs import Cases, channel_names
from slicekit.estimators.model import History, Model
from slicekit.estimators.network import Max, Recipe, SeriesNetwork
from slicekit.estimators.networks import Networks
from slicekit.estimators.path import Path
from slicekit.estimators.pools import (
    BandPool,
    CovariancePool,
    FilterPool,
    MeanPool,
    RotationPool,
)
from slicekit.estimators.preparation import Preparation
from slicekit.estimators.readout import Readout
from slicekit.estimators.solvers import Gradient, Ridge
from slicekit.estimators.stacked import Member, Stacked
from slicekit.estimators.windows import Windows
from slicekit.stored_files import read_stored, told, write_stored
from slicekit.ties import checked_ties, tie, ties

OWN: dict[str, type] = {
    kind.__name__: kind for kind in (Recipe, SeriesNetwork, Max, Ridge, Gradient)
}
POOLS: dict[str, type] = {
    kind.__name__: kind for kind in (BandPool, CovariancePool, FilterPool, MeanPool, RotationPool)
}

FITTED = (
    *("n_channels_in_", "channel_names_in_", "dated_", "n_features_in_", "feature_names_in_"),
    *("classes_", "centre_", "spread_"),
)
"""What an estimator finds out beside its model."""


def write(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or nothing."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    parameters["device"] = None  # whoever loads it says where
    if isinstance(parameters.get("class_weight"), dict):
        weights = parameters["class_weight"].items()
        parameters["class_weight"] = tuple((_plain(k), _plain(v)) for k, v in weights)
    tensors: dict[str, Tensor] = {}
    model: Model = estimator.model_
    apart: Any = _stacked_apart if isinstance(model, Stacked) else _networks_apart
    header = {
        "estimator": type(estimator).__name__,
        "parameters": {k: describe(_plain(v), k) for k, v in parameters.items()},
        "fitted": _fitted(estimator),
        "kind": type(model).__name__,
        "model": apart(model, tensors),
        "history": [[h.steps, h.validation, h.weights] for h in model.history],
    }
    write_stored(path, "estimator", header, tensors)


def _apart(x: Any, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The numbers of a dataclass; its tensors are put among the others."""
    numbers = {}
    for field in fields(x):
        value = getattr(x, field.name)
        if isinstance(value, Tensor):
            tensors[f"{name}.{field.name}"] = value
        else:
            numbers[field.name] = value
    return numbers


def _together(kind: type, numbers: dict[str, Any], name: str, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `_apart`."""
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in numbers.items()}
    return kind(**plain, **_below(f"{name}.", tensors))


def _stacked_apart(model: Stacked, tensors: dict[str, Tensor]) -> dict[str, Any]:
    members = []
    for i, member in enumerate(model.members):
        tensors[f"{i}.weights"] = member.weights
        members.append(
            {
                "pools": [
                    [type(pool).__name__, _apart(pool, f"{i}.pools.{j}", tensors)]
                    for j, pool in enumerate(member.blocks.pools)
                ],
                "readouts": [
                    [name, _apart(readout, f"{i}.readouts.{name}", tensors)]
                    for name, readout in member.readouts.items()
                ],
            }
        )
    return {"path": _apart(model.path, "path", tensors), "members": members}


def _stacked_together(told: dict[str, Any], tensors: dict[str, Tensor], history: Any) -> Stacked:
    members = []
    for i, member in enumerate(told["members"]):
        pools = tuple(
            _together(POOLS[name], numbers, f"{i}.pools.{j}", tensors)
            for j, (name, numbers) in enumerate(member["pools"])
        )
        readouts = {
            name: _together(Readout, numbers, f"{i}.readouts.{name}", tensors)
            for name, numbers in member["readouts"]
        }
        members.append(Member(Blocks(pools), readouts, tensors[f"{i}.weights"]))
    path = _together(Path, told["path"], "path", tensors)
    return Stacked(path, tuple(members), history)


def _networks_apart(model: Networks, tensors: dict[str, Tensor]) -> dict[str, Any]:
    for i, network in enumerate(model.networks):
        for name, x in network.state_dict().items():
            tensors[f"networks.{i}.{name}"] = x
    tied = [ties(x) for x in model.networks]
    return ({"ties": tied} if any(tied) else {}) | {
        "preparation": _apart(model.features.preparation, "preparation", tensors),
        "windows": _apart(model.features.windows, "windows", tensors),
        "recipe": describe(model.recipe, "recipe"),
        "networks": [describe(x, "network") for x in model.networks],
    }


def _networks_together(
    told: dict[str, Any],
    tensors: dict[str, Tensor],
    history: Any,
    handed: dict[str, type],
    device: Device | None,
) -> Networks:
    features = Features(
        _together(Preparation, told["preparation"], "preparation", tensors),
        _together(Windows, told["windows"], "windows", tensors),
    )
    networks = []
    claimed = told.get("ties", [[] for _ in told["networks"]])
    for i, (described, tied) in enumerate(zip(told["networks"], claimed, strict=True)):
        network = assemble(described, handed, _below(f"networks.{i}.", tensors))
        if not isinstance(network, SeriesNetwork):
            raise TypeError(f"it has a {type(network).__name__} as a network")
        groups = checked_ties(network, tied)
        networks.append(network.to(find_device(device)).eval())
        tie(network, groups)
    return Networks(features, tuple(networks), build(told["recipe"], handed), history)


def read(
    kind: type, path: str | os.PathLike[str], classes: Iterable[type], device: Device | None
) -> Any:
    """The inverse of `write`; errors name the file."""
    find_device(device)
    header, tensors = read_stored(path, "estimator")
    if header.get("estimator") != kind.__name__:
        raise ValueError(
            f"{path} holds a {header.get('estimator')}; load it with {header.get('estimator')}.load"
        )
    handed = OWN | {cls.__name__: cls for cls in classes}
    # The file may be a stranger's, and then a constructor may raise anything.
    try:
        estimator = _rebuild(kind, header, tensors, handed, device)
        _try(estimator)
    except Exception as error:
        raise ValueError(f"{path}: the estimator can't be built again: {told(error)}") from error
    return estimator


def _rebuild(
    kind: type,
    header: dict[str, Any],
    tensors: dict[str, Tensor],
    handed: dict[str, type],
    device: Device | None,
) -> Any:
    parameters = {k: build(v, handed) for k, v in header["parameters"].items()}
    if isinstance(parameters.get("class_weight"), tuple):
        parameters["class_weight"] = dict(parameters["class_weight"])
    estimator = kind(**(parameters | {"device": device}))
    for name, value in header["fitted"].items():
        if name not in FITTED:
            raise ValueError(f"it has {name!r}, which is nothing that `fit` finds out")
        setattr(estimator, name, _array(value) if isinstance(value, dict) else value)
    history = tuple(
        History(
            steps,
            tuple((step, loss) for step, loss in validation),
            tuple((name, weight) for name, weight in weights),
        )
        for steps, validation, weights in header["history"]
    )
    if header["kind"] == Stacked.__name__:
        estimator.model_ = _stacked_together(header["model"], tensors, history)
    else:
        estimator.model_ = _networks_together(header["model"], tensors, history, handed, device)
    return estimator


def _try(estimator: Any) -> None:
    """Predict from a series of one observation: parts that do not fit together show."""
    model: Model = estimator.model_
    if model.channels != estimator.n_channels_in_:
        raise ValueError(f"it has {model.channels} channels, not {estimator.n_channels_in_}")
    names = channel_names(estimator)
    if names is not None:
        strings = all(isinstance(name, str) for name in names)
        if len(names) != model.channels or not strings:
            raise ValueError(f"it has channels called {names}; expected {model.channels} strings")
    values = torch.zeros(1, model.channels, dtype=torch.float64)
    origin = model.path.origin if isinstance(model, Stacked) else None
    times = torch.tensor([origin or 0.0], dtype=torch.float64)
    with torch.inference_mode():
        outputs = model.outputs(Cases(values, torch.tensor([1]), times), 1)
    answers = getattr(estimator, "classes_", None)
    if answers is None:
        answers = estimator.centre_
        if np.shape(estimator.spread_) != answers.shape:
            raise ValueError(
                f"spread_ has shape {np.shape(estimator.spread_)}, not {answers.shape}"
            )
    wanted = answers.size
    if outputs.ndim != 3 or outputs.shape[1:] != (1, wanted):
        raise ValueError(f"it gives outputs {tuple(outputs.shape[1:])}; expected (1, {wanted})")


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}


def _fitted(estimator: Any) -> dict[str, Any]:
    """What `fit` found out, but for tensors and networks: numbers, and arrays as lists."""
    fitted = {name: getattr(estimator, name) for name in FITTED if hasattr(estimator, name)}
    return {k: _listed(v, k) if isinstance(v, np.ndarray) else v for k, v in fitted.items()}


def _listed(array: np.ndarray, name: str) -> dict[str, Any]:
    values = array.tolist()
    for value in values if isinstance(values, list) else [values]:
        if not isinstance(value, str | bool | int | float):
            raise TypeError(
                f"{name} holds {value!r} of type {type(value).__name__}, which can't be saved; "
                "expected strings, numbers or booleans"
            )
    return {"dtype": array.dtype.str, "values": values}


def _array(stored: dict[str, Any]) -> np.ndarray:
    """Labels or numbers in their dtype, which asks for no more room than they need."""
    values, dtype = np.array(stored["values"]), np.dtype(stored["dtype"])
    if dtype.kind not in "biufOUS" or (dtype.kind in "US" and dtype.itemsize > 4 * values.itemsize):
        raise ValueError(f"it has {values.dtype} values in an array of {dtype}")
    return np.array(stored["values"], dtype=dtype)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
