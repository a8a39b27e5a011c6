"""What the tests of this folder share: the open checkpoint, the tiny models and a tokenizer."""

import shutil

import pytest
import tokenizer
from chat import Chat
from checkpoint import Checkpoint
from tiny_models import TinyModels

PROMPT = "The ship left the harbour at 7 in the morning, and nobody on board knew where it was going."


@pytest.fixture(scope="session")
def checkpoint():
    return Checkpoint()


@pytest.fixture(scope="session")
def models(tmp_path_factory, checkpoint):
    root = tmp_path_factory.mktemp("smollm2")
    yield TinyModels(root, checkpoint)
    shutil.rmtree(root)  # more than a gigabyte, which pytest would keep


@pytest.fixture(scope="session")
def chat(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.write(folder, checkpoint)
    return Chat(folder)


@pytest.fixture(scope="session")
def ids(chat):
    return chat.encode(PROMPT)
