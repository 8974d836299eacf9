"""Models that were trained elsewhere. `from_torch_slices` reads those of torch-slices 0.3.3.

Glossary (the name in torch-slices: the name here), with input + 1 channels, of which time is first:
    StackedSLiCE, SLiCELayer, SLiCE: `SequenceModel`, `Block`, `SLiCE`
    embedding, layers, linear: embedding, blocks, heads
    slice, token_mlp: mixer, feedforward
    norm1, norm2: norm_before_mixer, norm_before_feedforward; with prenorm=False norm_after_...
    vf_A.weight (hidden * block, channels): A.blocks (channels, hidden / block, block, block), or
        with block_size=1 A.values (channels, hidden)
    vf_A_diag.weight, vf_A_dense.weight: A.part0_values, A.part1_blocks
    vf_B.weight (hidden, channels): B
    init (hidden,): start.state; init.weight, init.bias: start.weight, start.bias
    path_mode "values": `Differences(times=1.0, origin=True)`; "increments": `TimeAndInput`
    transition_mode "euler": `Euler()`; "matrix_exp": `Exponential()`
"""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from slicekit.checks import check_finite, check_floating, check_positive
from slicekit.flows import Euler, Exponential
from slicekit.layers import (
    Block,
    Differences,
    FeedForward,
    FirstInput,
    LayerNorm,
    Learned,
    RMSNorm,
    SequenceModel,
    SLiCE,
    TimeAndInput,
    Wiring,
)
from slicekit.structures import BlockDiagonal, Dense, Diagonal, DiagonalDense, Structure

Tensors = dict[str, Tensor]
Options = dict[str, Any]

UNSEEN: Options = {
    "scale": 1.0,
    "path_mode": "values",
    "transition_mode": "euler",
    "dropout_rate": 0.01,
    "prenorm": True,
    "ff_activation": "gelu",
    "dropout_position": "residual",
    "norm_eps": 1e-6,
}
"""What no tensor tells (of ff_activation, only whether it is glu), with the defaults there."""

_SHARED = {"bias", "block_size", "diagonal_dense", "input_dependent_init"}
_SHARED |= {"scale", "path_mode", "transition_mode", "init_std", "use_parallel", "chunk_size"}
_WRAPPED = _SHARED | {"norm_type", "second_norm", "ff_style", "ff_mult"} | UNSEEN.keys()
OPTIONS: dict[str, set[str]] = {
    "SLiCE": _SHARED | {"input_dim", "hidden_dim"},
    "SLiCELayer": _WRAPPED | {"input_dim"},
    "StackedSLiCE": _WRAPPED | {"num_layers", "data_dim", "hidden_dim", "label_dim", "tokens"},
}
"""The constructors' arguments in torch-slices, by class."""

_CHOICES = {
    "path_mode": ("values", "increments"),
    "transition_mode": ("euler", "matrix_exp"),
    "prenorm": (True, False),
    "ff_activation": ("gelu", "glu", "tanh"),
    "dropout_position": ("residual", "output"),
}
_ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "glu": nn.GLU, "tanh": nn.Tanh}


def from_torch_slices(
    checkpoint: Mapping[str, Tensor] | nn.Module | str | os.PathLike[str], **options: Any
) -> SLiCE | Block | SequenceModel:
    """A model of torch-slices 0.3.3 as a slicekit model with the same outputs.

    Args:
        checkpoint: a state_dict; or the `SLiCE`, `SLiCELayer` or `StackedSLiCE` itself, which also
            tells its options; or the path of a state_dict in a .safetensors file or one that
            `torch.save` wrote. Its keys tell which of the three classes it is.
        options: arguments of that class's constructor, under their names there. Only those that no
            tensor tells are needed, where they are not the default there: scale=1.0,
            path_mode="values", transition_mode="euler", dropout_rate=0.01, prenorm=True,
            ff_activation="gelu", dropout_position="residual", norm_eps=1e-6. The others, such as
            block_size, are taken from the tensors, and checked if given; init_std, use_parallel and
            chunk_size do not change what a trained model computes, and are not looked at.

    Returns:
        `SLiCE`, `Block` or `SequenceModel` in evaluation mode, with copies of the tensors in their
        dtype and on their device.

    Raises:
        TypeError: for options that the class does not have, and for a checkpoint that is neither a
            module of torch-slices nor floating tensors by name.
        ValueError: if an option contradicts the checkpoint or can't be honoured; if tensors are
            missing, left over or of the wrong shape; if a file is damaged.
        FileNotFoundError: if there is no such file.

    Example:
        >>> weights = {"init": torch.ones(4), "vf_A.weight": torch.zeros(4 * 2, 3 + 1)}
        >>> layer = from_torch_slices(weights, transition_mode="matrix_exp")
        >>> layer.structure, layer.flow
        (BlockDiagonal(dim=4, block=2, blocks=None, scale=1.0), Exponential(substeps=None))
        >>> from_torch_slices(weights, block_size=4)
        Traceback (most recent call last):
        ValueError: block_size=4, but the tensors say 2
    """
    tensors = _read(checkpoint)
    kind = _kind(tensors)
    unknown = sorted(options.keys() - OPTIONS[kind])
    if unknown:
        raise TypeError(f"{', '.join(unknown)}: no option of {kind} in torch-slices")
    tell, build, name = {
        "SLiCE": (_tell_slice, _slice, _slice_names),
        "SLiCELayer": (_tell_layer, _block, _block_names),
        "StackedSLiCE": (_tell_stacked, _model, _model_names),
    }[kind]
    told = tell(_Shapes(tensors))
    unseen = _unseen(kind, checkpoint) if isinstance(checkpoint, nn.Module) else {}
    settings = _settle(told, unseen, options)
    # On the meta device nothing is initialised in vain, and no random numbers are drawn.
    with torch.device("meta"):
        model = build(settings)
    model.load_state_dict(_renamed(tensors, name(settings), model), assign=True)
    return model.eval()


