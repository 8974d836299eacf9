"""Checkpoints of models whose parameters are spread over ranks, by `torch.distributed.checkpoint`.

Each rank writes what it holds. Another number of ranks, or one process, reads what it needs.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn

FORMAT = "slicekit-sharded-1"


def save_checkpoint(
    folder: str | Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer | None = None,
    step: int = 0,
) -> None:
    """Write a model, and what its optimiser remembers, from all ranks together.

    Args:
        folder: a new folder, the same on all ranks.
        model: plain, or under `fully_shard`; wrapped models are stored by the names within.
        optimiser: of its parameters, or None.
        step: a number to find again.

    Raises:
        FileExistsError: if the folder holds a checkpoint already.
    """
    checkpoint = _checkpoint()
    folder = Path(folder)
    if (folder / ".metadata").exists():
        raise FileExistsError(f"{folder} already holds a checkpoint; choose another folder")
    checkpoint.save(
        _state(model, optimiser) | {"step": step, "format": FORMAT}, checkpoint_id=folder
    )


def load_checkpoint(
    folder: str | Path, model: nn.Module, optimiser: torch.optim.Optimizer | None = None
) -> int:
    """Read what `save_checkpoint` wrote, on any number of ranks.

    Args:
        folder: where it is.
        model: of the same kind, plain or under `fully_shard`.
        optimiser: the same.

    Returns:
        The step.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ValueError: if it is of another model.
    """
    from torch.distributed.checkpoint.state_dict import set_state_dict

    checkpoint, folder = _checkpoint(), Path(folder)
    if not (folder / ".metadata").is_file():
        raise FileNotFoundError(f"{folder} holds no checkpoint of several ranks")
    wanted: dict[str, Any] = _state(model, optimiser) | {"step": 0, "format": FORMAT}
    try:
        checkpoint.load(wanted, checkpoint_id=folder)
    except (checkpoint.CheckpointException, RuntimeError, KeyError) as error:
        raise ValueError(f"{folder} is the checkpoint of another model: {error}") from error
    set_state_dict(
        model,
        [] if optimiser is None else optimiser,
        model_state_dict=wanted["model"],
        optim_state_dict=wanted.get("optimiser", {}),
    )
    return wanted["step"]


def _checkpoint() -> Any:
    """torch's module of that name, which takes a second to load."""
    from torch.distributed import checkpoint

    return checkpoint


def _state(model: nn.Module, optimiser: torch.optim.Optimizer | None) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict

    if optimiser is None:
        return {"model": get_model_state_dict(model)}
    weights, moments = get_state_dict(model, optimiser)
    return {"model": weights, "optimiser": moments}
