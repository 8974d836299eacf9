"""Models on disk, in the one format of slicekit: what torch saved JAX loads, and the reverse.

The tensors have the same names, shapes and meaning in both, and the configuration names the same
classes. A configuration only names classes that are known here, or that the caller hands over:
loading a file runs no code from it.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file

from slicekit.files import replacing
from slicekit.jax import flows, layers, paths, scans, structures
from slicekit.jax.layers.block import gelu
from slicekit.jax.structures.sparse import blank

FORMAT = "slicekit-model-2"

_DTYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": jnp.bfloat16,
    "I64": np.int64,
}

_KNOWN: dict[str, type] = {
    name: value
    for room in (structures, flows, scans, layers)
    for name, value in vars(room).items()
    if isinstance(value, type)
}
_ACTIVATIONS: dict[str, Any] = {
    "Tanh": jnp.tanh,
    "GELU": gelu,
    "GLU": jax.nn.glu,
    "ReLU": jax.nn.relu,
    "SiLU": jax.nn.silu,
    "Sigmoid": jax.nn.sigmoid,
    "Softplus": jax.nn.softplus,
}
"""Activations by their names in torch.nn."""

_ONLY_TORCH = {"Native"}
"""Scans that torch has for more structures: None, the fastest, stands in for them."""


def named_arrays(model: Any) -> dict[str, Array]:
    """Every array of a model by the name that torch's twin has in its state_dict.

    >>> layer = layers.SLiCE(2, structures.Dense(3), key=jax.random.key(0))
    >>> sorted(named_arrays(layer))
    ['A.blocks', 'start.bias', 'start.weight']
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {_name(path): x for path, x in leaves}


def with_arrays(model: Any, arrays: dict[str, Any]) -> Any:
    """The same model with other arrays, by the names of `named_arrays`.

    Raises:
        ValueError: if a name is missing or left over, or a shape does not fit.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(model)
    present, ragged = {_name(path): x for path, x in leaves}, _ragged(model)
    missing, over = sorted(present.keys() - arrays.keys()), sorted(arrays.keys() - present.keys())
    if missing or over:
        raise ValueError(
            f"the tensors are not those of the model; missing: {', '.join(missing) or 'nothing'}; "
            f"left over: {', '.join(over) or 'nothing'}"
        )
    for name, x in present.items():
        if name not in ragged and tuple(arrays[name].shape) != x.shape:
            raise ValueError(
                f"{name} has shape {tuple(arrays[name].shape)}; expected {tuple(x.shape)}"
            )
    return jax.tree_util.tree_unflatten(tree, [jnp.asarray(arrays[name]) for name in present])


def _name(path: Any) -> str:
    keys = (getattr(k, "name", getattr(k, "key", getattr(k, "idx", None))) for k in path)
    return ".".join(str(key) for key in keys)


def _ragged(model: Any) -> set[str]:
    """Names of arrays whose number of elements is random (a sparsity pattern)."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(
        model, is_leaf=lambda x: isinstance(x, layers.SLiCE)
    )
    owners = ((path, x) for path, x in leaves if isinstance(x, layers.SLiCE))
    return {
        ".".join(part for part in (_name(path), "A", name) if part)
        for path, x in owners
        for name in x.structure.ragged
    }


def load(
    path: str | os.PathLike[str], *, classes: Iterable[type] = (), most: int | None = None
) -> Any:
    """Read a model that `slicekit.save` or `slicekit.jax.save` wrote.

    Args:
        path: the file, such as model.safetensors in the folder of a `slicekit train`.
        classes: your own structures and modules that the model contains.
        most: of every `Duration` in it, for a model with windows in time under `jax.jit`; a file
            holds none, because it belongs to the data.

    Returns:
        The model, with the file's numbers. Tensors that are one in torch are several here, with a
        warning.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, truncated, no slicekit model, names a class that is not here,
            or is in float64 while JAX is not.
    """
    header, stored = _read(Path(path))
    wide = [name for name, x in stored.items() if x.dtype == np.float64]
    if wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise ValueError(
            f"{path} holds float64 ({wide[0]}), which JAX would round to float32: "
            'jax.config.update("jax_enable_x64", True) first'
        )
    handed = {cls.__name__: cls for cls in classes}
    try:
        # Only shapes are made: a stranger's file takes no more memory than its tensors need.
        with blank():
            model = eqx.filter_eval_shape(lambda: build(header["model"], handed, most))
        model = with_arrays(model, stored)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: the model can't be built again: {error}") from error
    if header.get("ties"):
        warnings.warn(
            f"{path} says which of its tensors are one ({header['ties']!r:.200}), and in JAX they "
            "are several: outputs are the same, but further training is of another model",
            stacklevel=2,
        )
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the numbers of a file, checked against its digest."""
    if not path.is_file():
        raise FileNotFoundError(f"no model at {path}")
    try:
        with safe_open(path, framework="np") as opened:
            outer = opened.metadata() or {}
        arrays = {
            name: np.frombuffer(x["data"], _DTYPES[x["dtype"]]).reshape(x["shape"])
            for name, x in deserialize(path.read_bytes())
        }
    except (SafetensorError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is damaged or truncated: {error}") from error
    text = outer.get("slicekit", "")
    try:
        header = json.loads(text)
        if header["format"] not in ("slicekit-model-1", FORMAT):
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is a safetensors file, but no slicekit model") from error
    if header["format"] == FORMAT and outer.get("digest") != digest(text, arrays):
        raise ValueError(f"{path} is damaged or truncated: its content does not fit its digest")
    return header, arrays


def digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    """Of a text and of arrays, as `slicekit.stored_files.digest` takes it of tensors."""
    total = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name, x in sorted(arrays.items()):
        total.update(f"{name} torch.{x.dtype} {tuple(x.shape)};".encode())
        total.update(np.ascontiguousarray(x).tobytes())
    return total.hexdigest()


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file, atomically, which `slicekit.load` reads into torch.

    Args:
        model: `SLiCE`, `Block` or `SequenceModel`.
        path: the file, by custom with the ending .safetensors.

    Raises:
        TypeError: if it is no module, or a part of it can't be described; nothing is written then.
    """
    if not isinstance(model, eqx.Module):
        raise TypeError(f"model is a {type(model).__name__}; expected a SLiCE or another module")
    text = json.dumps({"format": FORMAT, "model": describe(model, "model")})
    arrays = {name: np.asarray(x) for name, x in named_arrays(model).items()}
    # A pattern of places is int64 in torch, whatever JAX holds integers in.
    arrays |= {name: x.astype(np.int64) for name, x in arrays.items() if x.dtype.kind == "i"}
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    with replacing(target) as temporary:
        # Made here, so that it has the rights of any new file of the user's.
        temporary.touch()
        save_file(arrays, temporary, metadata={"slicekit": text, "digest": digest(text, arrays)})


