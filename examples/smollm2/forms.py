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
    """One model file. Dimensions are numbers, or names where they are dynamic; all count tokens but `batch`."""

    name: str
    cache: Cache
    batch: int | str
    tokens: int | str
    past: int | str | None
    present: int | str

    @property
    def file_name(self):
        return f"{self.name}.onnx"


FORM_NAMES = ("prefill", "decode", "dynamic", "window_prefill", "window_decode")


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
        return {
            "prefill": Form(name, Cache.NONE, 1, self.prefill_tokens, None, self.prefill_tokens),
            "decode": Form(name, Cache.CONCAT, 1, 1, self.decode_past, self.decode_past + 1),
            "dynamic": Form(name, Cache.CONCAT, BATCH, SEQUENCE, PAST, TOTAL),
            "window_prefill": Form(name, Cache.WINDOW, 1, self.prefill_tokens, self.window, self.window),
            "window_decode": Form(name, Cache.WINDOW, 1, 1, self.window, self.window),
        }[name]
