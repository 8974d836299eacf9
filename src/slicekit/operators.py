"""How a function and its hand-written gradient become one operator of torch.

An operator takes *settings* (strings, numbers, objects with a `key` by which they are found again)
and a list of *operands* (tensors or None) to a list of *results*. `Operator` makes it from plain
functions, and gives it all that torch expects:

- a schema and shapes, so that torch.compile and torch.export take it whole and leave sizes open;
- first derivatives in reverse mode, and second ones through a reference in pure torch, if there is
  one; otherwise they are refused, with advice;
- torch.vmap, by a loop or by leading axes that the functions take anyway;
- full precision under autocast, a count of its floating-point operations, and the same numbers
  under every dispatch mode.

Where nothing looks on, which is how most calls are made, the functions are called as they stand,
with settings as they were given; torch itself is given the keys of those that are objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._C import _get_tracing_state, _is_any_autocast_enabled
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils.flop_counter import register_flop_formula

from slicekit.choices import NOTES
from slicekit.dispatch import autocast_off, plain_torch, surrounded

Operands: TypeAlias = Sequence[Tensor | None]

REVERSE = "take them in reverse mode: torch.func.grad, vjp or jacrev"
"""Advice where forward mode is asked of an operator that has a second derivative."""


@dataclass(eq=False)
class Operator:
    """A differentiable operator, `torch.ops.slicekit.{name}`, and its adjoint, `{name}_adjoint`.

    Args:
        name: of the operator.
        schema: the settings with their types, such as "str kind, int window".
        forward: (*settings, operands) -> contiguous results that share no memory with operands.
        shapes: as `forward`, but only shapes and dtypes of what it returns count; None for one that
            is only called `at_once`, which nobody traces.
        backward: (*settings, operands, results, cotangents, needed) -> a gradient for each operand;
            of those that are not needed any tensor, or None.
        second: (*settings, operands) -> the differentiable results by operations of torch, for
            second derivatives; None refuses them.
        flops: (*settings, shapes of the operands) -> floating-point operations of `forward`; the
            adjoint counts as two of them.
        outputs: how many results are differentiable, the first ones; if need be by the settings.
        reads: places of the operands that `backward` reads, None for all; others are None there.
        keeps: the same of the results.
        twins: for operands that it does not read, places of results of the same shape and dtype.
        subject: the beginning of errors, such as "matrix_exponential gives".
        advice: what to do instead.
        leading: whether operands may have any further axes in front, which all of them share.
        partial: whether `backward` takes None for the cotangent of a result that has none.
    """

    name: str
    schema: str
    forward: Callable[..., Sequence[Tensor]]
    shapes: Callable[..., Sequence[Tensor]] | None
    backward: Callable[..., Sequence[Tensor | None]]
    second: Callable[..., Sequence[Tensor]] | None = None
    _: KW_ONLY
    flops: Callable[..., int]
    subject: str
    outputs: int | Callable[..., int] = 1
    reads: tuple[int, ...] | None = None
    keeps: tuple[int, ...] | None = None
    twins: dict[int, int] = field(default_factory=dict)
    advice: str = REVERSE
    leading: bool = False
    partial: bool = False

    def __post_init__(self) -> None:
        """Register both operators."""
        self.op, self.adjoint_op = _registered(self)
        self.taped = type(f"slicekit_{self.name}", (_Taped,), {})  # as profilers show it
        _made[self.name] = self

    def __call__(self, settings: tuple, operands: Operands) -> Any:
        """The results, on the tape if an operand is.

        Args:
            settings: as the schema has them, or objects that live until the backward pass is over.
            operands: tensors or None.
        """
        taped = torch.is_grad_enabled() and _on_tape(operands)
        if torch.compiler.is_compiling():
            if taped:
                return _Transformed.apply(self.name, _keys(settings), None, *operands)
            return self.op(*_keys(settings), list(operands))
        try:
            if peek_interpreter_stack() is not None:
                return _Transformed.apply(self.name, _keys(settings), settings, *operands)
            if taped or forward_ad._current_level >= 0:
                return self.taped.apply(self.name, settings, None, *operands)
        except NotImplementedError as error:
            if "jvp" not in str(error):
                raise
            raise RuntimeError(
                f"{self.subject} derivatives in reverse mode only, and torch.func.jvp, jacfwd and "
                f"hessian take forward mode; {self.advice}"
            ) from error
        return self.run(settings, operands)

    def at_once(self, settings: tuple, operands: Operands, taped: bool) -> Sequence[Tensor]:
        """The results, for those who know that calls are `unseen` and tensors plain."""
        if _is_any_autocast_enabled():
            with autocast_off(operands[0].device):  # type: ignore[union-attr]
                return self.at_once(settings, operands, taped)
        if taped:
            return self.taped.apply(self.name, settings, None, *operands)
        return self.forward(*settings, operands)

    def run(self, settings: tuple, operands: Operands) -> Sequence[Tensor]:
        """The results, without a tape."""
        if _undisturbed(operands):
            return self.forward(*settings, operands)
        return self.op(*_keys(settings), list(operands))

    def run_back(
        self,
        settings: tuple,
        operands: Operands,
        results: Operands,
        cotangents: Operands,
        needed: list[bool],
        blank: list[tuple],
    ) -> Sequence[Tensor | None]:
        """The gradients, without a tape."""
        undisturbed = _undisturbed((*operands, *cotangents))
        if not (undisturbed and self.partial):
            cotangents = _filled(cotangents, blank, (*operands, *results))
        if undisturbed:
            return self.backward(*settings, operands, results, cotangents, needed)
        tensors = (list(operands), list(results), cotangents)
        return self.adjoint_op(*_keys(settings), *tensors, needed)

    def save(
        self, ctx: Any, name: str, settings: tuple, held: Any, operands: Operands, results: Any
    ) -> None:
        """Write down what the backward pass needs."""
        outputs = self.outputs
        count = outputs if isinstance(outputs, int) else outputs(*settings)
        ctx.name, ctx.settings, ctx.held = name, settings, held
        ctx.sizes = len(operands), len(results)
        # Gradients that are missing are made when they are: of most outputs they never are.
        ctx.blank = [(x.shape, x.dtype) for x in results[:count]]
        ctx.save_for_backward(*_pick(operands, self.reads), *_pick(results, self.keeps))
        ctx.mark_non_differentiable(*results[count:])
        ctx.set_materialize_grads(False)

    def pull(self, ctx: Any, gradients: tuple[Tensor | None, ...]) -> tuple:
        """The gradients of all arguments of a Function, from those of its results."""
        settings, (count, length) = ctx.settings, ctx.sizes
        tensors = ctx.saved_tensors  # asked for once: torch.utils.checkpoint gives them only once
        cut = count if self.reads is None else len(self.reads)
        operands = _place(tensors[:cut], self.reads, count)
        results = _place(tensors[cut:], self.keeps, length)
        cotangents = gradients[: len(ctx.blank)]
        pulled: Sequence[Tensor | None]
        if torch.compiler.is_compiling():
            # A Function inside a Function's backward is more than torch.compile can trace.
            needed = [self._has_gradient(i, operands, results) for i in range(count)]
            whole = _filled(cotangents, ctx.blank, tensors)
            arguments = (list(operands), list(results), whole, needed)
            pulled = self.adjoint_op(*settings, *arguments)
        else:
            needed = list(ctx.needs_input_grad[3:])
            if torch.is_grad_enabled():
                sizes, whole = (count, length), _filled(cotangents, ctx.blank, tensors)
                pulled = _Adjoint.apply(
                    self.name, settings, needed, sizes, *operands, *results, *whole
                )
            else:
                pulled = self.run_back(settings, operands, results, cotangents, needed, ctx.blank)
        return None, None, None, *(g if n else None for g, n in zip(pulled, needed, strict=True))

    def pull_again(self, ctx: Any, gradients: tuple[Tensor | None, ...]) -> tuple:
        """The gradients of the arguments of the adjoint, from those of its results."""
        if _is_any_autocast_enabled():
            with autocast_off(next(x.device for x in ctx.saved_tensors if x is not None)):
                return self.pull_again(ctx, gradients)
        if self.second is None:
            advice = "" if self.advice is REVERSE else f"; {self.advice}"
            raise RuntimeError(f"{self.subject} first derivatives only{advice}")
        settings, second, (count, length) = ctx.settings, self.second, ctx.sizes
        tensors = ctx.saved_tensors
        operands, cotangents = list(tensors[:count]), tensors[count + length :]
        places = [i for i, needed in enumerate(ctx.needed) if needed]

        def run(*values: Tensor) -> tuple[Tensor, ...]:
            merged = list(operands)
            for i, x in zip(places, values, strict=True):
                merged[i] = x
            return tuple(second(*settings, merged))

        def pullback(*given: Tensor) -> tuple[Tensor, ...]:
            return torch.func.vjp(run, *given[: len(places)])[1](given[len(places) :])

        given = [operands[i] for i in places]
        pairs = ((gradients[i], operands[i]) for i in places)
        seen = tuple(torch.zeros_like(x) if g is None else g for g, x in pairs)
        pulled = torch.func.vjp(pullback, *given, *cotangents)[1](seen)
        in_operands: list[Tensor | None] = [None] * count
        for i, g in zip(places, pulled[: len(places)], strict=True):
            in_operands[i] = g
        return None, None, None, None, *in_operands, *[None] * length, *pulled[len(places) :]

    def mapped(self, function: Any, info: Any, in_dims: tuple, args: tuple) -> tuple[Any, Any]:
        """torch.vmap of one of its Functions: along a leading axis, or by a loop."""
        pairs = list(zip(args, in_dims, strict=True))
        if self.leading:
            moved = (_lead(x, axis, info.batch_size) for x, axis in pairs)
            outputs = function.apply(*moved)
            return outputs, tuple(0 for _ in outputs)
        rows = [
            function.apply(
                *(x.select(axis, i) if isinstance(axis, int) else x for x, axis in pairs)
            )
            for i in range(info.batch_size)
        ]
        return tuple(torch.stack(column) for column in zip(*rows, strict=True)), (0,) * len(rows[0])

    def blank_gradients(
        self, operands: Operands, results: Operands, cotangents: list[Tensor], needed: list[bool]
    ) -> list[Tensor]:
        """The shapes of the gradients: empty where none is needed."""
        blanks = []
        for i, n in enumerate(needed):
            like = self._like(i, operands, results)
            blanks.append(cotangents[0].new_empty(0) if like is None or not n else _blank(like))
        return blanks

    def _like(self, place: int, operands: Operands, results: Operands) -> Tensor | None:
        """A tensor of the shape of an operand's gradient."""
        return results[self.twins[place]] if place in self.twins else operands[place]

    def _has_gradient(self, place: int, operands: Operands, results: Operands) -> bool:
        x = self._like(place, operands, results)
        return x is not None and (x.is_floating_point() or x.is_complex())


