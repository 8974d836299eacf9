"""The features that a model's head reads, caught as they pass."""

from types import TracebackType
from typing import Any

from torch import Tensor, nn

from slicekit.checks import check_shape


def head_of(model: nn.Module) -> nn.Linear:
    """The last linear map among the model's parts, in the order in which they were registered.

    Raises:
        ValueError: if there is none.
    """
    found = [x for x in model.modules() if isinstance(x, nn.Linear)]
    if not found:
        raise ValueError(
            f"consistency > 0, but {type(model).__name__} has no linear map whose inputs could be "
            "compared; set consistency=0"
        )
    return found[-1]


class CapturedFeatures:
    """Listens to what a head is given while the context lasts.

    Args:
        head: a module that takes features (batch, length, size), or pooled ones (batch, size),
            which count as those of one position.

    Example:
        >>> import torch
        >>> head, x = nn.Linear(3, 4), torch.zeros(2, 5, 3)
        >>> with CapturedFeatures(head) as captured:
        ...     logits = head(x)
        ...     captured.take() is x
        True
    """

    def __init__(self, head: nn.Module) -> None:
        """Keep the head; nothing listens yet."""
        self._head = head
        self._features: Tensor | None = None

    def __enter__(self) -> "CapturedFeatures":
        """Start to listen."""
        self._handle = self._head.register_forward_pre_hook(self._keep)
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
        """What the last call of the head was given, (batch, length, size), which is then let go."""
        features, self._features = self._features, None
        if features is None:
            raise RuntimeError("the model did not call its head, so there are no features")
        return features

    def _keep(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        features: Tensor = arguments[0]
        if features.ndim == 2:
            features = features.unsqueeze(1)
        check_shape("the features of the head", features, ("batch", "length", "size"))
        self._features = features
