"""The model in float64 numpy: what its int4 weights mean, without any rounding on the way."""

import numpy as np
import preparation


def logits(ids):
    """Logits [tokens, vocabulary] for the ids of a text, by the weights of the int4 models."""
    preparation.use_example()
    from checkpoint import EMBEDDING, Checkpoint

    checkpoint = Checkpoint()
    settings = checkpoint.settings
    x = checkpoint.weight(EMBEDDING)[ids].astype(np.float64)  # the table itself is not quantized
    rotary = _rotary(settings, len(ids))
    for layer in range(settings.layers):
        prefix = f"blk.{layer}"
        normed = _norm(x, checkpoint.weight(f"{prefix}.attn_norm"), settings)
        parts = [normed @ _matrix(checkpoint, f"{prefix}.attn_{part}") for part in "qkv"]
        x = x + _attention(*parts, rotary, settings) @ _matrix(checkpoint, f"{prefix}.attn_output")
        normed = _norm(x, checkpoint.weight(f"{prefix}.ffn_norm"), settings)
        gate, up = (normed @ _matrix(checkpoint, f"{prefix}.ffn_{part}") for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ _matrix(checkpoint, f"{prefix}.ffn_down")
    return _norm(x, checkpoint.weight("output_norm"), settings) @ _matrix(checkpoint, EMBEDDING)


def _matrix(checkpoint, name):
    """A weight as the int4 models have it, [inputs, outputs]."""
    import int4

    values, scales = int4.quantize(checkpoint.weight(name))
    return (values * np.repeat(scales.astype(np.float64), int4.BLOCK, axis=1)).T


def _norm(x, weight, settings):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + settings.norm_epsilon) * weight


def _rotary(settings, tokens):
    """Cosine and sine of the rotary embedding, [tokens, 1, head_size / 2] each."""
    frequency = settings.rope_base ** -(np.arange(0, settings.head_size, 2) / settings.head_size)
    angle = np.outer(np.arange(tokens), frequency)[:, None]
    return np.cos(angle), np.sin(angle)


def _attention(query, key, value, rotary, settings):
    """Causal attention, [tokens, hidden], of projections [tokens, heads * head_size]."""
    tokens, group = len(query), settings.heads // settings.kv_heads
    query, key, value = (part.reshape(tokens, -1, settings.head_size) for part in (query, key, value))
    query, key = (_rotate(part, *rotary) for part in (query, key))
    hidden = np.triu(np.full((tokens, tokens), -np.inf), 1)
    mixed = np.empty_like(query)
    for head in range(settings.heads):
        scores = query[:, head] @ key[:, head // group].T * settings.head_size**-0.5 + hidden
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ value[:, head // group]
    return mixed.reshape(tokens, -1)


def _rotate(x, cosine, sine):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