def describe(value: Any, place: str) -> Any:
    """A description by plain data, as `slicekit.serialisation.describe` makes of torch's twin.

    Raises:
        TypeError: if it can't be described.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [describe(x, f"{place}[{i}]") for i, x in enumerate(value)]}
    for name, activation in _ACTIVATIONS.items():
        if value is activation:
            return {"nn": name}
    arguments = _arguments(value)
    if arguments is None:
        raise TypeError(
            f"{place} is a {type(value).__name__}, which can't be saved by its configuration; save "
            "its arrays and build it in code"
        )
    name, described = type(value).__name__, {}
    if _KNOWN.get(name) is not type(value):
        described["own"] = True
    described["class"] = name
    described["arguments"] = {k: describe(v, f"{place}.{k}") for k, v in arguments.items()}
    return described


def _arguments(value: Any) -> dict[str, Any] | None:
    """The arguments that make a value again, but for its arrays."""
    if isinstance(value, layers.SLiCE):
        names = ("channels", "structure", "drive", "initial", "flow", "scan", "projective")
        return {name: getattr(value, name) for name in names} | {"affine": value.B is not None}
    if isinstance(value, layers.Block):
        return {name: getattr(value, name) for name in ("mixer", "width", "wiring", "dropout")}
    if isinstance(value, layers.SequenceModel):
        names = ("vocabulary", "channels", "outputs", "width", "blocks", "pool", "final_norm")
        norm = layers.LayerNorm() if value.norm is None else _policy(value.norm)
        rest = {"embed": value.embedding is not None, "wiring": layers.Wiring(norm=norm)}
        return {name: getattr(value, name) for name in names} | rest
    if isinstance(value, scans.Chunked):
        return {"size": value.size}
    if isinstance(value, paths.Duration):
        return {"time": value.time, "channel": value.channel}
    if isinstance(value, layers.Pointwise | type):
        return None
    if hasattr(value, "configuration"):
        return value.configuration()
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    return None


def _policy(norm: layers.Norm) -> Any:
    return layers.RMSNorm(norm.eps) if norm.bias is None else layers.LayerNorm(norm.eps)


def build(described: Any, handed: dict[str, type], most: int | None = None) -> Any:
    """What `describe` described, with fresh parameters; `handed` are the caller's own classes."""
    if not isinstance(described, dict):
        return described
    if "tuple" in described:
        return tuple(build(x, handed, most) for x in described["tuple"])
    if "list" in described:
        return [build(x, handed, most) for x in described["list"]]
    if "nn" in described:
        if described["nn"] not in _ACTIVATIONS:
            raise ValueError(f"it names torch.nn.{described['nn']}, which has no twin here")
        return _ACTIVATIONS[described["nn"]]
    name = described["class"]
    known = handed if described.get("own") else handed | _KNOWN
    if name in _ONLY_TORCH and name not in known:
        return None
    if name not in known:
        raise ValueError(f"it holds a {name}, which is not in slicekit.jax; hand its class over")
    arguments = {k: build(v, handed, most) for k, v in described["arguments"].items()}
    positional, make = arguments.pop("*", ()), known[name]
    if issubclass(make, paths.Duration):
        arguments["most"] = most
    if issubclass(make, layers.SLiCE | layers.Block | layers.SequenceModel):
        make = partial(make, key=jax.random.key(0))
    return make(*positional, **arguments)
