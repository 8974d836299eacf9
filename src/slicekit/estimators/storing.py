"""Fitted estimators on disk, without pickle: one safetensors file with a JSON header.

Tensors are the networks' parameters and the preparation's statistics; the header holds parameters,
labels and the networks' configurations. It only names classes that slicekit knows, or that the
caller of `load` hands over: loading a file runs no code from it.
"""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from slicekit.configurations import assemble, build, describe
from slicekit.devices import Device, find_device
from slicekit.estimators.features import Features
from slicekit.estimators.fitting import History
from slicekit.estimators.network import Max, Recipe, SeriesNetwork
from slicekit.estimators.preparation import Preparation
from slicekit.estimators.reservoir import RandomRecipe, Reservoir
from slicekit.estimators.windows import Windows
from slicekit.stored_files import read_stored, told, write_stored

KINDS = (Recipe, SeriesNetwork, Max, RandomRecipe, Reservoir)
OWN: dict[str, type] = {kind.__name__: kind for kind in KINDS}
FITTED = ("n_channels_in_", "n_features_in_", "feature_names_in_", "classes_", "centre_", "spread_")
"""What `fit` finds out, besides tensors and networks; not every estimator has all of it."""


def write(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or nothing."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    parameters["device"] = None  # whoever loads it says where
    features: Features = estimator.features_
    parts = {"preparation": features.preparation, "windows": features.windows}
    header = {
        "estimator": type(estimator).__name__,
        "parameters": {k: describe(_plain(v), k) for k, v in parameters.items()},
        "fitted": _fitted(estimator),
        "features": {
            part: {k: v for k, v in vars(x).items() if not isinstance(v, torch.Tensor)}
            for part, x in parts.items()
        },
        "recipe": describe(estimator.recipe_, "recipe_"),
        "networks": [describe(x, "network") for x in estimator.networks_],
        "history": [[h.steps, h.validation, h.penalty] for h in estimator.history_],
    }
    tensors = {
        f"{part}.{name}": value
        for part, x in parts.items()
        for name, value in vars(x).items()
        if isinstance(value, torch.Tensor)
    }
    for i, network in enumerate(estimator.networks_):
        for name, x in network.state_dict().items():
            tensors[f"networks.{i}.{name}"] = x
    write_stored(path, "estimator", header, tensors)


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
        _check(estimator)
    except Exception as error:
        raise ValueError(f"{path}: the estimator can't be built again: {told(error)}") from error
    return estimator


def _rebuild(
    kind: type,
    header: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    handed: dict[str, type],
    device: Device | None,
) -> Any:
    parameters = {k: build(v, handed) for k, v in header["parameters"].items()}
    estimator = kind(**(parameters | {"device": device}))
    for name, value in header["fitted"].items():
        if name not in FITTED:
            raise ValueError(f"it has {name!r}, which is nothing that `fit` finds out")
        setattr(estimator, name, _array(value) if isinstance(value, dict) else value)
    numbers = header["features"]
    estimator.features_ = Features(
        Preparation(**_below("preparation.", tensors), **numbers["preparation"]),
        Windows(**_below("windows.", tensors), **numbers["windows"]),
    )
    estimator.recipe_ = build(header["recipe"], handed)
    estimator.history_ = [
        History(steps, tuple((step, loss) for step, loss in validation), penalty)
        for steps, validation, penalty in header["history"]
    ]
    networks = []
    for i, described in enumerate(header["networks"]):
        network = assemble(described, handed, _below(f"networks.{i}.", tensors))
        networks.append(network.to(find_device(device)).eval())
    estimator.networks_ = networks
    return estimator


def _check(estimator: Any) -> None:
    """Raise unless features, networks and what they predict fit together."""
    features: Features = estimator.features_
    answers = getattr(estimator, "classes_", None)
    if answers is None:
        answers = estimator.centre_
        if np.shape(estimator.spread_) != answers.shape:
            raise ValueError(
                f"spread_ has shape {np.shape(estimator.spread_)}, not {answers.shape}"
            )
    if features.preparation.inputs != estimator.n_channels_in_:
        inputs = features.preparation.inputs
        raise ValueError(f"it prepares {inputs} channels, not {estimator.n_channels_in_}")
    if not estimator.networks_:
        raise ValueError("it has no network")
    for network in estimator.networks_:
        if not isinstance(network, SeriesNetwork | Reservoir):
            raise TypeError(f"it has a {type(network).__name__} as a network")
        sizes, expected = (network.channels, network.outputs), (features.channels, answers.size)
        if sizes != expected:
            raise ValueError(f"a network has (channels, outputs) {sizes}, expected {expected}")


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}


def _fitted(estimator: Any) -> dict[str, Any]:
    """What `fit` found out, but for tensors and networks: numbers, and arrays as lists."""
    found = {name: getattr(estimator, name) for name in FITTED if hasattr(estimator, name)}
    return {k: _listed(v, k) if isinstance(v, np.ndarray) else v for k, v in found.items()}


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
    found, dtype = np.array(stored["values"]), np.dtype(stored["dtype"])
    if dtype.kind not in "biufOUS" or (dtype.kind in "US" and dtype.itemsize > 4 * found.itemsize):
        raise ValueError(f"it has {found.dtype} values in an array of {dtype}")
    return np.array(stored["values"], dtype=dtype)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
