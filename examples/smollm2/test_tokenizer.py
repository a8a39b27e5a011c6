"""The tokenizer files, held against the vocabulary and the merges of the checkpoint."""

import itertools
import math

import pytest
import tokenizer

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  leading and trailing  ",
    "tabs\tand\n\nnew lines\r\n  \n   mixed   runs    of     spaces",
    "year 1999, pi 3.14159, 1,000,000 and a  1",
    "Gr\u00fc\u00dfe, na\u00efve caf\u00e9, \u041f\u0440\u0438\u0432\u0435\u0442",
    "\u3053\u3093\u306b\u3061\u306f, \u0645\u0631\u062d\u0628\u0627, \u4f60\u597d",
    "emoji \U0001f642 \U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 and e\u0301 combining",
    "don't I'll we've they're it's",
    "for (int i = 0; i < 10; ++i) { x[i] ^= 0xff; }  // code",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "not special: <|im_start |> <im_end>",
    "\u00bd \u00b2 \u0663 \u2167 \u00a0 \u200b \x00 \x7f",
]
SPACE = "\u0120"  # how the vocabulary writes a space


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_encoding(chat, text):
    assert chat.decode(chat.encode(text), keep_special=True) == text


def test_special_tokens_are_single_ids(chat, checkpoint):
    kinds = checkpoint.field("tokenizer.ggml.token_type")
    tokens = checkpoint.field("tokenizer.ggml.tokens")
    special = [index for index, kind in enumerate(kinds) if kind == tokenizer.CONTROL]
    assert len(special) == 17
    assert [chat.encode(tokens[index]) for index in special] == [[index] for index in special]
    assert chat.decode(special) == ""


def test_digits_stand_alone(chat):
    assert [chat.decode([token]) for token in chat.encode("a 1999")] == ["a", " ", "1", "9", "9", "9"]


@pytest.mark.parametrize("word", ["capital", " capital", " unbelievable", "Paris", " zyzzyva", " London"])
def test_words_follow_the_merges_of_the_checkpoint(chat, checkpoint, word):
    tokens = checkpoint.field("tokenizer.ggml.tokens")
    merges = checkpoint.field("tokenizer.ggml.merges")
    ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(merges)}
    expected = merge(list(word.replace(" ", SPACE)), ranks)
    assert [tokens[token] for token in chat.encode(word)] == expected


def merge(parts, ranks):
    """Byte-pair encoding as it is defined: join the pair of lowest rank until no pair has one."""
    while len(parts) > 1:
        order = [ranks.get(pair, math.inf) for pair in itertools.pairwise(parts)]
        best = min(order)
        if best == math.inf:
            break
        at = order.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def test_chat_template_opens_the_assistants_turn(chat):
    text = chat.render("Hi there")
    assert text.startswith("<|im_start|>system\n")
    assert text.endswith("<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n")
    assert chat.eos_id == chat.encode("<|im_end|>")[0] == 2
    assert chat.encode_prompt("Hi there").count(chat.eos_id) == 2
