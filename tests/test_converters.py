"""Converted models against torch-slices itself: outputs, gradients, dropout, errors and files."""

import inspect
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import slicekit as sk
from slicekit.converters import OPTIONS, UNSEEN, from_torch_slices

slices = pytest.importorskip("slices")

BATCH, LENGTH, INPUTS, WIDTH = 3, 7, 3, 6
TOLERANCE = {torch.float64: 1e-10, torch.float32: 3e-5}
Options = dict[str, Any]

STRUCTURES: dict[str, Options] = {
    "diagonal": {"block_size": 1},
    "blocks": {"block_size": 2},
    "dense": {"block_size": WIDTH},
    "diagonal-dense": {"block_size": 4, "diagonal_dense": True},
    "diagonal-dense-without-dense": {"block_size": 1, "diagonal_dense": True},
    "diagonal-dense-without-diagonal": {"block_size": WIDTH, "diagonal_dense": True},
}
FEEDFORWARDS: list[Options] = [
    {"ff_style": style, "ff_activation": activation, "ff_mult": mult}
    for style, mult in [("mlp", 4), ("mlp", 1), ("single", 1)]
    for activation in ["gelu", "glu", "tanh"]
]
STACKS: dict[str, Options] = {
    "default": {},
    "continuous": {"tokens": False, "label_dim": 1},
    "heads": {"label_dim": (2, 3), "block_size": 1, "path_mode": "increments"},
    "one-head-of-a-list": {"label_dim": (4,), "tokens": False, "input_dependent_init": True},
    "paper": {
        "tokens": False,
        "block_size": WIDTH,
        "bias": False,
        "path_mode": "increments",
        "scale": 0.025,
        "norm_type": "layernorm",
        "prenorm": False,
        "ff_style": "single",
        "ff_activation": "tanh",
        "ff_mult": 1,
        "dropout_position": "output",
        "norm_eps": 1e-5,
    },
    "split-exponential": {
        "num_layers": 3,
        "scale": 0.3,
        "block_size": 4,
        "diagonal_dense": True,
        "transition_mode": "matrix_exp",
        "second_norm": False,
        "ff_activation": "glu",
        "dropout_rate": 0.3,
    },
}

dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


