"""The network, from token ids to logits. What differs between operator sets is left to a `blocks` object."""

import numpy as np
from forms import Cache

PAST_KEY, PAST_VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
PRESENT_KEY, PRESENT_VALUE = "present.%d.key", "present.%d.value"


class Blocks:
    """What PlainBlocks and ContribBlocks have in common: the graph, the form, and the cache's inputs and outputs.

    A subclass offers
      declare_inputs()          declares all inputs but input_ids and the past, and computes what all layers share;
      norm(x, branch, name)     RMS norm of x + branch (branch may be None); returns (normed, x + branch);
      attention(layer, x)       from normed states to concatenated heads, both [batch, tokens, hidden].
    """

    def __init__(self, graph, form, checkpoint, linear):
        self.graph = graph
        self.form = form
        self.checkpoint = checkpoint
        self.settings = checkpoint.settings
        self.linear = linear

    def declare_cache(self, layer):
        """Declares past and present of one layer, [batch, kv_heads, rows, head_size] each.

        Returns the names of past key and value (None without past inputs) and of present key and value.
        """
        form, heads, head_size, dtype = self.form, self.settings.kv_heads, self.settings.head_size, self.linear.dtype
        past = [None, None]
        if form.cache is not Cache.NONE:
            shape = [form.batch, heads, form.past, head_size]
            past = [self.graph.input(name % layer, dtype, shape) for name in (PAST_KEY, PAST_VALUE)]
        shape = [form.batch, heads, form.present, head_size]
        present = [self.graph.output(name % layer, dtype, shape) for name in (PRESENT_KEY, PRESENT_VALUE)]
        return *past, *present

    def norm_weight(self, name):
        """The name of a norm's weight [hidden]."""
        return self.graph.weight(name, lambda: self.checkpoint.weight(name).astype(self.linear.dtype, copy=False))

    def length(self, tensor, static):
        """The name of an int64 scalar: dimension 1 of `tensor`, which is `static` if that is a number."""
        if isinstance(static, int):
            return self.graph.constant(static)
        return self.graph.op("Gather", [self.graph.op("Shape", [tensor]), self.graph.constant(1)])


def build(blocks, layers):
    """Adds the whole network with its first `layers` layers to the graph of `blocks`."""
    graph, form, linear, settings = blocks.graph, blocks.form, blocks.linear, blocks.settings
    graph.input("input_ids", "int64", [form.batch, form.tokens])
    graph.output("logits", linear.dtype, [form.batch, form.logits, settings.vocabulary])
    blocks.declare_inputs()

    hidden = graph.op("Gather", [linear.embedding(), "input_ids"])
    branch = None
    for layer in range(layers):
        prefix = f"blk.{layer}"
        graph.scope = f"{prefix}."
        normed, hidden = blocks.norm(hidden, branch, f"{prefix}.attn_norm")
        heads = blocks.attention(layer, normed)
        branch = linear.apply(heads, f"{prefix}.attn_output", [f"{prefix}.attn_output"])
        normed, hidden = blocks.norm(hidden, branch, f"{prefix}.ffn_norm")
        branch = _feed_forward(graph, linear, prefix, normed)
    graph.scope = ""
    normed, _ = blocks.norm(hidden, branch, "output_norm")
    if form.logits != form.tokens:
        first, last = -form.logits, np.iinfo(np.int64).max
        normed = graph.op("Slice", [normed, *(graph.constant([value]) for value in (first, last, 1))])
    linear.head(normed, "logits")


def _feed_forward(graph, linear, prefix, x):
    """SwiGLU: down(silu(gate(x)) * up(x))."""
    gate, up = (linear.apply(x, f"{prefix}.ffn_{part}", [f"{prefix}.ffn_{part}"]) for part in ("gate", "up"))
    silu = graph.op("Mul", [gate, graph.op("Sigmoid", [gate])])
    return linear.apply(graph.op("Mul", [silu, up]), f"{prefix}.ffn_down", [f"{prefix}.ffn_down"])
