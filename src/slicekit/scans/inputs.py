"""Affine inputs u_l of h_{l+1} = M_l h_l + u_l: dense, or outer products that are never stored."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Outer:
    """u_l = left_l right_l^T, the input of matrix states such as the delta rule's k v^T.

    Args:
        left: (batch, length, dim).
        right: (batch, length, columns).
    """

    left: Tensor
    right: Tensor

    def __post_init__(self) -> None:
        """Check that both belong to the same steps."""
        if self.left.ndim != 3 or self.right.ndim != 3:
            raise ValueError(
                f"Outer got left of shape {tuple(self.left.shape)} and right of shape "
                f"{tuple(self.right.shape)}; expected (batch, length, dim) and "
                "(batch, length, columns)"
            )
        if self.left.shape[:2] != self.right.shape[:2]:
            raise ValueError(
                f"Outer got left for {tuple(self.left.shape[:2])} steps and right for "
                f"{tuple(self.right.shape[:2])} (batch, length)"
            )

    def dense(self) -> Tensor:
        """(batch, length, dim, columns)."""
        return self.left.unsqueeze(-1) * self.right.unsqueeze(-2)


def as_tensors(inputs: Tensor | Outer | None) -> tuple[Tensor, ...]:
    """The tensors of an input: none, one (dense) or two (outer)."""
    if inputs is None:
        return ()
    return (inputs.left, inputs.right) if isinstance(inputs, Outer) else (inputs,)


def input_window(tensors: tuple[Tensor, ...], start: int, stop: int) -> Tensor | None:
    """Dense inputs (stop - start, batch, dim, columns) of some steps, time first."""
    parts = [x[:, start:stop].transpose(0, 1) for x in tensors]
    if len(parts) == 2:
        return parts[0].unsqueeze(-1) * parts[1].unsqueeze(-2)
    return parts[0] if parts else None


def input_pullback(
    tensors: tuple[Tensor, ...], start: int, stop: int, cotangent: Tensor
) -> tuple[Tensor, ...]:
    """Gradients (batch, steps, ...) of the inputs of some steps from that of their dense form."""
    if len(tensors) == 2:
        left, right = (x[:, start:stop].transpose(0, 1) for x in tensors)
        gradients = (
            (cotangent @ right.conj().unsqueeze(-1)).squeeze(-1),
            (cotangent.mT @ left.conj().unsqueeze(-1)).squeeze(-1),
        )
    else:
        gradients = (cotangent,) if tensors else ()
    return tuple(x.transpose(0, 1) for x in gradients)
