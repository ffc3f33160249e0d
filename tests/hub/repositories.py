"""Small genuine repositories: checkpoints of every family in every container, and two kinds of data sets."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub import tokenizer_layouts
from hub.tokenizer_layouts import SENTENCES

if TYPE_CHECKING:
    import numpy as np
    import torch

VOCABULARY = 300  # of `save_tokenizer`
ROWS = 352  # of a table, more than any tokenizer here has, as in many real checkpoints
WIDTH = 32
PLACES = 64
BLOCKS = 2

CONTAINERS = ("safetensors", "safetensors-sharded", "bin", "bin-sharded", "legacy")

# A kind of checkpoint: its model_type, and what its config says beside the sizes that all share.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neox": ("gpt_neox", {}),
    "opt": ("opt", {}),
    "opt-projected": ("opt", {"word_embed_proj_dim": WIDTH // 2, "do_layer_norm_before": False}),  # as opt-350m
    "gpt2": ("gpt2", {}),
    "bloom": ("bloom", {}),
    "t5": ("t5", {}),
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", {}),
    "gemma3_text": ("gemma3_text", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "olmo2": ("olmo2", {}),
}

# Sizes under the names that most families know them by, then the others' own names.
SIZES: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": WIDTH // 2,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": PLACES,
    "vocab_size": ROWS,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
NAMES: dict[str, dict[str, Any]] = {
    "opt": {"ffn_dim": 2 * WIDTH, "word_embed_proj_dim": WIDTH},
    "bloom": {"n_layer": BLOCKS, "n_head": 2},
    "gpt2": {"n_embd": WIDTH, "n_layer": BLOCKS, "n_head": 2, "n_positions": PLACES},
    "t5": {"d_model": WIDTH, "d_kv": WIDTH // 2, "d_ff": 2 * WIDTH, "num_layers": BLOCKS, "num_heads": 2}
    | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}

# Beginnings of names in memory, and what published checkpoints write instead.
ON_DISK: dict[str, dict[str, str]] = {
    "gpt_neox": {"lm_head.": "embed_out."},
    "gpt2": {"transformer.": ""},
    "bloom": {"transformer.": ""},
    "opt-projected": {"model.decoder.": "decoder."},
}

# What older versions of the library saved beside the weights of a block: masks, as bytes or truth values.
BUFFERS = {"gpt_neox": ("gpt_neox.layers.{}.attention", "uint8"), "gpt2": ("h.{}.attn", "bool")}

WORDS = tuple(f"word{i}" for i in range(60))

# Whose tokenizer a kind of checkpoint has, a key of `tokenizer_layouts.LAYOUTS`, where it is not of its own name.
TOKENIZERS = {
    "opt-projected": "opt",
    "llama": "llama2",
    "llama-tied": "llama3",
    "gemma2": "gemma",
    "gemma3_text": "gemma",
    "qwen2": "qwen",
    "qwen3": "qwen",
}


def save(
    model: str,
    container: str,
    folder: Path,
    *,
    dtype: str = "float32",
    seed: int = 0,
    tokenizer: str | None = None,
    table: np.ndarray | None = None,
    **overrides: Any,
) -> dict[str, torch.Tensor]:
    """Write a checkpoint with random weights, its config and a tokenizer in the files of its suite.

    Args:
        model: a key of `MODELS`.
        container: one of `CONTAINERS`.
        folder: made if it is missing.
        dtype: float16, bfloat16 or float32.
        seed: of the weights.
        tokenizer: a key of `tokenizer_layouts.LAYOUTS`; without one, that of the kind.
        table: the input table, rows and columns as in the config; random without one.
        overrides: entries of the config.

    Returns:
        What the weights' files hold, under the names that they have there.
    """
    import torch
    import transformers
    from huggingface_hub import save_torch_state_dict

    model_type, changes = MODELS[model]
    settings = SIZES | NAMES.get(model_type, {}) | changes | overrides
    config = transformers.AutoConfig.for_model(model_type, **settings)
    auto = transformers.AutoModelForSeq2SeqLM if model_type == "t5" else transformers.AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        built = auto.from_config(config)
        for name, weight in built.named_parameters():
            # Norms start as ones or zeros, which would hide that a norm was left out.
            if weight.ndim == 1 and ("norm" in name.lower() or ".ln_" in name):
                weight.add_(torch.rand_like(weight))
        if model_type == "t5":
            # The library ties the output table unless a checkpoint, as those of version 1.1, holds another.
            built.lm_head.weight = torch.nn.Parameter(torch.randn(settings["vocab_size"], settings["d_model"]))
        if table is not None:
            built.get_input_embeddings().weight.copy_(torch.from_numpy(table))
        built.to(getattr(torch, dtype))
    state = {_on_disk(model, name): tensor.detach() for name, tensor in built.state_dict().items()}
    state |= _buffers(model_type, getattr(torch, dtype))
    aliases = [name for i, (name, tensor) in enumerate(state.items()) if _is_in(tensor, list(state.values())[:i])]

    folder.mkdir(parents=True, exist_ok=True)
    if container == "legacy":
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    else:
        size = sum(tensor.nbytes for tensor in state.values())
        save_torch_state_dict(
            state,
            folder,
            max_shard_size=size // 3 if container.endswith("-sharded") else 2 * size,
            safe_serialization=container.startswith("safetensors"),
            shared_tensors_to_discard=aliases,
        )
    if container.startswith("safetensors"):
        state = {name: tensor for name, tensor in state.items() if name not in aliases}
    config.architectures, config.dtype = [type(built).__name__], dtype
    config.save_pretrained(folder)
    if "tie_word_embeddings" in settings:
        # What the library makes of this setting of T5 is not what it must read again.
        path = folder / "config.json"
        said = json.loads(path.read_text("utf-8")) | {"tie_word_embeddings": settings["tie_word_embeddings"]}
        path.write_text(json.dumps(said, indent=2), "utf-8")
    tokenizer_layouts.save(tokenizer or TOKENIZERS.get(model, model), folder)
    return state


def _on_disk(model: str, name: str) -> str:
    for beginning, instead in ON_DISK.get(model, {}).items():
        if name.startswith(beginning):
            return instead + name.removeprefix(beginning)
    return name


def _is_in(tensor: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether one of `others` is the same memory: a tied table."""
    return any(tensor.data_ptr() == other.data_ptr() for other in others)


