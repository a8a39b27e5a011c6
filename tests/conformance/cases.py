"""The tests that the onnx package brings along: models, what to feed them, and what they must return."""

import pathlib
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

# Each is a folder of models, but "node": those are built by code.
KINDS = ["node", "simple", "pytorch-operator", "pytorch-converted", "real"]
LIGHT_MODELS = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@dataclass
class Case:
    name: str
    kind: str
    operator: str  # that it is about, or the kind where it is about none
    model: bytes
    data_sets: list  # of (inputs, outputs), both lists in the model's order
    rtol: float
    atol: float


def load_cases():
    """All cases, by name."""
    with warnings.catch_warnings():  # of NumPy, while nodes' expected values are computed
        warnings.simplefilter("ignore")
        found = [_case(test) for kind in KINDS for test in load_model_tests(kind=kind)]
    cases = {case.name: case for case in sorted(found, key=lambda case: case.name)}
    assert len(cases) == len(found), "names are unique"
    for case in cases.values():
        # A function written out as other operators is still about the function.
        whole = cases.get(case.name.split("_expanded")[0])
        if whole:
            case.operator = whole.operator
    return cases


def _case(test):
    if test.kind == "node":
        model, data_sets = test.model, test.data_sets
    elif test.kind == "real":
        model, data_sets = _light_model(test)
    else:
        folder = pathlib.Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        data_sets = [_data_set(model, part) for part in sorted(folder.glob("test_data_set_*"))]
    data_sets = [([_array(value) for value in ins], [_array(value) for value in outs]) for ins, outs in data_sets]
    operators = {node.op_type for node in model.graph.node}
    operator = operators.pop() if len(operators) == 1 else f"{test.kind} models"
    return Case(test.name, test.kind, operator, model.SerializeToString(), data_sets, test.rtol, test.atol)


def _light_model(test):
    """A well-known network with made-up weights. The package has outputs for the input that its runner makes up."""
    path = LIGHT_MODELS / pathlib.Path(test.url).name
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(value) for value in model.graph.input if value.name not in given]
    outputs = [onnx.load_tensor(path.with_name(f"{path.stem}_output_{i}.pb")) for i in range(len(model.graph.output))]
    return model, [(inputs, outputs)]


def _data_set(model, folder):
    def values(prefix, ports):
        files = [(folder / f"{prefix}_{i}.pb", port.type) for i, port in enumerate(ports)]
        return [_value(file.read_bytes(), kind) for file, kind in files if file.exists()]

    return values("input", model.graph.input), values("output", model.graph.output)


def _value(data, kind):
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.TensorProto.FromString(data)


def _array(value):
    """Arrays for tensors and scalars; lists for sequences and None for nothing stay what they are."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if value is None or isinstance(value, list):
        return value
    return np.asarray(value)
