"""Builds one ONNX graph, node by node, over the weights of a WeightFile."""

import numpy as np
from onnx import helper, numpy_helper

OPSET = 21
IR_VERSION = 10
CONTRIB_DOMAIN = "com.microsoft"


class GraphBuilder:
    """Collects nodes, inputs, outputs and initializers. Values are known by their names.

    `scope` is put in front of the names of nodes and of unnamed values.
    """

    def __init__(self, weights):
        self.weights = weights
        self.scope = ""
        self._nodes = []
        self._inputs = []
        self._outputs = []
        self._initializers = {}
        self._constant_names = {}

    def input(self, name, dtype, shape):
        """Declares a graph input; dimensions are numbers or names."""
        self._inputs.append(_value_info(name, dtype, shape))
        return name

    def output(self, name, dtype, shape):
        """Declares a graph output; a node must give it its value."""
        self._outputs.append(_value_info(name, dtype, shape))
        return name

    def op(self, operator, inputs, output=None, domain="", **attributes):
        """Adds a node with one output and returns that output's name."""
        return self.op_with_outputs(operator, inputs, [output], domain, **attributes)[0]

    def op_with_outputs(self, operator, inputs, outputs, domain="", **attributes):
        """Adds a node and returns the names of its outputs. A name None is made up; "" leaves the output out."""
        node_name = f"{self.scope}{operator}_{len(self._nodes)}"
        names = [f"{node_name}_out{i}" if name is None else name for i, name in enumerate(outputs)]
        self._nodes.append(helper.make_node(operator, inputs, names, node_name, domain=domain, **attributes))
        return names

    def constant(self, value, dtype=np.int64):
        """The name of a small constant kept inside the model. Equal constants are one initializer."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constant_names:
            name = f"constant_{len(self._constant_names)}"
            self._constant_names[key] = name
            self._initializers[name] = numpy_helper.from_array(array, name)
        return self._constant_names[key]

    def weight(self, name, make):
        """The name of the weight `name`. `make` returns its array; it is called only if no model had it yet."""
        if name not in self.weights:
            self.weights.add(name, make())
        return self.use_weight(name)

    def use_weight(self, name):
        """The name of a weight that is in the file already."""
        self._initializers[name] = self.weights.record(name)
        return name

    def save(self, path):
        """Writes the model. Its external data are those of the WeightFile beside it."""
        graph = helper.make_graph(
            self._nodes, path.stem, self._inputs, self._outputs, initializer=list(self._initializers.values())
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain == CONTRIB_DOMAIN for node in self._nodes):
            opsets.append(helper.make_opsetid(CONTRIB_DOMAIN, 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="smollm2-export")
        path.write_bytes(model.SerializeToString())


def _value_info(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
