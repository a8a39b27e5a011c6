"""Small ONNX models, built node by node, and the files that hold their weights."""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
OPSET = 21  # the oldest ONNX Runtime knows it
IR_VERSION = 10

DATA_FILE = "weights.data"


class Model:
    """A model under construction. Methods that make a value return its name, so that calls nest.

    `scope` begins the names that it makes: those of a body must not be those of the graph around it.
    """

    def __init__(self, opset=OPSET, scope=""):
        self._opset, self.scope = opset, scope
        self._inputs, self._outputs, self._nodes, self._initializers = [], [], [], []
        self._made = 0

    def input(self, name, shape, dtype=np.float32):
        """`shape` may hold names for dynamic dimensions; None is an unknown rank."""
        self._inputs.append(_value(name, shape, dtype))
        return name

    def weight(self, array, name=None):
        name = name or self._name("w")
        self._initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def add(self, op_type, *inputs, name=None, domain="", outputs=None, **attributes):
        """Adds a node. `outputs` are names, if it has several; else its one output is returned, called `name`."""
        outputs = outputs or [name or self._name(op_type.lower())]
        node_name = self._name(f"{op_type}_node")
        self._nodes.append(helper.make_node(op_type, inputs, outputs, name=node_name, domain=domain, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def output(self, value, shape=None, dtype=np.float32):
        self._outputs.append(_value(value, shape, dtype))
        return self

    def graph(self, name="graph"):
        """As a body of If, Loop or Scan."""
        return helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._initializers)

    def proto(self):
        opsets = [helper.make_opsetid("", self._opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(self.graph(), opset_imports=opsets, ir_version=IR_VERSION)

    def bytes(self):
        return self.proto().SerializeToString()

    def save(self, path, places=None):
        """Writes the model, with all weights in DATA_FILE beside it, or as `places` say ({weight: (file, offset)}).

        A weight that `places` does not name stays in the model. Returns `path`.
        """
        proto = self.proto()
        if places is None:
            places = consecutive(proto)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_weights(proto, path.parent, places)
        path.write_bytes(refer(proto, places).SerializeToString())
        return path

    def _name(self, prefix):
        self._made += 1
        return f"{self.scope}{prefix}_{self._made}"


def consecutive(proto, file=DATA_FILE, alignment=64):
    """Places of all initializers in one file, one after the other."""
    places, end = {}, 0
    for tensor in proto.graph.initializer:
        start = -(-end // alignment) * alignment
        places[tensor.name] = (file, start)
        end = start + len(tensor.raw_data)
    return places


def write_weights(proto, folder, places):
    """Puts the initializers where `places` say."""
    for tensor in proto.graph.initializer:
        if tensor.name not in places:
            continue
        name, offset = places[tensor.name]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(tensor.raw_data)


def refer(proto, places):
    """`proto` with references in place of the initializers that `places` name."""
    for tensor in proto.graph.initializer:
        if tensor.name not in places:
            continue
        location, offset = places[tensor.name]
        entries = {"location": str(location), "offset": str(offset), "length": str(len(tensor.raw_data))}
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    return proto


def product(matrix, x_shape=("batch", None), name="w"):
    """x times `matrix`, in its type."""
    model = Model()
    shape = [matrix.shape[0] if size is None else size for size in x_shape]
    x = model.input("x", shape, matrix.dtype)
    return model.output(model.add("MatMul", x, model.weight(matrix, name), name="y"), dtype=matrix.dtype)


def chain(*matrices, names=None):
    """x times one matrix after the other, with a Relu after each."""
    model = Model()
    value = model.input("x", ["batch", matrices[0].shape[0]])
    names = names or [f"w{i}" for i in range(len(matrices))]
    for name, matrix in zip(names, matrices, strict=True):
        value = model.add("Relu", model.add("MatMul", value, model.weight(matrix, name)))
    return model.output(model.add("Identity", value, name="y"))


def lookup(table, name="table"):
    """Rows of `table` by number."""
    model = Model()
    ids = model.input("ids", ["rows"], np.int64)
    return model.output(model.add("Gather", model.weight(table, name), ids, name="y"), dtype=table.dtype)


def tied(table, name="table"):
    """An embedding whose table, transposed, is also the head."""
    model = Model()
    ids = model.input("ids", ["batch", "tokens"], np.int64)
    table = model.weight(table, name)
    rows = model.add("Gather", table, ids)
    return model.output(model.add("MatMul", rows, model.add("Transpose", table, perm=[1, 0]), name="y"))


def interrupted(rng, size):
    """Two products, between which text is made and read: not what OpenVINO can compute."""
    model = Model()
    first = model.add("MatMul", model.input("x", ["batch", size]), model.weight(matrix(rng, size, size)))
    text = model.add("Cast", model.add("Round", first), to=TensorProto.STRING)
    number = model.add("Cast", text, to=TensorProto.FLOAT)
    return model.output(model.add("MatMul", number, model.weight(matrix(rng, size, size)), name="y"))


def quantized(rng, shape, dtype, granularity, *, has_zero_points, block=16, scale_type=np.float32):
    """A Model and the name of a dequantized matrix in it, of `shape`."""
    model = Model()
    rows, columns = shape
    block_counts = {"rows": (-(-rows // block), columns), "columns": (rows, -(-columns // block))}
    scale_shape, attributes = {
        "tensor": ((), {}),
        "row": ((rows,), {"axis": 0}),
        "column": ((columns,), {"axis": 1}),
        "column, negative axis": ((columns,), {"axis": -1}),
        "blocks of rows": (block_counts["rows"], {"axis": 0, "block_size": block}),
        "blocks of columns": (block_counts["columns"], {"axis": 1, "block_size": block}),
    }[granularity]
    scales = rng.uniform(0.01, 0.1, scale_shape).astype(scale_type)
    inputs = [model.weight(codes(rng, shape, dtype), "w"), model.weight(scales, "scales")]
    if has_zero_points:
        inputs.append(model.weight(codes(rng, scale_shape, dtype), "zero_points"))
    return model, model.add("DequantizeLinear", *inputs, **attributes)


def matmul_nbits(rng, inputs, outputs, bits, block, zero_point_type=None, bias=False, dtype=np.float32):
    model = Model()
    blocks = -(-inputs // block)
    weights = [
        model.weight(rng.integers(0, 256, (outputs, blocks, block * bits // 8), np.uint8), "w"),
        model.weight(rng.uniform(0.01, 0.1, (outputs, blocks)).astype(dtype), "scales"),
    ]
    if zero_point_type == "codes":
        weights.append(model.weight(rng.integers(0, 256, (outputs, -(-blocks * bits // 8)), np.uint8), "zero_points"))
    elif zero_point_type == "floats":
        zero_points = rng.uniform(0, 2**bits, (outputs, blocks)).astype(dtype)
        weights.append(model.weight(zero_points, "zero_points"))
    if bias:
        weights += [""] * (4 - len(weights)) + [model.weight(rng.standard_normal(outputs).astype(dtype), "bias")]
    # Level 1 is f32 arithmetic.
    attributes = {"K": inputs, "N": outputs, "bits": bits, "block_size": block, "accuracy_level": 1}
    x = model.input("x", ["batch", "rows", inputs], dtype)
    return model.output(model.add("MatMulNBits", x, *weights, domain=MICROSOFT, **attributes), dtype=dtype)


def weightless():
    model = Model()
    return model.output(model.add("Neg", model.input("x", ["batch", 4]), name="y"))


def matrix(rng, rows, columns, dtype=np.float32):
    return rng.standard_normal((rows, columns), dtype=np.float32).astype(dtype)


def codes(rng, shape, dtype):
    """Integers over the whole range of an integer type."""
    info = ml_dtypes.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _value(name, shape, dtype):
    return helper.make_tensor_value_info(name, _element_type(dtype), shape)


def _element_type(dtype):
    if dtype is str:
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def load(path):
    """The model without its weights, to be changed and written again."""
    return onnx.load(path, load_external_data=False)
