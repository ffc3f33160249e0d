"""What all tests share: a closed network, few threads, tiny random checkpoints."""

import functools
import json
import os
import signal
import socket
import tempfile

import pytest
from hypothesis import HealthCheck, settings

import stories
from hub.repositories import SENTENCES, VOCABULARY, save_tokenizer
from hub.server import Hub

# Before the client, numpy, torch and transformers are imported, which read these once: the only hub is ours.
HUB = Hub()
for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING_FACE", "TRANSFORMERS_"))]:
    del os.environ[name]
os.environ |= {"HF_ENDPOINT": HUB.endpoint, "HF_HOME": tempfile.mkdtemp(), "DISABLE_SAFETENSORS_CONVERSION": "1"}
os.environ["TOKENIZERS_PARALLELISM"] = "false"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(
        name, "1"
    )  # pytest has a process for each core; what is called without a command has no limit
# A shell that starts the tests in the background has them pass over Ctrl-C, and all processes that they start, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes is a matter of the machine and of what else it does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Sizes that every family knows under some name; unknown names are harmless.
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "vocab_size": VOCABULARY,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
NAMES = {
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16},
    "bloom": {"n_layer": 2, "n_head": 2},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2},
    "gemma3": {
        "text_config": SIZES,
        "vision_config": SIZES | {"image_size": 16, "patch_size": 8},
        "mm_tokens_per_image": 4,
    },
}
# BERT's own head comes with the pooler that a loaded model is made to have.
HEADS = {"t5": "AutoModelForSeq2SeqLM", "bert": "AutoModelForPreTraining"}


@pytest.fixture(autouse=True, scope="session")
def closed_network():
    """Refuse every connection that would leave the machine."""
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test tried to reach {address}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture
def one_thread():
    """As in a command: what the command made is compared with to the bit, or two runs are."""
    from embscale.threads import limited

    with limited(1):
        yield


@pytest.fixture(scope="session")
def serving():
    """The hub, for as long as the tests run."""
    with HUB as hub:
        yield hub


@pytest.fixture
def hub(serving):
    """The hub without faults, brakes or memory of earlier requests; what it holds is shared by all tests."""
    serving.faults.clear()
    serving.throttle(None)
    serving.requests.clear()
    return serving


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory):
    """A byte-level tokenizer trained on a few sentences, in the Hugging Face layout."""
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, tokenizer_folder):
    """A function from a model type to a checkpoint folder: random weights, 2 blocks of width 16, a tokenizer."""

    @functools.cache
    def make(model_type):
        import shutil

        import torch
        import transformers

        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(model_type, **SIZES | NAMES.get(model_type, {}))
        model = getattr(transformers, HEADS.get(model_type, "AutoModelForCausalLM")).from_config(config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # Norms start as ones, which would hide that a norm was left out or applied twice.
                if (weight.ndim == 1 and "norm" in name.lower()) or ".ln_" in name:
                    weight.add_(torch.rand_like(weight))
        folder = tmp_path_factory.mktemp(model_type)
        model.save_pretrained(folder)
        shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
        return folder

    return make


@pytest.fixture(scope="session")
def texts_file(tmp_path_factory):
    """Forty different texts of unequal length, half of them held out; some are too short for 12 tokens."""
    path = tmp_path_factory.mktemp("texts") / "corpus.jsonl"
    rows = [
        {
            "_id": f"text-{i}",
            "title": "",
            "text": " ".join(SENTENCES[(i + j) % len(SENTENCES)] for j in range(1 + i % 3)) + f" {i}"
            if i % 10
            else f"Short {i}.",
            "metadata": {"split": "heldout" if i % 2 else "train"},
        }
        for i in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture(scope="session")
def trained_checkpoint(tmp_path_factory):
    """The folder of a small Llama with three blocks, trained for seconds, and its tokenizer."""
    folder = tmp_path_factory.mktemp("trained")
    stories.save_checkpoint(folder)
    return folder


@pytest.fixture(scope="session")
def reviews_file(tmp_path_factory):
    """Two hundred texts with tags and entities of HTML and without ids."""
    return stories.save_reviews(tmp_path_factory.mktemp("reviews") / "reviews.jsonl.gz")
