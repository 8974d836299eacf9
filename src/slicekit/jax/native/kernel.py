"""A kernel as a function of JAX: fast values and gradients, and every other derivative as well.

A kernel knows its values and its gradients, and has a twin in pure JAX. `run` takes

    values and reverse mode            from the kernel,
    forward mode and higher orders     from the twin,

by a primitive that is linear in the tangents: evaluated, it pushes them forward through the twin;
transposed, which is what `jax.grad` does to it, it calls the kernel's backward pass.

Glossary: arrays are what a kernel is given, outputs what it returns, saved what its forward pass
leaves to its backward pass; perturbed says of each array whether it has a tangent.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Arrays = tuple[Array, ...]
Flags = tuple[bool, ...]


class Kernel(ABC):
    """A description, hashable and equal to those that compute the same."""

    @abstractmethod
    def pure(self, arrays: Arrays, outputs: Arrays) -> Arrays:
        """The outputs in pure JAX; those of the kernel are at hand for what counts as constant."""

    @abstractmethod
    def forward(self, arrays: Arrays, save: bool) -> tuple[Arrays, Arrays]:
        """The outputs, and what the backward pass needs besides if it is to be saved."""

    @abstractmethod
    def backward(
        self, arrays: Arrays, outputs: Arrays, saved: Arrays, given: Arrays, perturbed: Flags
    ) -> Arrays:
        """Gradients of the perturbed arrays from those of the outputs."""


def run(kernel: Kernel, *arrays: Array) -> Arrays:
    """The outputs of a kernel, under any transformation of JAX."""
    return _run(kernel, False, *arrays)[0]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _run(kernel: Kernel, save: bool, *arrays: Array) -> tuple[Arrays, Arrays]:
    return kernel.forward(arrays, save)


@partial(_run.defjvp, symbolic_zeros=True)
def _jvp(kernel: Kernel, save: bool, primals: Any, tangents: Any) -> Any:
    outputs, saved = _run(kernel, True, *primals)
    perturbed = tuple(not isinstance(t, SymbolicZero) for t in tangents)
    moved = [t for t in tangents if not isinstance(t, SymbolicZero)]
    pushed = tuple(
        push_p.bind(
            *primals,
            *outputs,
            *saved,
            *moved,
            kernel=kernel,
            perturbed=perturbed,
            sizes=(len(outputs), len(saved)),
        )
    )
    kept = saved if save else ()
    return (outputs, kept), (pushed, jax.tree.map(jnp.zeros_like, kept))


push_p = Primitive("slicekit_push")
push_p.multiple_results = True


def _split(args: Sequence[Any], perturbed: Flags, sizes: tuple[int, int]) -> list[tuple[Any, ...]]:
    """arrays, outputs, saved and tangents."""
    edges = [0, len(perturbed), len(perturbed) + sizes[0], len(perturbed) + sum(sizes), len(args)]
    return [tuple(args[a:b]) for a, b in pairwise(edges)]


def _chosen(arrays: Sequence[Any], flags: Flags) -> Arrays:
    """The arrays whose flag is set."""
    return tuple(x for x, flag in zip(arrays, flags, strict=True) if flag)


def _joined(arrays: Arrays, moved: Arrays, perturbed: Flags) -> Arrays:
    """The arrays, with others in place of those that are perturbed."""
    others = iter(moved)
    return tuple(next(others) if p else x for x, p in zip(arrays, perturbed, strict=True))


def _push(*args: Array, kernel: Kernel, perturbed: Flags, sizes: tuple[int, int]) -> Arrays:
    arrays, outputs, _, tangents = _split(args, perturbed, sizes)

    def value(*leaves: Array) -> Arrays:
        return kernel.pure(_joined(arrays, leaves, perturbed), outputs)

    return jax.jvp(value, _chosen(arrays, perturbed), tangents)[1]


def _shapes(*args: Any, kernel: Kernel, perturbed: Flags, sizes: tuple[int, int]) -> Any:
    return list(_split(args, perturbed, sizes)[1])


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _pull(kernel: Kernel, perturbed: Flags, sizes: tuple[int, int], *args: Array) -> Arrays:
    arrays, outputs, saved, given = _split(args, perturbed, sizes)
    return kernel.backward(arrays, outputs, saved, given, perturbed)


@_pull.defjvp
def _pull_jvp(
    kernel: Kernel, perturbed: Flags, sizes: tuple[int, int], primals: Any, tangents: Any
) -> Any:
    """Second derivatives: those of the twin's gradient."""
    gradients = _pull(kernel, perturbed, sizes, *primals)
    arrays, outputs, _, given = _split(primals, perturbed, sizes)
    moved, _, _, turned = _split(tangents, perturbed, sizes)

    floating = tuple(map(_is_floating, arrays))

    def gradient(chosen: Arrays, given: Arrays) -> Arrays:
        whole = _joined(arrays, chosen, floating)

        def value(leaves: Arrays) -> Arrays:
            return kernel.pure(_joined(whole, leaves, perturbed), outputs)

        return jax.vjp(value, _chosen(whole, perturbed))[1](given)[0]

    point, direction = _chosen(arrays, floating), _chosen(moved, floating)
    return gradients, jax.jvp(gradient, (point, given), (direction, turned))[1]