def _read(checkpoint: Any) -> Tensors:
    """The tensors by name."""
    if isinstance(checkpoint, nn.Module):
        if not any(cls.__name__ in OPTIONS for cls in type(checkpoint).__mro__):
            raise TypeError(
                f"checkpoint is a {type(checkpoint).__name__}; expected one of torch-slices' "
                f"{', '.join(OPTIONS)}"
            )
        checkpoint = checkpoint.state_dict()
    elif isinstance(checkpoint, str | os.PathLike):
        checkpoint = _read_file(Path(checkpoint))
    if not isinstance(checkpoint, Mapping):
        raise TypeError(
            f"checkpoint is a {type(checkpoint).__name__}; expected a state_dict, a module of "
            "torch-slices, or a path"
        )
    for name, x in checkpoint.items():
        check_floating(f"checkpoint[{name!r}]", x)
    return dict(checkpoint)


def _read_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # on damaged bytes torch's reader fails in many ways
        raise ValueError(
            f"{path} can't be read: it is damaged, or holds more than the tensors of a state_dict"
        ) from error


def _kind(tensors: Tensors) -> str:
    """Which class of torch-slices the names belong to."""
    for kind, prefix in (("StackedSLiCE", "layers."), ("SLiCELayer", "slice."), ("SLiCE", "vf_A")):
        if any(name.startswith(prefix) for name in tensors):
            return kind
    shown = ", ".join(list(tensors)[:5]) or "nothing"
    raise ValueError(
        "checkpoint is none of torch-slices: no name begins with layers., slice. or vf_A; it "
        f"holds {shown}{', ...' if len(tensors) > 5 else ''}"
    )


class _Shapes:
    """The shapes of the tensors under a prefix, by the rest of their names."""

    def __init__(self, tensors: Tensors, prefix: str = "") -> None:
        self.tensors, self.prefix = tensors, prefix

    def under(self, prefix: str) -> "_Shapes":
        return _Shapes(self.tensors, self.prefix + prefix)

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.tensors

    def sizes(self, name: str, axes: int) -> tuple[int, ...]:
        full = self.prefix + name
        if full not in self.tensors:
            raise ValueError(f"checkpoint has no {full}")
        shape = tuple(self.tensors[full].shape)
        if len(shape) != axes or 0 in shape:
            raise ValueError(f"{full} has shape {shape}; expected {axes} axes, none of them empty")
        return shape

    def numbers(self, pattern: str) -> list[int]:
        """The numbers that the pattern's group catches in names."""
        return sorted({int(match[1]) for x in self.tensors if (match := re.match(pattern, x))})


def _tell_slice(shapes: _Shapes) -> Options:
    dependent = "init.weight" in shapes
    split = "vf_A_diag.weight" in shapes or "vf_A_dense.weight" in shapes
    hidden = shapes.sizes("init.weight", 2)[0] if dependent else shapes.sizes("init", 1)[0]
    name = "vf_A_dense.weight" if split else "vf_A.weight"
    rows, channels = shapes.sizes(name, 2)
    if split:
        block = math.isqrt(rows)
        fits = block**2 == rows and block + shapes.sizes("vf_A_diag.weight", 2)[0] == hidden
    else:
        block = rows // hidden
        fits = block > 0 and block * hidden == rows and hidden % block == 0
    if not fits or channels < 2:
        raise ValueError(
            f"{shapes.prefix}{name} has shape {(rows, channels)}, which fits no block_size and "
            f"input_dim for a state of size {hidden}"
        )
    return {
        "input_dim": channels - 1,
        "hidden_dim": hidden,
        "bias": "vf_B.weight" in shapes,
        "block_size": block,
        "diagonal_dense": split,
        "input_dependent_init": dependent,
    }