def _buffers(model_type: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    import torch

    mask = torch.ones(PLACES, PLACES).tril().reshape(1, 1, PLACES, PLACES)
    found = {}
    if model_type in BUFFERS:
        prefix, mask_dtype = BUFFERS[model_type]
        for block in range(BLOCKS):
            found[f"{prefix.format(block)}.bias"] = mask.to(getattr(torch, mask_dtype))
            found[f"{prefix.format(block)}.masked_bias"] = torch.tensor(-1e4, dtype=dtype)
    return found


def save_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer of no suite in the Hugging Face layout."""
    (folder / "tokenizer.json").write_text(_tokenizer(), "utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


@functools.cache
def _tokenizer() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|end|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return str(tokenizer.to_str())


def save_retrieval(
    folder: Path, *, suffix: str = "jsonl", documents: int = 40, queries: int = 8, words: Sequence[str] = WORDS
) -> dict[str, Any]:
    """Write a retrieval task as MTEB's repositories have it: configurations default (judgements), corpus, queries.

    Args:
        folder: made if it is missing.
        suffix: type of all files, jsonl or parquet; `datasets` reads one type in a repository.
        documents: random words; some have no title, one has no text.
        queries: words of the two documents that are relevant.
        words: of which texts are made.

    Returns:
        ``documents`` and ``queries`` by id, and ``qrels``: by query the grades of documents.
    """
    rows, truth = _retrieval(documents, queries, words)
    names = {"default": ("test", "qrels/test"), "corpus": ("corpus", "corpus"), "queries": ("queries", "queries")}
    for name, part in zip(names.values(), rows, strict=True):
        _write_rows(folder / f"{name[1]}.{suffix}", part)
    _write_card(folder, {config: {split: f"{path}.{suffix}"} for config, (split, path) in names.items()})
    return truth


def save_retrieval_by_language(
    folder: Path, words: Mapping[str, Sequence[str]], *, split: str = "validation"
) -> dict[str, dict[str, Any]]:
    """Write a retrieval task in several languages as MTEB's repositories have it: three configurations for each.

    Args:
        folder: made if it is missing.
        words: by language, of which texts are made.
        split: of every configuration.

    Returns:
        By language the values of `save_retrieval`.
    """
    configs, truths = {}, {}
    for language, its in words.items():
        rows, truths[language] = _retrieval(20, 8, its)
        for kind, part in zip(("qrels", "corpus", "queries"), rows, strict=True):
            config = f"{language}-{kind}"
            configs[config] = {split: f"{config}/{split}-00000-of-00001.parquet"}
            _write_rows(folder / configs[config][split], part)
    _write_card(folder, configs)
    return truths


def _retrieval(documents: int, queries: int, words: Sequence[str]) -> tuple[tuple[list[dict[str, Any]], ...], Any]:
    """Rows of judgements, corpus and queries, and what they hold as `save_retrieval` returns it."""
    chance = random.Random(0)
    corpus = [
        {"_id": f"d{i}", "title": " ".join(chance.choices(words, k=3 if i % 4 else 0)), "text": _text(chance, words, i)}
        for i in range(documents)
    ]
    asked: list[dict[str, Any]] = []
    judged: list[dict[str, Any]] = []
    for i in range(queries):
        relevant = [2 * i + 1, 2 * i + 2]
        asked.append({"_id": f"q{i}", "text": " ".join(" ".join(corpus[j]["text"].split()[:3]) for j in relevant)})
        judged += [{"query-id": f"q{i}", "corpus-id": f"d{j}", "score": 1} for j in relevant]
        judged += [{"query-id": f"q{i}", "corpus-id": f"d{2 * i + 3}", "score": 0}]
    qrels: dict[str, dict[str, int]] = {}
    for row in judged:
        qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = row["score"]
    truth = {
        "documents": {row["_id"]: (row["title"], row["text"]) for row in corpus},
        "queries": {row["_id"]: row["text"] for row in asked},
        "qrels": qrels,
    }
    return (judged, corpus, asked), truth


def _text(chance: random.Random, words: Sequence[str], place: int) -> str:
    return "" if place == 0 else " ".join(chance.choices(words, k=12)) + "."


def save_texts(folder: Path, *, rows: int = 20) -> dict[str, list[dict[str, Any]]]:
    """Write labelled texts as the IMDB reviews have them: configuration plain_text, three splits, line breaks.

    Returns:
        By split the rows: ``text`` and ``label``, which is -1 where there is none.
    """
    splits = {
        split: [{"text": f"{SENTENCES[i % 4]}<br /><br />{split} {i}.", "label": label or i % 2} for i in range(rows)]
        for split, label in {"train": 0, "test": 0, "unsupervised": -1}.items()
    }
    files = {split: f"plain_text/{split}-00000-of-00001.parquet" for split in splits}
    for split, file in files.items():
        _write_rows(folder / file, splits[split])
    _write_card(folder, {"plain_text": files})
    return splits


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _write_card(folder: Path, configs: Mapping[str, Mapping[str, str]]) -> None:
    """The README, whose first lines say which files belong to which configuration and split."""
    listed = [
        {"config_name": name, "data_files": [{"split": split, "path": path} for split, path in files.items()]}
        for name, files in configs.items()
    ]
    # JSON is YAML.
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(listed)}\n---\nMade for a test.\n", "utf-8")
