"""The forms in which the model is exported: what is static, and how keys and values are kept."""

from dataclasses import dataclass
from enum import Enum

PREFILL_TOKENS = 128
DECODE_PAST = 256
WINDOW = 512

BATCH, SEQUENCE, PAST, TOTAL = "batch", "sequence", "past", "total"  # names of dynamic dimensions


class Cache(Enum):
    """How a model keeps the keys and values of earlier tokens."""

    NONE = "no past inputs"
    CONCAT = "present = past followed by the new rows"
    WINDOW = "past and present are one buffer; new rows are written at past_sequence_length"


@dataclass(frozen=True)
class Form:
    """One model file. Dimensions are numbers, or names where they are dynamic; all count tokens but `batch`.

    `logits`: how many tokens have logits; all, or 1 for the last.
    """

    name: str
    cache: Cache
    batch: int | str
    tokens: int | str
    past: int | str | None
    present: int | str
    logits: int | str

    @property
    def file_name(self):
        return f"{self.name}.onnx"


FORM_NAMES = ("prefill", "decode", "dynamic", "dynamic_last", "window_prefill", "window_decode")


@dataclass(frozen=True)
class Sizes:
    """The static dimensions, in tokens."""

    prefill_tokens: int = PREFILL_TOKENS
    decode_past: int = DECODE_PAST
    window: int = WINDOW

    def check(self):
        """Raises ValueError for sizes that no form can have."""
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, it is {value}")
        if self.window % self.prefill_tokens:
            raise ValueError(f"window ({self.window}) must be a multiple of prefill_tokens ({self.prefill_tokens})")

    def form(self, name):
        """The form called `name`, one of FORM_NAMES, with these dimensions."""
        prefill, decode, window = self.prefill_tokens, self.decode_past, self.window
        return {
            "prefill": Form(name, Cache.NONE, 1, prefill, None, prefill, prefill),
            "decode": Form(name, Cache.CONCAT, 1, 1, decode, decode + 1, 1),
            "dynamic": Form(name, Cache.CONCAT, BATCH, SEQUENCE, PAST, TOTAL, SEQUENCE),
            "dynamic_last": Form(name, Cache.CONCAT, BATCH, SEQUENCE, PAST, TOTAL, 1),
            "window_prefill": Form(name, Cache.WINDOW, 1, prefill, window, window, prefill),
            "window_decode": Form(name, Cache.WINDOW, 1, 1, window, window, 1),
        }[name]
