"""Text to token ids and back, with the tokenizer files of an exported folder."""

import json
from pathlib import Path

import tokenizer
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer


class Chat:
    """The tokenizer and the chat template of `folder`. `eos_id` ends a turn of the assistant."""

    def __init__(self, folder):
        folder = Path(folder)
        self._tokenizer = Tokenizer.from_file(str(folder / tokenizer.TOKENIZER))
        config = json.loads((folder / tokenizer.CONFIG).read_text(encoding="utf-8"))
        self.eos_id = self._tokenizer.token_to_id(config["eos_token"])
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string(config["chat_template"])

    def render(self, prompt):
        """The text of a conversation in which the user said `prompt` and the assistant is about to answer."""
        messages = [{"role": "user", "content": prompt}]
        return self._template.render(messages=messages, add_generation_prompt=True)

    def encode(self, text):
        """The ids of `text`. Special tokens such as <|im_end|> are recognized in it."""
        return self._tokenizer.encode(text).ids

    def encode_prompt(self, prompt):
        """The ids of render(prompt)."""
        return self.encode(self.render(prompt))

    def decode(self, ids, keep_special=False):
        """The text of `ids`. Special tokens are left out unless `keep_special`."""
        return self._tokenizer.decode(ids, skip_special_tokens=not keep_special)