def trained(module: nn.Module, dtype: torch.dtype = torch.float64) -> Any:
    """The module with no parameter left as it was made: no norm is one, no bias is zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.to(dtype).eval()


def slice_of(**options: Any) -> Any:
    return slices.SLiCE(**{"input_dim": INPUTS, "hidden_dim": WIDTH, "block_size": 2} | options)


def layer_of(**options: Any) -> Any:
    return slices.SLiCELayer(**{"input_dim": WIDTH, "block_size": 2} | options)


def stack_of(**options: Any) -> Any:
    return slices.StackedSLiCE(**stack_options(options))


def stack_options(options: Options) -> Options:
    sizes = {"num_layers": 2, "data_dim": 5, "hidden_dim": WIDTH, "label_dim": 4, "block_size": 2}
    return sizes | options


def their_output(module: Any, x: Tensor) -> Any:
    """What torch-slices computes; its stack casts continuous input to float32, which is undone."""
    if not hasattr(module, "embedding") or module.tokens:
        return module(x)
    h = module.embedding(x)
    for layer in module.layers:
        h = layer(h)
    several = isinstance(module.linear, nn.ModuleList)
    return [head(h) for head in module.linear] if several else module.linear(h)


def input_of(module: Any, dtype: torch.dtype) -> Tensor:
    if getattr(module, "tokens", False):
        return torch.randint(5, (BATCH, LENGTH))
    size = 5 if hasattr(module, "embedding") else getattr(module, "slice", module).input_dim
    return torch.randn(BATCH, LENGTH, size, dtype=dtype)


def with_gradients(function: Callable[[Tensor], Any], module: nn.Module, x: Tensor) -> Any:
    """Outputs, and gradients of a fixed functional in the input and the parameters by name."""
    x = x.clone().requires_grad_(x.is_floating_point())
    outputs = function(x)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    source = torch.Generator().manual_seed(1)
    module.zero_grad()
    for y in outputs:
        (y * torch.randn(y.shape, generator=source).to(y.dtype)).sum().backward(retain_graph=True)
    gradients = {
        k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in module.named_parameters()
    }
    return [y.detach() for y in outputs], x.grad, gradients


def assert_near(got: Tensor, want: Tensor, tolerance: float, name: str) -> None:
    assert got.shape == want.shape, name
    error, size = (got - want).norm(), want.norm()
    assert error <= tolerance * (size + 1e-3), f"{name}: {error:.1e} of {size:.1e}"


def assert_same_function(module: Any, model: Any, dtype: torch.dtype, x: Tensor) -> None:
    tolerance = TOLERANCE[dtype]
    ours, in_x, in_ours = with_gradients(model, model, x)
    theirs, in_their_x, in_theirs = with_gradients(lambda x: their_output(module, x), module, x)
    assert len(ours) == len(theirs)
    for i, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        assert got.dtype == dtype
        assert_near(got, want, tolerance, f"output {i}")
    if in_x is not None:
        assert_near(in_x, in_their_x, tolerance, "gradient of x")
    # Conversion only permutes entries, so that it also converts gradients.
    unseen = {k: v for k, v in settings_of(module).items() if k in UNSEEN}
    expected = dict(from_torch_slices(in_theirs, **unseen).named_parameters())
    assert expected.keys() == in_ours.keys()
    for name, want in expected.items():
        assert_near(in_ours[name], want.detach(), tolerance, f"gradient of {name}")


def settings_of(module: Any) -> Options:
    """The options that no tensor tells, read off by hand."""
    layer = module.layers[0] if hasattr(module, "layers") else module
    inner = getattr(layer, "slice", layer)
    names = ("scale", "path_mode", "transition_mode")
    found = {name: getattr(inner, name) for name in names}
    if layer is inner:
        return found
    names = ("prenorm", "ff_activation", "dropout_position")
    found |= {name: getattr(layer, name) for name in names}
    return found | {"dropout_rate": layer.drop.p, "norm_eps": layer.norm1.eps}


@dtypes
@pytest.mark.parametrize("dependent", [False, True], ids=["learned", "first-input"])
@pytest.mark.parametrize("bias", [True, False], ids=["affine", "linear"])
@pytest.mark.parametrize("transition_mode", ["euler", "matrix_exp"])
@pytest.mark.parametrize("path_mode", ["values", "increments"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_slice_computes_the_same(
    structure: str,
    path_mode: str,
    transition_mode: str,
    bias: bool,
    dependent: bool,
    dtype: torch.dtype,
) -> None:
    options: Options = {"path_mode": path_mode, "transition_mode": transition_mode, "scale": 0.3}
    options |= {"bias": bias, "input_dependent_init": dependent} | STRUCTURES[structure]
    module = trained(slice_of(**options, use_parallel=False), dtype)
    model = from_torch_slices(module.state_dict(), **options)
    assert isinstance(model, sk.SLiCE)
    assert_same_function(module, model, dtype, input_of(module, dtype))


@dtypes
@pytest.mark.parametrize("feedforward", FEEDFORWARDS, ids=lambda x: "-".join(map(str, x.values())))
@pytest.mark.parametrize("dropout_position", ["residual", "output"])
@pytest.mark.parametrize(
    ("norm_type", "prenorm", "second_norm"),
    list(product(["rmsnorm", "layernorm"], [True, False], [True, False])),
)
def test_a_layer_computes_the_same_with_and_without_dropout(
    norm_type: str,
    prenorm: bool,
    second_norm: bool,
    dropout_position: str,
    feedforward: Options,
    dtype: torch.dtype,
) -> None:
    options: Options = {"norm_type": norm_type, "prenorm": prenorm, "second_norm": second_norm}
    options |= {"dropout_position": dropout_position, "dropout_rate": 0.4, "norm_eps": 0.01}
    options |= feedforward
    module = trained(layer_of(**options, use_parallel=False), dtype)
    model = from_torch_slices(module.state_dict(), **options)
    assert isinstance(model, sk.Block)
    x = input_of(module, dtype)
    assert_same_function(module, model, dtype, x)
    torch.manual_seed(2)
    ours = model.train()(x)
    torch.manual_seed(2)
    assert_near(ours, module.train()(x), TOLERANCE[dtype], "output with dropout")


@dtypes
@pytest.mark.parametrize("name", STACKS)
def test_a_stack_computes_the_same(name: str, dtype: torch.dtype) -> None:
    module = trained(stack_of(**STACKS[name]), dtype)
    model = from_torch_slices(module)
    assert isinstance(model, sk.SequenceModel)
    assert_same_function(module, model, dtype, input_of(module, dtype))
    several = isinstance(module.label_dim, tuple)
    assert isinstance(model(input_of(module, dtype)), list) == several


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "continuous"])
def test_a_stack_computes_the_same_by_its_own_forward(tokens: bool) -> None:
    module = trained(stack_of(tokens=tokens, chunk_size=4), torch.float32)
    x = input_of(module, torch.float32)
    assert_near(from_torch_slices(module)(x), module(x), 1e-5, "output")


def test_a_converted_stack_goes_element_by_element() -> None:
    module = trained(stack_of())
    model: Any = from_torch_slices(module)
    x, state = input_of(module, torch.float64), None
    for position, expected in enumerate(module(x).unbind(1)):
        y, state = model.step(x[:, position], state)
        assert_near(y, expected, 1e-10, f"output {position}")


@pytest.mark.parametrize("make", [slice_of, layer_of, stack_of])
def test_a_module_tells_what_its_tensors_do_not(make: Callable[..., Any]) -> None:
    options: Options = {"scale": 0.5, "path_mode": "increments", "transition_mode": "matrix_exp"}
    if make is not slice_of:
        options |= {"prenorm": False, "ff_activation": "tanh", "dropout_position": "output"}
        options |= {"dropout_rate": 0.25, "norm_eps": 0.1}
    module = trained(make(**options))
    model, same = from_torch_slices(module), from_torch_slices(module.state_dict(), **options)
    x = input_of(module, torch.float64)
    assert_near(model(x), their_output(module, x), 1e-10, "output")
    assert str(model) == str(same)
    again = from_torch_slices(module, **options)
    assert_near(again(x), model(x), 0.0, "output with the options given once more")
    with pytest.raises(ValueError, match=r"scale=2.0, but the module says 0.5"):
        from_torch_slices(module, scale=2.0)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_a_file_gives_the_same_as_its_tensors(name: str, ending: str, tmp_path: Path) -> None:
    module = trained(stack_of(**STACKS[name]))
    path = tmp_path / f"model{ending}"
    (torch.save if ending == ".pt" else save_file)(module.state_dict(), path)
    options, x = stack_options(STACKS[name]), input_of(module, torch.float64)
    expected = from_torch_slices(module.state_dict(), **options)(x)
    for given in (path, str(path)):
        found = from_torch_slices(given, **options)(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "options"),
    [(slice_of, x) for x in STRUCTURES.values()]
    + [(layer_of, x) for x in FEEDFORWARDS]
    + [(stack_of, x) for x in STACKS.values()],
)
def test_a_converted_model_is_saved_and_loaded(
    make: Callable[..., Any], options: Options, tmp_path: Path
) -> None:
    module = trained(make(**options))
    model = from_torch_slices(module)
    sk.save(model, tmp_path / "model.safetensors")
    loaded = sk.load(tmp_path / "model.safetensors")
    x = input_of(module, torch.float64)
    torch.testing.assert_close(loaded(x), model(x), rtol=0, atol=0)
    assert str(loaded) == str(model)


def test_a_converted_model_owns_its_parameters_and_draws_no_random_numbers() -> None:
    module = trained(stack_of())
    before = {k: x.clone() for k, x in module.state_dict().items()}
    random = torch.get_rng_state()
    model = from_torch_slices(module)
    assert torch.equal(random, torch.get_rng_state())
    assert not model.training
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.requires_grad and not parameter.is_meta
            parameter.zero_()
    for name, x in module.state_dict().items():
        assert torch.equal(x, before[name])


def test_parameter_counts_are_equal() -> None:
    for options in STACKS.values():
        module = stack_of(**options)
        ours = sum(p.numel() for p in from_torch_slices(module).parameters())
        assert ours == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_those_of_the_constructors(name: str) -> None:
    theirs = inspect.signature(getattr(slices, name)).parameters
    assert OPTIONS[name] == set(theirs)
    defaults = {k: v for k, v in UNSEEN.items() if k in theirs}
    assert defaults == {k: theirs[k].default for k in defaults}


def test_structures_drives_and_flows_are_the_matching_ones() -> None:
    expected = {
        "diagonal": sk.Diagonal(WIDTH),
        "blocks": sk.BlockDiagonal(WIDTH, 2),
        "dense": sk.Dense(WIDTH),
        "diagonal-dense": sk.DiagonalDense(WIDTH, 4),
        "diagonal-dense-without-dense": sk.Diagonal(WIDTH),
        "diagonal-dense-without-diagonal": sk.Dense(WIDTH),
    }
    for name, structure in expected.items():
        model: Any = from_torch_slices(slice_of(**STRUCTURES[name]))
        assert model.structure == structure
        assert (model.drive, model.flow) == (sk.Differences(1.0, origin=True), sk.Euler())
    model = from_torch_slices(slice_of(path_mode="increments", transition_mode="matrix_exp"))
    assert (model.drive, model.flow) == (sk.TimeAndInput(1.0), sk.Exponential())


@pytest.mark.parametrize(
    ("make", "wrong", "says"),
    [
        (slice_of, {"input_dim": 4}, "input_dim=4, but the tensors say 3"),
        (slice_of, {"hidden_dim": 8}, "hidden_dim=8, but the tensors say 6"),
        (slice_of, {"hidden_dim": None}, "hidden_dim=3, but the tensors say 6"),
        (slice_of, {"bias": False}, "bias=False, but the tensors say True"),
        (slice_of, {"block_size": 4}, "block_size=4, but the tensors say 2"),
        (slice_of, {"diagonal_dense": True}, "diagonal_dense=True, but the tensors say False"),
        (slice_of, {"input_dependent_init": True}, "init=True, but the tensors say False"),
        (layer_of, {"input_dim": 4}, "input_dim=4, but the tensors say 6"),
        (layer_of, {"norm_type": "layernorm"}, "norm_type='layernorm', but the tensors say 'rms"),
        (layer_of, {"second_norm": False}, "second_norm=False, but the tensors say True"),
        (layer_of, {"ff_style": "single"}, "ff_style='single', but the tensors say 'mlp'"),
        (layer_of, {"ff_activation": "glu"}, "'glu', but the tensors say 'gelu' or 'tanh'"),
        (layer_of, {"ff_mult": 2}, "ff_mult=2, but the tensors say 4"),
        (stack_of, {"num_layers": 3}, "num_layers=3, but the tensors say 2"),
        (stack_of, {"data_dim": 6}, "data_dim=6, but the tensors say 5"),
        (stack_of, {"hidden_dim": 5}, "hidden_dim=5, but the tensors say 6"),
        (stack_of, {"label_dim": (4,)}, "label_dim=(4,), but the tensors say 4"),
        (stack_of, {"tokens": False}, "tokens=False, but the tensors say True"),
        (slice_of, {"path_mode": "value"}, "path_mode='value'; expected one of 'values', 'incr"),
        (slice_of, {"transition_mode": "exp"}, "transition_mode='exp'; expected one of 'euler'"),
        (slice_of, {"scale": 0.0}, "scale=0.0; expected a positive number"),
        (layer_of, {"prenorm": "yes"}, "prenorm='yes'; expected one of True, False"),
        (layer_of, {"ff_activation": "relu"}, "ff_activation='relu'; expected one of 'gelu'"),
        (layer_of, {"dropout_position": "x"}, "dropout_position='x'; expected one of 'residual'"),
        (layer_of, {"dropout_rate": 1.0}, "dropout_rate=1.0; expected it in [0, 1)"),
        (layer_of, {"norm_eps": float("nan")}, "norm_eps=nan; expected a finite number"),
    ],
)
def test_an_option_that_contradicts_the_tensors_or_means_nothing_is_named(
    make: Callable[..., Any], wrong: Options, says: str
) -> None:
    with pytest.raises(ValueError) as caught:
        from_torch_slices(make().state_dict(), **wrong)
    assert says in str(caught.value)


def test_gated_tensors_contradict_another_activation() -> None:
    weights = layer_of(ff_activation="glu").state_dict()
    with pytest.raises(ValueError, match="ff_activation='gelu', but the tensors say 'glu'"):
        from_torch_slices(weights, ff_activation="gelu")


@pytest.mark.parametrize(
    ("make", "wrong", "says"),
    [
        (slice_of, {"blocksize": 4}, "blocksize: no option of SLiCE"),
        (slice_of, {"norm_eps": 1.0, "dropout": 0.1}, "dropout, norm_eps: no option of SLiCE"),
        (layer_of, {"hidden_dim": 6}, "hidden_dim: no option of SLiCELayer"),
        (stack_of, {"input_dim": 6}, "input_dim: no option of StackedSLiCE"),
    ],
)
def test_an_unknown_option_is_named(make: Callable[..., Any], wrong: Options, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        from_torch_slices(make().state_dict(), **wrong)


@pytest.mark.parametrize("make", [slice_of, layer_of, stack_of])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_tensor_may_be_missing(make: Callable[..., Any], structure: str) -> None:
    options: Options = {"input_dependent_init": True} | STRUCTURES[structure]
    if make is not slice_of:
        options["norm_type"] = "layernorm"
    if make is stack_of:
        options |= {"tokens": False}
    weights = make(**options).state_dict()
    told = stack_options(options) if make is stack_of else options
    for name in weights:
        rest = {k: x for k, x in weights.items() if k != name}
        with pytest.raises(ValueError):
            from_torch_slices(rest, **told, bias=True)


@pytest.mark.parametrize(
    "name", ["layers.0.norm1.weight", "linear.bias", "layers.1.token_mlp.2.bias"]
)
def test_a_missing_tensor_is_named(name: str) -> None:
    weights = stack_of().state_dict()
    del weights[name]
    with pytest.raises(ValueError, match=f"missing: {name}; left over: nothing"):
        from_torch_slices(weights)


@pytest.mark.parametrize("name", ["init", "vf_A.weight"])
def test_a_missing_tensor_that_tells_sizes_is_named(name: str) -> None:
    weights = stack_of().state_dict()
    del weights[f"layers.1.slice.{name}"]
    with pytest.raises(ValueError, match=f"checkpoint has no layers.1.slice.{name}"):
        from_torch_slices(weights)


def test_a_tensor_that_is_left_over_is_named() -> None:
    weights = stack_of().state_dict() | {"layers.0.gate": torch.ones(2), "mean": torch.ones(2)}
    with pytest.raises(ValueError, match=r"missing: nothing; left over: layers.0.gate, mean"):
        from_torch_slices(weights)


def test_layers_that_differ_are_named() -> None:
    weights = stack_of().state_dict()
    del weights["layers.1.slice.vf_B.weight"]
    with pytest.raises(ValueError, match=r"layers.1 has bias=False, but layers.0 has True"):
        from_torch_slices(weights)
    module = stack_of()
    module.layers[1].slice.scale = 2.0
    with pytest.raises(ValueError, match=r"layers.1 has scale=2.0, but layers.0 has 1.0"):
        from_torch_slices(module)


@pytest.mark.parametrize(
    ("make", "name", "shape", "says"),
    [
        (slice_of, "vf_A.weight", (13, 4), "vf_A.weight has shape (13, 4), which fits no block"),
        (slice_of, "vf_A.weight", (24, 4), "vf_A.weight has shape (24, 4), which fits no block"),
        (slice_of, "vf_A.weight", (12,), "vf_A.weight has shape (12,); expected 2 axes"),
        (slice_of, "vf_B.weight", (6, 3), "vf_B.weight has shape (6, 3); expected (6, 4)"),
        (layer_of, "slice.vf_A.weight", (12, 6), "has shape (12, 6); expected (12, 7)"),
        (layer_of, "norm2.weight", (5,), "norm2.weight has shape (5,); expected (6,)"),
        (layer_of, "token_mlp.0.weight", (25, 6), "has shape (25, 6); expected (24, 6)"),
        (stack_of, "linear.weight", (4, 5), "linear.weight has shape (4, 5); expected (4, 6)"),
    ],
)
def test_a_tensor_of_the_wrong_shape_is_named(
    make: Callable[..., Any], name: str, shape: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ValueError) as caught:
        from_torch_slices(make().state_dict() | {name: torch.ones(shape)})
    assert says in str(caught.value)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="checkpoint is a Linear; expected one of torch-slices'"):
        from_torch_slices(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="checkpoint is a list; expected a state_dict"):
        from_torch_slices([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"checkpoint\['epoch'\] is a int; expected a torch.Tensor"):
        from_torch_slices(slice_of().state_dict() | {"epoch": 3})
    with pytest.raises(ValueError, match=r"none of torch-slices: .* it holds nothing"):
        from_torch_slices({})
    with pytest.raises(ValueError, match="none of torch-slices"):
        from_torch_slices(sk.SLiCE(3, sk.Dense(2)))
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        from_torch_slices(tmp_path / "nothing.pt")


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_a_damaged_file_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"damaged{ending}"
    (torch.save if ending == ".pt" else save_file)(slice_of().state_dict(), path)
    whole = path.read_bytes()
    for part in (whole[: len(whole) // 2], b"no tensors here", b""):
        path.write_bytes(part)
        with pytest.raises(ValueError, match=f"damaged{ending} can't be read"):
            from_torch_slices(path)


def test_a_pickled_module_is_not_run(tmp_path: Path) -> None:
    torch.save(slice_of(), tmp_path / "module.pt")
    with pytest.raises(ValueError, match="holds more than the tensors of a state_dict"):
        from_torch_slices(tmp_path / "module.pt")