def _tell_layer(shapes: _Shapes) -> Options:
    told = _tell_slice(shapes.under("slice."))
    width = told["hidden_dim"]
    back = "token_mlp.2.weight" in shapes
    inner = shapes.sizes("token_mlp.2.weight", 2)[1] if back else width
    told |= {
        "input_dim": width,
        "norm_type": "layernorm" if "norm1.bias" in shapes else "rmsnorm",
        "second_norm": "norm2.weight" in shapes,
        "ff_style": "mlp" if back else "single",
        "ff_mult": max(inner // width, 1),
    }
    gated = shapes.sizes("token_mlp.0.weight", 2)[0] == 2 * inner
    return told | ({"ff_activation": "glu"} if gated else {})


def _tell_stacked(shapes: _Shapes) -> Options:
    layers = shapes.numbers(r"layers\.(\d+)\.")
    told = _agreed({f"layers.{i}": _tell_layer(shapes.under(f"layers.{i}.")) for i in layers})
    tokens = "embedding.bias" not in shapes
    heads = shapes.numbers(r"linear\.(\d+)\.")
    sizes = tuple(shapes.sizes(f"linear.{i}.weight", 2)[0] for i in heads)
    return told | {
        "num_layers": layers[-1] + 1,
        "data_dim": shapes.sizes("embedding.weight", 2)[0 if tokens else 1],
        "label_dim": sizes or shapes.sizes("linear.weight", 2)[0],
        "tokens": tokens,
    }


def _agreed(layers: dict[str, Options]) -> Options:
    """What all layers say."""
    (first, told), *others = layers.items()
    for layer, said in others:
        for name in told.keys() | said.keys():
            if told.get(name) != said.get(name):
                raise ValueError(
                    f"{layer} has {name}={said.get(name)!r}, but {first} has {told.get(name)!r}; "
                    "expected the same in all layers"
                )
    return told


def _unseen(kind: str, module: Any) -> Options:
    """The options that a module tells and its tensors do not."""
    if kind == "SLiCE":
        return {name: getattr(module, name) for name in ("scale", "path_mode", "transition_mode")}
    if kind == "StackedSLiCE":
        layers = {f"layers.{i}": _unseen("SLiCELayer", x) for i, x in enumerate(module.layers)}
        return _agreed(layers)
    options = {
        name: getattr(module, name) for name in ("prenorm", "ff_activation", "dropout_position")
    }
    options |= {"dropout_rate": module.drop.p, "norm_eps": module.norm1.eps}
    return options | _unseen("SLiCE", module.slice)


def _settle(told: Options, unseen: Options, options: Options) -> Options:
    """All settings: what the checkpoint says, and the options where it says nothing."""
    given = dict(options)
    if given.get("hidden_dim", 0) is None:
        given["hidden_dim"] = told["input_dim"]
    if given.get("diagonal_dense") and told["block_size"] in (1, told["hidden_dim"]):
        del given["diagonal_dense"]  # torch-slices drops it there too
    for says, known in (("tensors say", told), ("module says", unseen)):
        for name in (x for x in given if x in known):
            if given[name] != known[name]:
                raise ValueError(f"{name}={given[name]!r}, but the {says} {known[name]!r}")
    settings = UNSEEN | given | unseen | told
    if settings["ff_activation"] == "glu" and "ff_activation" not in told:
        raise ValueError("ff_activation='glu', but the tensors say 'gelu' or 'tanh'")
    _check(settings)
    return settings


def _check(settings: Options) -> None:
    for name, choices in _CHOICES.items():
        if settings[name] not in choices:
            allowed = ", ".join(repr(x) for x in choices)
            raise ValueError(f"{name}={settings[name]!r}; expected one of {allowed}")
    check_positive("scale", settings["scale"])
    for name in ("dropout_rate", "norm_eps"):
        check_finite(name, settings[name])
    if not 0 <= settings["dropout_rate"] < 1:
        raise ValueError(f"dropout_rate={settings['dropout_rate']}; expected it in [0, 1)")


def _structure(settings: Options) -> Structure:
    dim, block = settings["hidden_dim"], settings["block_size"]
    if settings["diagonal_dense"]:
        return DiagonalDense(dim, block)
    if block == 1:
        return Diagonal(dim)
    return Dense(dim) if block == dim else BlockDiagonal(dim, block)


def _slice(settings: Options) -> SLiCE:
    values, scale = settings["path_mode"] == "values", float(settings["scale"])
    return SLiCE(
        settings["input_dim"],
        _structure(settings),
        drive=Differences(1.0, origin=True, scale=scale) if values else TimeAndInput(scale),
        initial=FirstInput(drives=True) if settings["input_dependent_init"] else Learned(),
        flow=Euler() if settings["transition_mode"] == "euler" else Exponential(),
        affine=settings["bias"],
    )


def _block(settings: Options) -> Block:
    before, second = settings["prenorm"], settings["second_norm"]
    norm = LayerNorm if settings["norm_type"] == "layernorm" else RMSNorm
    activation, back = _ACTIVATIONS[settings["ff_activation"]], settings["ff_style"] == "mlp"
    wiring = Wiring(
        norm=norm(float(settings["norm_eps"])),
        before_mixer=before,
        after_mixer=not before,
        before_feedforward=before and second,
        after_feedforward=not before and second,
        feedforward=FeedForward(activation, settings["ff_mult"], back),
        drop_branches=settings["dropout_position"] == "residual",
    )
    return Block(_slice(settings), settings["hidden_dim"], wiring, float(settings["dropout_rate"]))


def _model(settings: Options) -> SequenceModel:
    return SequenceModel(
        vocabulary=settings["data_dim"] if settings["tokens"] else None,
        channels=None if settings["tokens"] else settings["data_dim"],
        outputs=settings["label_dim"],
        width=settings["hidden_dim"],
        blocks=[_block(settings) for _ in range(settings["num_layers"])],
        final_norm=False,
    )


def _slice_names(settings: Options) -> dict[str, str]:
    if settings["diagonal_dense"]:
        names = {"vf_A_diag.weight": "A.part0_values", "vf_A_dense.weight": "A.part1_blocks"}
    else:
        names = {"vf_A.weight": "A.values" if settings["block_size"] == 1 else "A.blocks"}
    if settings["bias"]:
        names["vf_B.weight"] = "B"
    if settings["input_dependent_init"]:
        return names | _affine("init", "start")
    return names | {"init": "start.state"}


def _block_names(settings: Options) -> dict[str, str]:
    names = {f"slice.{a}": f"mixer.{b}" for a, b in _slice_names(settings).items()}
    place = "before" if settings["prenorm"] else "after"
    shift = settings["norm_type"] == "layernorm"
    names |= _affine("norm1", f"norm_{place}_mixer", bias=shift)
    if settings["second_norm"]:
        names |= _affine("norm2", f"norm_{place}_feedforward", bias=shift)
    for i in (0, 2) if settings["ff_style"] == "mlp" else (0,):
        names |= _affine(f"token_mlp.{i}", f"feedforward.{i}")
    return names


def _model_names(settings: Options) -> dict[str, str]:
    names = _affine("embedding", "embedding", bias=not settings["tokens"])
    of_block = _block_names(settings)
    for i in range(settings["num_layers"]):
        names |= {f"layers.{i}.{a}": f"blocks.{i}.{b}" for a, b in of_block.items()}
    if not isinstance(settings["label_dim"], tuple):
        return names | _affine("linear", "heads.0")
    for i in range(len(settings["label_dim"])):
        names |= _affine(f"linear.{i}", f"heads.{i}")
    return names


def _affine(theirs: str, ours: str, bias: bool = True) -> dict[str, str]:
    kinds = ("weight", "bias") if bias else ("weight",)
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in kinds}


def _renamed(tensors: Tensors, names: dict[str, str], model: nn.Module) -> Tensors:
    """Copies under our names and in our shapes: every tensor and every parameter, once."""
    missing, over = sorted(names.keys() - tensors.keys()), sorted(tensors.keys() - names.keys())
    if missing or over:
        raise ValueError(
            f"the checkpoint is no whole model of torch-slices; missing: "
            f"{', '.join(missing) or 'nothing'}; left over: {', '.join(over) or 'nothing'}"
        )
    present, renamed = model.state_dict(), {}
    for theirs, ours in names.items():
        shape, x = present[ours].shape, tensors[theirs].detach()
        # Theirs is a linear map from the increment to the matrices, ours a matrix for each channel.
        transposed = ours.split(".")[-2:-1] == ["A"]
        expected = (shape[1:].numel(), shape[0]) if transposed else tuple(shape)
        if tuple(x.shape) != expected:
            raise ValueError(f"{theirs} has shape {tuple(x.shape)}; expected {expected}")
        x = x.t().reshape(shape) if transposed else x
        renamed[ours] = x.clone(memory_format=torch.contiguous_format)
    return renamed
