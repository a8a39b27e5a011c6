"""Configurations with which ORT GenAI runs an exported folder."""

import json
import os
import shutil
from pathlib import Path

import tokenizer
import weight_file
from decoder import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE

# What a configuration runs, and the file that holds it in an export folder.
WINDOW, DYNAMIC = "window", "dynamic"
FILE_NAMES = {WINDOW: "genai_config.json", DYNAMIC: "genai_config.dynamic.json"}

# GenAI counts a prompt up to its first pad. SmolLM2's own pad token also ends every chat turn, token 0 ends none.
PAD_TOKEN = 0


def write(folder, checkpoint, layers, forms, operators):
    """Writes the configurations whose models are among `forms` (Form by name) into `folder`. Returns their paths.

    GenAI needs the logits of the last token only: it gets the dynamic form without the others, if that is there.
    """
    written = []
    if {"window_prefill", "window_decode"} <= forms.keys():
        prefill, decode = forms["window_prefill"], forms["window_decode"]
        model = _window_model(checkpoint.settings, layers, prefill, decode)
        written.append(_dump(folder / FILE_NAMES[WINDOW], checkpoint, model, prefill.past, share_buffer=True))
    if dynamic := forms.get("dynamic_last") or forms.get("dynamic"):
        model = _dynamic_model(checkpoint.settings, layers, dynamic, operators)
        context = checkpoint.settings.context
        written.append(_dump(folder / FILE_NAMES[DYNAMIC], checkpoint, model, context, share_buffer=False))
    return written


def use(folder, name, target):
    """Makes `target` a folder that GenAI loads: `folder`'s configuration `name` (WINDOW or DYNAMIC) and its files.

    Models, weights and tokenizer are hard links, as ORT refuses external data that a symbolic link takes
    elsewhere; so `target` must be on the same file system. Returns `target` as a Path.
    """
    folder, target = Path(folder), Path(target)
    if target.resolve() == folder.resolve():
        raise ValueError(f"{folder} cannot be a link to itself: give another target")
    config = folder / FILE_NAMES[name]
    decoder = json.loads(config.read_text())["model"]["decoder"]
    stages = [stage for entry in decoder.get("pipeline", []) for stage in entry.values()]
    models = [stage["filename"] for stage in stages or [decoder]]
    target.mkdir(parents=True, exist_ok=True)
    for file_name in (*models, weight_file.FILE_NAME, *tokenizer.FILE_NAMES):
        link = target / file_name
        link.unlink(missing_ok=True)
        os.link(folder / file_name, link)
    shutil.copyfile(config, target / "genai_config.json")
    return target


def _decoder(settings, layers):
    return {
        "session_options": {"provider_options": []},
        "head_size": settings.head_size,
        "hidden_size": settings.hidden,
        "num_attention_heads": settings.heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": settings.kv_heads,
        "inputs": {"input_ids": "input_ids", "past_key_names": PAST_KEY, "past_value_names": PAST_VALUE},
        "outputs": {"logits": "logits", "present_key_names": PRESENT_KEY, "present_value_names": PRESENT_VALUE},
    }


def _dynamic_model(settings, layers, form, operators):
    decoder = _decoder(settings, layers)
    decoder["filename"] = form.file_name
    decoder["inputs"]["attention_mask"] = "attention_mask"
    if operators == "plain":
        decoder["inputs"]["position_ids"] = "position_ids"
    return {"type": "llama", "decoder": decoder}


def _window_model(settings, layers, prefill, decode):
    """Two stages over one cache. The prompt goes through the first one window after the other, padded on the right."""
    decoder = _decoder(settings, layers)
    lengths = ["past_sequence_length", "total_sequence_length"]
    decoder["inputs"] |= {name: name for name in lengths}
    decoder["sliding_window"] = {
        "window_size": prefill.tokens,
        "pad_value": PAD_TOKEN,
        "alignment": "left",
        "slide_inputs": True,
        "slide_key_value_cache": False,
    }
    past = [name % layer for layer in range(layers) for name in (PAST_KEY, PAST_VALUE)]
    present = [name % layer for layer in range(layers) for name in (PRESENT_KEY, PRESENT_VALUE)]
    tensors = {"inputs": ["input_ids", *lengths, *past], "outputs": ["logits", *present]}
    decoder["pipeline"] = [
        {
            "prefill": {
                "filename": prefill.file_name,
                **tensors,
                "run_on_prompt": True,
                "run_on_token_gen": False,
            }
        },
        {"decode": {"filename": decode.file_name, **tensors, "run_on_prompt": False, "run_on_token_gen": True}},
    ]
    return {"type": "decoder-pipeline", "decoder": decoder}


def _dump(path, checkpoint, model, max_length, share_buffer):
    config = {
        "model": {
            "bos_token_id": checkpoint.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": checkpoint.field("tokenizer.ggml.eos_token_id"),
            "pad_token_id": PAD_TOKEN,
            "vocab_size": checkpoint.settings.vocabulary,
            "context_length": max_length,
            **model,
        },
        "search": {"do_sample": False, "max_length": max_length, "past_present_share_buffer": share_buffer},
    }
    path.write_text(json.dumps(config, indent=2))
    return path
