"""What models, estimators and checkpoints have in common on disk: safetensors, JSON and a digest.

One file holds tensors, and in the header of safetensors a text of JSON that says what they belong
to, with a digest of both: damage anywhere in the file shows. Nothing is unpickled, and reading
costs no more than the file is large.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from slicekit import files


def write_stored(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
) -> None:
    """Write a file, atomically.

    Args:
        path: the file.
        kind: what it holds, "model" or "estimator".
        header: plain data, as JSON can hold it.
        tensors: by name.

    Raises:
        FileNotFoundError: if its directory is not there.
        OSError: if it can't be written; an earlier file stays as it is.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    text = json.dumps({"format": f"slicekit-{kind}-2"} | dict(header))
    copies = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    content = save(copies, metadata={"slicekit": text, "digest": digest(text, copies)})
    size = 8 + int.from_bytes(content[:8], "little")
    # Not by `save_file`: it has temporary files of its own, which stay where a process is killed.
    with files.replacing(target) as temporary, open(temporary, "wb") as file:
        file.write(_in_order(content[:size]))
        file.write(memoryview(content)[size:])


def _in_order(start: bytes) -> bytes:
    """Sort the words beside the tensors: safetensors mixes them, and the same is to be the same."""
    header = json.loads(start[8:])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return start[:8] + text.ljust(len(start) - 8) if len(text) <= len(start) - 8 else start


def read_stored(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors of a file that `write_stored` wrote, on the CPU.

    Args:
        path: the file.
        kind: what it should hold.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, truncated or something else.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no {kind} at {path}")
    try:
        with safe_open(path, framework="pt") as stored:
            outer = stored.metadata() or {}
            # Copies: what safe_open gives is the file itself, which may change or shrink later.
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    except OSError as error:
        raise OSError(f"could not read {path}: {error}") from error
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or truncated: {told(error)}") from error
    text = outer.get("slicekit", "")
    try:
        header = json.loads(text)
        written = header["format"]
        if written not in (f"slicekit-{kind}-1", f"slicekit-{kind}-2"):
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is a safetensors file, but no slicekit {kind}") from error
    if written.endswith("1") and "digest" not in outer:
        warnings.warn(
            f"{path} is from an older slicekit and has no digest: damage to its numbers would not "
            "show. Save it again to give it one",
            stacklevel=3,
        )
    elif outer.get("digest") != digest(text, tensors):
        raise ValueError(f"{path} is damaged or truncated: its content does not fit its digest")
    return header, tensors


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Of a text and of tensors on the CPU: their names, dtypes, shapes and numbers.

    >>> one, other = digest("", {"a": torch.zeros(2)}), digest("", {"a": torch.zeros(2, 1)})
    >>> len(one), one == other
    (32, False)
    """
    total = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name, x in sorted(tensors.items()):
        total.update(f"{name} {x.dtype} {tuple(x.shape)};".encode())
        total.update(x.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def told(error: BaseException, most: int = 400) -> str:
    """What an error says, in not too many characters, whatever it is.

    >>> told(KeyError("class")), told(RecursionError("maximum recursion depth exceeded"))
    ("'class'", 'it is nested too deeply')
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error) or type(error).__name__
    return text if len(text) <= most else f"{text[:most]}..."
