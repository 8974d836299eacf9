"""A device that is not there, but for its rules: tensors of it may not meet those of the CPU.

Its tensors hold their numbers on the CPU, so that whole programs run, with branches and all. Every
operation is first tried on fake tensors, which know where each tensor is and raise as the true
device would; what they say about the place of the result must then be what happens. C++ is told
that the tensors are on the meta device, whose autograd needs no hardware; Python sees the name.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from slicekit import devices, dispatch

STANDIN = torch.device("meta")
MISSING = {"mps": (torch.float64, torch.complex128)}
"""Dtypes that a kind of device does not have."""
KNOWN: dict[Any, torch.device] = {}
"""Where the results of operations are, by all that it depends on."""


class Pretended(torch.Tensor):
    """A tensor on a device that is not there."""

    numbers: Tensor
    place: torch.device

    @staticmethod
    def __new__(cls, numbers: Tensor, place: torch.device) -> "Pretended":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            layout=numbers.layout,
            device=STANDIN,
            requires_grad=False,
        )

    def __init__(self, numbers: Tensor, place: torch.device) -> None:
        self.numbers, self.place = numbers, place

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place

    is_meta: Any = property(lambda self: False)  # pyright: ignore[reportAssignmentType]
    is_cpu: Any = property(lambda self: False)  # pyright: ignore[reportAssignmentType]
    is_cuda: Any = property(lambda self: self.place.type == "cuda")  # pyright: ignore

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Pretended({self.numbers!r}, {self.place})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **options: Any) -> Any:
        raise TypeError(f"can't convert {self.place} device type tensor to numpy")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was called outside of the pretended device")


class _Operations(TorchDispatchMode):
    """Runs operations on the CPU, and says on which device their results are."""

    def __init__(self, place: torch.device) -> None:
        super().__init__()
        self._place, self._fakes = place, FakeTensorMode(allow_non_fake_inputs=False)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "slicekit":  # the body of an operator is ours to walk, too
            with self, _Names(self._place):
                return OPDEFS[func._schema.name]._init_fn(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        held = {id(x.numbers): x for x in leaves if isinstance(x, Pretended)}
        if not held and not any(_is_standin(x) for x in leaves):
            return func(*args, **kwargs)
        place = self._place_of_result(func, args, kwargs, leaves)
        plain_args, plain_kwargs = tree_map(_numbers, (args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        if place.type == "cpu":
            return result
        return tree_map(lambda x: self._placed(x, held) if isinstance(x, Tensor) else x, result)

    def _place_of_result(
        self, func: Any, args: Any, kwargs: Any, leaves: list[Any]
    ) -> torch.device:
        """As fake tensors say, who only look at the operation, the places, and who is a scalar."""
        kinds = [(x.device, x.ndim == 0) for x in leaves if isinstance(x, Tensor)]
        asked = tuple(x for x in leaves if isinstance(x, torch.device))
        key = (self._place, func, tuple(kinds), asked)
        if key not in KNOWN:
            KNOWN[key] = self._asked(func, args, kwargs, {place for place, _ in kinds})
        return KNOWN[key]

    def _asked(self, func: Any, args: Any, kwargs: Any, places: set[torch.device]) -> torch.device:
        try:
            with torch.no_grad(), self._fakes:
                fake_args, fake_kwargs = tree_map(self._fake, (args, kwargs))
                found = {
                    x.device
                    for x in tree_leaves(func(*fake_args, **fake_kwargs))
                    if isinstance(x, Tensor)
                }
            return found.pop() if len(found) == 1 else self._place
        except (DataDependentOutputException, DynamicOutputShapeException):
            pass
        except RuntimeError as error:
            if "not linked with support" not in str(error):
                raise
        # Fake tensors can't tell without numbers, or hardware: all have to be in one place.
        assert len(places) == 1, f"{func} on {places}"
        return self._place

    def _fake(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
        return self._place if _is_standin(x) else x

    def _placed(self, x: Tensor, held: dict[int, Pretended]) -> Pretended:
        if id(x) in held:
            return held[id(x)]
        if x.dtype in MISSING.get(self._place.type, ()):
            raise TypeError(f"{self._place} has no {x.dtype}")
        x = x.resolve_conj() if x.is_conj() else x
        return Pretended(x.resolve_neg() if x.is_neg() else x, self._place)


def _is_standin(x: Any) -> bool:
    return isinstance(x, torch.device) and x.type == STANDIN.type


def _numbers(x: Any) -> Any:
    if isinstance(x, Pretended):
        return x.numbers
    return torch.device("cpu") if _is_standin(x) else x


class _Names(TorchFunctionMode):
    """Says meta to C++ where Python said the name of the device."""

    def __init__(self, place: torch.device) -> None:
        super().__init__()
        self._place = place

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.device, torch.get_device_module):
            return func(*args, **kwargs)
        if func is torch.Tensor.new_tensor:
            like, *args = args
            func, kwargs = torch.tensor, {"dtype": like.dtype, "device": like.device} | kwargs
        if func in (torch.tensor, torch.as_tensor) and self._name(kwargs.get("device")) is STANDIN:
            # These would make a tensor without asking anyone.
            held = (
                args[0]
                if isinstance(args[0], Tensor)
                else func(*args, **kwargs | {"device": "cpu"})
            )
            return held.to(STANDIN)
        args, kwargs = tree_map(self._name, (args, kwargs))
        return func(*args, **kwargs)

    def _name(self, x: Any) -> Any:
        kind = self._place.type
        named = isinstance(x, str) and x.split(":")[0] == kind
        return STANDIN if named or (isinstance(x, torch.device) and x.type == kind) else x


@contextmanager
def pretended(kind: str) -> Iterator[torch.device]:
    """A device of a kind, as long as the context lasts."""
    place = torch.device(kind, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "how_many", lambda name: int(name in ("cpu", kind)))
        patch.setattr(torch, "inference_mode", torch.no_grad)  # which tensors of Python's can't
        module = torch.get_device_module(kind)
        patch.setattr(module, "get_rng_state", lambda *_: torch.get_rng_state())
        patch.setattr(module, "set_rng_state", lambda state, *_: torch.set_rng_state(state))
        with _Operations(place), _Names(place):
            # Inside an operator of ours, too.
            patch.setattr(dispatch, "_INCLUDED", torch._C._dispatch_tls_local_include_set())
            yield place
