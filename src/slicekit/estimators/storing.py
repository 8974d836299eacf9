"""Fitted estimators on disk, without pickle: one safetensors file with a JSON header.

Tensors are the networks' parameters and the preparation's statistics; the header holds parameters,
labels and the networks' configurations. It only names classes that slicekit knows, or that the
caller of `load` hands over: loading a file runs no code from it.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from slicekit import files
from slicekit.devices import Device, find_device
from slicekit.estimators.features import Features
from slicekit.estimators.fitting import History
from slicekit.estimators.network import Max, Recipe, SeriesNetwork
from slicekit.estimators.preparation import Preparation
from slicekit.estimators.reservoir import RandomRecipe, Reservoir
from slicekit.estimators.windows import Windows
from slicekit.serialisation import build, describe, read_stored

FORMAT = "slicekit-estimator-1"
KINDS = (Recipe, SeriesNetwork, Max, RandomRecipe, Reservoir)
OWN: dict[str, type] = {kind.__name__: kind for kind in KINDS}


def write(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or nothing."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    parameters["device"] = None  # whoever loads it says where
    features: Features = estimator.features_
    parts = {"preparation": features.preparation, "windows": features.windows}
    header = {
        "format": FORMAT,
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
    tensors = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    files.write(target, save(tensors, metadata={"slicekit": json.dumps(header)}))


def read(
    kind: type, path: str | os.PathLike[str], classes: Iterable[type], device: Device | None
) -> Any:
    """The inverse of `write`; errors name the file."""
    find_device(device)
    header, tensors = read_stored(path, FORMAT, "estimator")
    if header.get("estimator") != kind.__name__:
        raise ValueError(
            f"{path} holds a {header.get('estimator')}; load it with {header.get('estimator')}.load"
        )
    handed = OWN | {cls.__name__: cls for cls in classes}
    try:
        return _rebuild(kind, header, tensors, handed, device)
    except (ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise ValueError(f"{path}: the estimator can't be built again: {error}") from error


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
        network = build(described, handed)
        if not isinstance(network, nn.Module):
            raise TypeError(f"it describes a {type(network).__name__}, not a network")
        network.load_state_dict(_below(f"networks.{i}.", tensors))
        networks.append(network.to(find_device(device)).eval())
    estimator.networks_ = networks
    return estimator


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}


def _fitted(estimator: Any) -> dict[str, Any]:
    """What `fit` found out, but for tensors and networks: numbers, and arrays as lists."""
    names = ("n_channels_in_", "n_features_in_", "classes_", "centre_", "spread_")
    found = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    if hasattr(estimator, "feature_names_in_"):
        found["feature_names_in_"] = estimator.feature_names_in_
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
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
