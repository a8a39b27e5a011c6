"""Inputs for the models: the same numbers each time, of the kind that a model is made for."""

import zlib

import numpy as np


def feeds(entry):
    """The inputs of each case, by name."""
    return [
        {name: _array(np.random.default_rng([number, zlib.crc32(name.encode())]), spec) for name, spec in case.items()}
        for number, case in enumerate(entry["cases"])
    ]


def _array(rng, spec):
    made = _GENERATORS[spec["gen"]](rng, spec, tuple(spec["shape"]))
    return np.array(np.asarray(made, spec["dtype"]).reshape(spec["shape"]), order="C")


def _tone(rng, spec, shape):
    """Two sines and some noise, as sound."""
    samples = shape[spec.get("axis", -1)]
    time = np.arange(samples) / spec.get("rate", 16000)
    wave = 0.4 * np.sin(2 * np.pi * 220 * time) + 0.2 * np.sin(2 * np.pi * 517.3 * time)
    axes = [1] * len(shape)
    axes[spec.get("axis", -1)] = samples
    return wave.reshape(axes) + 0.02 * rng.standard_normal(shape)


def _image(rng, spec, shape):
    """Ramps, a rectangle and noise, [n, channels, height, width]."""
    _, channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width]
    waves = [0.5 + 0.3 * np.sin(x / width * 6.3 * (k + 1)) * np.cos(y / height * 6.3) for k in range(channels)]
    made = np.broadcast_to(waves, shape) + 0.02 * rng.standard_normal(shape)
    made[:, :, height // 4 : height // 2, width // 3 : width // 2] = 0.9
    low, high = spec.get("low", 0.0), spec.get("high", 1.0)
    return np.clip(made, 0, 1) * (high - low) + low


def _mask(_, spec, shape):
    """Ones; each row ends in more zeros than the one before."""
    made = np.ones(shape)
    for row in range(shape[0]):
        zeros = spec.get("pad", 0) * (row + spec.get("from", 0))
        made[row, shape[-1] - zeros :] = 0
    return made


_GENERATORS = {
    "normal": lambda rng, spec, shape: rng.standard_normal(shape) * spec.get("std", 1.0),
    "randint": lambda rng, spec, shape: rng.integers(spec["low"], spec["high"], shape),
    "const": lambda _, spec, shape: np.full(shape, spec["value"]),
    "tone": _tone,
    "image": _image,
    "mask": _mask,
}