def _registered(operator: Operator) -> tuple[Any, Any]:
    """The operator and its adjoint, as torch calls them."""
    name, opaque = operator.name, ", ".join(filter(None, [operator.schema, "Tensor?[] operands"]))
    saved = "Tensor?[] results, Tensor[] cotangents, bool[] needed"

    def run(*args: Any) -> list[Tensor]:
        with plain_torch():
            return list(operator.forward(*args))

    def run_back(*args: Any) -> list[Tensor]:
        cotangents, needed = args[-2:]
        with plain_torch():
            pairs = zip(operator.backward(*args), needed, strict=True)
            blank = cotangents[0].new_empty
            return [g.contiguous() if n and g is not None else blank(0) for g, n in pairs]

    schemas = {
        name: f"({opaque}) -> Tensor[]",
        f"{name}_adjoint": f"({opaque}, {saved}) -> Tensor[]",
    }
    shapes = operator.shapes
    blank = (
        None if shapes is None else lambda *args: list(shapes(*args)),
        lambda *a: operator.blank_gradients(*a[-4:]),
    )
    counts = (operator.flops, lambda *args: 2 * operator.flops(*args[:-3]))
    made = []
    for (suffix, schema), function, fake, count in zip(
        schemas.items(), (run, run_back), blank, counts, strict=True
    ):
        defined = torch.library.custom_op(
            f"slicekit::{suffix}", function, mutates_args=(), schema=schema
        )
        if fake is not None:
            defined.register_fake(fake)
        packet = getattr(torch.ops.slicekit, suffix)
        defined.register_vmap(partial(_by_loop, packet.default))
        register_flop_formula(packet)(lambda *args, count=count, **_: count(*args))
        made.append(packet.default)
    return made[0], made[1]