def _transpose(cotangents: Any, *args: Any, **how: Any) -> Any:
    perturbed, sizes = how["perturbed"], how["sizes"]
    arrays, outputs, saved, tangents = _split(args, perturbed, sizes)
    given = tuple(
        jnp.zeros_like(x) if type(c) is ad.Zero else c
        for c, x in zip(cotangents, outputs, strict=True)
    )
    gradients = _pull(how["kernel"], perturbed, sizes, *arrays, *outputs, *saved, *given)
    return [None] * (len(args) - len(tangents)) + list(gradients)


def _jvp_of_push(primals: Any, tangents: Any, **how: Any) -> Any:
    moved = tuple(
        jnp.zeros_like(x) if type(t) is ad.Zero and _is_floating(x) else t
        for x, t in zip(primals, tangents, strict=True)
    )
    floating = tuple(map(_is_floating, primals))

    def value(*leaves: Array) -> Arrays:
        return _push(*_joined(primals, leaves, floating), **how)

    return jax.jvp(value, _chosen(primals, floating), _chosen(moved, floating))


def _is_floating(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


@dataclass(frozen=True)
class _Mapped(Kernel):
    """A kernel over one more axis; axes say where each array, output and saved array has it."""

    kernel: Kernel
    arrays: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    saved: tuple[int | None, ...]

    def pure(self, arrays: Arrays, outputs: Arrays) -> Arrays:
        return jax.vmap(self.kernel.pure, (self.arrays, self.outputs))(arrays, outputs)

    def forward(self, arrays: Arrays, save: bool) -> tuple[Arrays, Arrays]:
        return jax.vmap(lambda *x: self.kernel.forward(x, save), self.arrays)(*arrays)

    def backward(
        self, arrays: Arrays, outputs: Arrays, saved: Arrays, given: Arrays, perturbed: Flags
    ) -> Arrays:
        return jax.vmap(
            partial(self.kernel.backward, perturbed=perturbed),
            (self.arrays, self.outputs, self.saved, 0),
        )(arrays, outputs, saved, given)


def _batch(args: Any, axes: Any, **how: Any) -> Any:
    perturbed, sizes = how["perturbed"], how["sizes"]
    size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    own_axes = _split(axes, perturbed, sizes)
    arrays, outputs, saved, tangents = _split(args, perturbed, sizes)

    def in_front(arrays: Sequence[Any], axes: Sequence[Any]) -> list[Any]:
        pairs = zip(arrays, axes, strict=True)
        return [batching.bdim_at_front(x, axis, size) for x, axis in pairs]

    # The outputs' shapes say what comes out; tangents that are shared would have to be summed.
    outputs, placed = in_front(outputs, own_axes[1]), in_front(tangents, own_axes[3])
    kernel = _Mapped(how["kernel"], own_axes[0], (0,) * len(outputs), own_axes[2])
    outputs_and_saved = push_p.bind(
        *arrays, *outputs, *saved, *placed, kernel=kernel, perturbed=perturbed, sizes=sizes
    )
    return outputs_and_saved, [0] * len(outputs_and_saved)


push_p.def_impl(lambda *args, **how: list(_push(*args, **how)))
push_p.def_abstract_eval(_shapes)
ad.primitive_jvps[push_p] = _jvp_of_push
ad.primitive_transposes[push_p] = _transpose
batching.primitive_batchers[push_p] = _batch
mlir.register_lowering(push_p, mlir.lower_fun(_push, multiple_results=True))
