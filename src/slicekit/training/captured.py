"""What a model's head reads, or what its last mixer gives, caught as it passes."""

from types import TracebackType
from typing import Any

from torch import Tensor, nn

from slicekit.checks import check_shape


def head_of(model: nn.Module) -> nn.Linear:
    """The last linear map among the model's parts, in the order in which they were registered.

    Raises:
        ValueError: if there is none.
    """
    linear_maps = [x for x in model.modules() if isinstance(x, nn.Linear)]
    if not linear_maps:
        raise ValueError(
            f"consistency > 0, but {type(model).__name__} has no linear map whose inputs could be "
            "compared; set consistency=0"
        )
    return linear_maps[-1]


def last_mixer_of(model: nn.Module) -> nn.Module:
    """The mixer of the model's last block.

    Raises:
        ValueError: if it has no blocks with mixers.
    """
    held = [getattr(x, "mixer", None) for x in model.modules()]
    mixers = [x for x in held if isinstance(x, nn.Module)]
    if not mixers:
        raise ValueError(
            f"consistent_states=True, but {type(model).__name__} has no block with a mixer whose "
            "outputs could be compared; set consistent_states=False"
        )
    return mixers[-1]


class CapturedFeatures:
    """Listens to what a head is given, or to what a mixer gives, while the context lasts.

    Args:
        module: takes features (batch, length, size), or pooled ones (batch, size), which count as
            those of one position; or gives them, alone or before its state.
        given: whether features are what it gives.

    Example:
        >>> import torch
        >>> head, x = nn.Linear(3, 4), torch.zeros(2, 5, 3)
        >>> with CapturedFeatures(head) as captured:
        ...     logits = head(x)
        ...     captured.take() is x
        True
    """

    def __init__(self, module: nn.Module, given: bool = False) -> None:
        """Keep the module; nothing listens yet."""
        self._module, self._given = module, given
        self._features: Tensor | None = None

    def __enter__(self) -> "CapturedFeatures":
        """Start to listen."""
        if self._given:
            self._handle = self._module.register_forward_hook(self._keep_result)
        else:
            self._handle = self._module.register_forward_pre_hook(self._keep)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._handle.remove()
        self._features = None

    def take(self) -> Tensor:
        """What the last call took or gave, (batch, length, size), which is then let go."""
        features, self._features = self._features, None
        if features is None:
            part = "last mixer" if self._given else "head"
            raise RuntimeError(f"the model did not call its {part}, so there are no features")
        return features

    def _keep_result(self, module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        self._keep(module, result if isinstance(result, tuple) else (result,))

    def _keep(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        features: Tensor = arguments[0]
        if features.ndim == 2:
            features = features.unsqueeze(1)
        check_shape("the features", features, ("batch", "length", "size"))
        self._features = features
