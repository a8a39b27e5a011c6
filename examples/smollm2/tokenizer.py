"""Writes the tokenizer of a GGUF checkpoint in the files that Hugging Face's and ORT GenAI's tokenizers read."""

import json

TOKENIZER, CONFIG, SPECIAL_TOKENS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
FILE_NAMES = (TOKENIZER, CONFIG, SPECIAL_TOKENS)

CONTROL, USER_DEFINED = 3, 4  # token types of GGUF
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
DIGIT = r"\p{N}"
GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def write(folder, checkpoint):
    """Writes FILE_NAMES into `folder`. Raises ValueError for a vocabulary that is not SmolLM's kind of BPE."""
    for key, known in (("model", "gpt2"), ("pre", "smollm")):
        found = checkpoint.field(f"tokenizer.ggml.{key}")
        if found != known:
            raise ValueError(f"tokenizer.ggml.{key} is '{found}', only '{known}' is known")
    added = _added_tokens(checkpoint)
    named = _named_tokens(checkpoint)
    _dump(folder / TOKENIZER, _tokenizer(checkpoint, added))
    _dump(folder / CONFIG, _config(checkpoint, added, named))
    _dump(folder / SPECIAL_TOKENS, named)


def _added_tokens(checkpoint):
    """Tokens that are matched as they stand, before any splitting."""
    tokens = checkpoint.field("tokenizer.ggml.tokens")
    kinds = checkpoint.field("tokenizer.ggml.token_type")
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": index, "content": token, **flags, "special": kind == CONTROL}
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]


def _named_tokens(checkpoint):
    """The tokens that have a role, by role."""
    tokens = checkpoint.field("tokenizer.ggml.tokens")
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    return {role: tokens[checkpoint.field(f"tokenizer.ggml.{key}_token_id")] for role, key in roles.items()}


def _tokenizer(checkpoint, added):
    tokens = checkpoint.field("tokenizer.ggml.tokens")
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": checkpoint.field("tokenizer.ggml.merges"),
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": _pre_tokenizer(),
        "post_processor": None,
        "decoder": {**BYTE_LEVEL, "use_regex": True},
        "model": model,
    }


def _pre_tokenizer():
    """Every digit alone, then GPT-2's words.

    Hugging Face writes it as Digits and ByteLevel. ORT GenAI 0.18 ignores Digits, so both splits are spelled out.
    """
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in (DIGIT, GPT2_WORDS)
    ]
    return {"type": "Sequence", "pretokenizers": [*splits, {**BYTE_LEVEL, "use_regex": False}]}


def _config(checkpoint, added, named):
    return {
        "tokenizer_class": "GPT2Tokenizer",
        "add_bos_token": checkpoint.field("tokenizer.ggml.add_bos_token"),
        "add_prefix_space": checkpoint.field("tokenizer.ggml.add_space_prefix"),
        **named,
        "clean_up_tokenization_spaces": False,
        "model_max_length": checkpoint.field("llama.context_length"),
        "chat_template": checkpoint.field("tokenizer.chat_template"),
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in added
        },
    }


def _dump(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
