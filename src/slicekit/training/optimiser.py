"""AdamW with two groups of parameters, the paper's unless the model says otherwise."""

from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW

from slicekit.training.settings import Settings

UNDECAYED = "embedding"
"""Parameters whose names contain this have no weight decay, where the model does not say."""


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that take part in training, by name.

    Raises:
        ValueError: if there is none.
    """
    trained = {name: x for name, x in model.named_parameters() if x.requires_grad}
    if not trained:
        raise ValueError("model has no parameter that requires a gradient: nothing to train")
    return trained


def make_optimiser(model: nn.Module, settings: Settings) -> AdamW:
    """AdamW over the model, with decay on all parameters but the embeddings.

    Biases and norms are decayed too, as in the paper's code.

    Args:
        model: what is trained. With a method `is_decayed(name, parameter)`, that decides.
        settings: rate, decay, betas and eps count.

    Returns:
        The optimiser, in its fused form: on a CPU several times faster than the others, and as
        deterministic.
    """
    parameters = trained_parameters(model)
    is_decayed: Any = getattr(model, "is_decayed", lambda name, _: UNDECAYED not in name)
    decayed = [x for name, x in parameters.items() if is_decayed(name, x)]
    others = [x for name, x in parameters.items() if not is_decayed(name, x)]
    groups = [
        {"params": decayed, "weight_decay": settings.decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=settings.rate,
        betas=settings.betas,
        eps=settings.eps,
        fused=True,
    )


def set_rate(optimiser: AdamW, rate: float) -> None:
    """Make this the rate of the next update."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def stored_moments(optimiser: AdamW, model: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers, as "parameter name/name of the moment"."""
    parameters = trained_parameters(model)
    return {
        f"{name}/{key}": value
        for name, x in parameters.items()
        for key, value in optimiser.state.get(x, {}).items()
    }


def restore_moments(optimiser: AdamW, model: nn.Module, stored: dict[str, Tensor]) -> None:
    """The inverse of `stored_moments`: what is not stored is forgotten."""
    parameters = trained_parameters(model)
    optimiser.state.clear()
    for place, value in stored.items():
        name, key = place.rsplit("/", 1)
        x = parameters[name]
        optimiser.state[x][key] = value.to(x.device)