_made: dict[str, Operator] = {}
"""By name: torch.compile follows a name into a Function, but no object."""


class _Taped(torch.autograd.Function):
    """An operator on the tape, where nothing but autograd is at work."""

    @staticmethod
    def forward(ctx: Any, name: str, settings: tuple, held: Any, *operands: Any) -> Any:
        operator = _made[name]
        results = tuple(operator.run(settings, operands))
        operator.save(ctx, name, settings, held, operands, results)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _made[ctx.name].pull(ctx, gradients)


class _Transformed(torch.autograd.Function):
    """An operator as torch.func and torch.compile see it."""

    @staticmethod
    def forward(name: str, settings: tuple, held: Any, *operands: Any) -> Any:
        return tuple(_made[name].op(*settings, list(operands)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        name, settings, held, *operands = inputs
        _made[name].save(ctx, name, settings, held, operands, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _made[ctx.name].pull(ctx, gradients)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        return _made[args[0]].mapped(_Transformed, info, in_dims, args)


class _Adjoint(torch.autograd.Function):
    """The backward pass as a Function of its own, for second derivatives or their refusal."""

    @staticmethod
    def forward(
        name: str, settings: tuple, needed: list, sizes: tuple[int, int], *tensors: Any
    ) -> Any:
        count, length = sizes
        operands, results = list(tensors[:count]), list(tensors[count : count + length])
        cotangents = list(tensors[count + length :])
        tensors = (operands, results, cotangents)
        return tuple(_made[name].adjoint_op(*_keys(settings), *tensors, needed))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.name, ctx.settings, ctx.needed, ctx.sizes, *tensors = inputs
        if _made[ctx.name].second is not None:
            ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _made[ctx.name].pull_again(ctx, gradients)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        return _made[args[0]].mapped(_Adjoint, info, in_dims, args)


def _by_loop(op: Any, info: Any, in_dims: tuple, *args: Any) -> tuple[Any, Any]:
    """torch.vmap of an operator itself, which only torch.compile calls under it."""

    def row(i: int) -> list[Tensor]:
        def pick(x: Any, axis: Any) -> Any:
            return x.select(axis, i) if isinstance(x, Tensor) and axis is not None else x

        return op(
            *(
                [pick(y, a) for y, a in zip(x, axes, strict=True)] if isinstance(axes, list) else x
                for x, axes in zip(args, in_dims, strict=True)
            )
        )

    columns = zip(*map(row, range(info.batch_size)), strict=True)
    stacked = [torch.stack(column) for column in columns]
    return stacked, [0] * len(stacked)


def _keys(settings: tuple) -> tuple:
    """Settings as torch takes them."""
    return tuple(getattr(x, "key", x) for x in settings)


def _on_tape(operands: Operands) -> bool:
    return any(x is not None and x.requires_grad for x in operands)


def unseen() -> bool:
    """Whether nothing but autograd looks on, or autocast, which `at_once` switches off."""
    return not (torch.compiler.is_compiling() or surrounded() or NOTES.get() is not None)


PLAIN = (Tensor, Parameter)
"""Types of tensors that nobody has made their own."""


def _undisturbed(tensors: Operands) -> bool:
    """Whether a function may be called as it stands: plain tensors with data, and no onlookers."""
    if torch._C._len_torch_dispatch_stack() or _is_any_autocast_enabled() or _get_tracing_state():
        return False
    return all(x is None or (type(x) in PLAIN and not x.is_meta) for x in tensors)


def _filled(cotangents: Operands, blank: list[tuple], others: Operands) -> list[Tensor]:
    """Cotangents, with zeros for those that are missing."""
    like = next(x for x in (*cotangents, *others) if x is not None)
    return [
        like.new_zeros(shape, dtype=dtype) if g is None else g
        for g, (shape, dtype) in zip(cotangents, blank, strict=True)
    ]


def _pick(tensors: Operands, places: tuple[int, ...] | None) -> Operands:
    return tensors if places is None else [tensors[i] for i in places]


def _place(tensors: Operands, places: tuple[int, ...] | None, count: int) -> Operands:
    """Back at their places, with None at all others."""
    if places is None:
        return tensors
    placed: list[Tensor | None] = [None] * count
    for i, x in zip(places, tensors, strict=True):
        placed[i] = x
    return placed


def _lead(x: Any, axis: Any, size: int) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.movedim(axis, 0) if isinstance(axis, int) else x.expand(size, *x.shape)


def _blank(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
