"""Whether a network is wrong because a node is, or because it makes much of the last bits of what its nodes compute."""

import onnx
import onnxruntime
from cases import Case
from onnx import helper, numpy_helper
from values import from_ort, to_ort


def split(case):
    """A case for each node of a case: it gets what ONNX Runtime's CPU provider computes before it.

    None where that cannot be known.
    """
    model = onnx.load_from_string(case.model)
    graph = model.graph
    if len(graph.node) < 2 or len(case.data_sets) != 1:
        return None
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    fed = [value.name for value in graph.input if value.name not in constants]
    values = dict(zip(fed, case.data_sets[0][0], strict=False))
    if any(value is None or isinstance(value, list) for value in values.values()):
        return None
    try:
        values |= _results(model, values)
    except Exception:  # a result that is no tensor, say
        return None
    return [_case(case, model, node, constants, values) for node in graph.node]


def _results(model, feeds):
    """All that the nodes compute, by name."""
    names = [name for node in model.graph.node for name in node.output if name]
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run_with_ort_values(names, {name: to_ort(value) for name, value in feeds.items()})
    return {name: from_ort(value) for name, value in zip(names, found, strict=True)}


def _case(case, model, node, constants, values):
    read = dict.fromkeys(name for name in node.input if name)
    inputs = [name for name in read if name not in constants]
    outputs = [name for name in node.output if name]

    def ports(names):
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape)
            for name in names
        ]

    weights = [numpy_helper.from_array(constants[name], name) for name in read if name in constants]
    graph = helper.make_graph([node], node.op_type, ports(inputs), ports(outputs), weights)
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    data = ([values[name] for name in inputs], [values[name] for name in outputs])
    return Case(case.name, case.kind, node.op_type, alone.SerializeToString(), [data], case.rtol, case.atol)
