"""Tokenizers of each suite in the files that its repositories hold, trained on a few sentences.

What each repository holds, and which settings its files state, is that of the published ones; only the vocabularies are
small.  A vocabulary with its merges may be arranged in many ways: which ids the special tokens have, what splits the
text before merges, and what stands around it afterwards differs from suite to suite.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

SENTENCES = [
    "The table of a model holds one row for each token.",
    "A layer adds to the vectors that the layer before it handed on.",
    "Which layer does a vector come from? A linear probe can often tell.",
    "Wide models have long rows, narrow models have short ones.",
]
# The words of the tasks of the hub besides, so that a small vocabulary has pieces for them.
TEXTS = [*SENTENCES, *(f"word{i} and word{i + 1}, or word{7 * i}!" for i in range(60))]

END = "<|endoftext|>"
# How a text is split before merges, as the published tokenizers state it.
CONTRACTIONS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TRIPLETS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SINGLE_DIGITS = TRIPLETS.replace(r"\p{N}{1,3}", r"\p{N}")
PUNCTUATION = r" ?[^(\s|[.,!?…。，、।۔،])]+"

MERGES = 30


@functools.cache
def byte_level() -> tuple[list[str], list[tuple[str, str]]]:
    """The characters of all bytes and the merged tokens, in the order of their ids; and the merges in order."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=256 + MERGES, initial_alphabet=alphabet, show_progress=False)
    )
    trained = json.loads(tokenizer.to_str())["model"]
    return sorted(trained["vocab"], key=trained["vocab"].get), [tuple(pair) for pair in trained["merges"]]


@functools.cache
def sentencepiece_model(**settings: Any) -> bytes:
    """A SentencePiece model, trained with these settings."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, character_coverage=1.0, minloglevel=2, **settings
    )
    return model.getvalue()


def _text(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content, "utf-8")


def _settings(folder: Path, said: dict[str, Any], *, map_too: bool = True) -> None:
    """The settings; names of special tokens also in the file that the hub's older repositories have."""
    _text(folder, "tokenizer_config.json", json.dumps(said))
    if map_too:
        special = {name: token for name, token in said.items() if name.endswith("_token") and isinstance(token, str)}
        _text(folder, "special_tokens_map.json", json.dumps(special))


def _vocabulary(tokens: Iterable[str]) -> dict[str, int]:
    return {token: place for place, token in enumerate(tokens)}


def _vocabulary_files(folder: Path, vocabulary: dict[str, int]) -> None:
    """vocab.json and merges.txt."""
    _text(folder, "vocab.json", json.dumps(vocabulary, ensure_ascii=False))
    _text(folder, "merges.txt", "\n".join(["#version: 0.2", *map(" ".join, byte_level()[1])]) + "\n")


def _json(
    folder: Path, vocabulary: dict[str, int], *, splits: Sequence[Any], special: Sequence[str] = (), **parts: Any
) -> None:
    """A tokenizer.json with byte-level merges.

    Args:
        folder: gets the file.
        vocabulary: ids by token.
        splits: the pre-tokenizers, one after the other.
        special: tokens that no text is split into; those that the vocabulary lacks get the next ids.
        parts: other attributes, and ``ignore_merges`` of the model.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    whole = parts.pop("ignore_merges", False)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=byte_level()[1], ignore_merges=whole))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(splits)) if len(splits) > 1 else splits[0]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.save(str(folder / "tokenizer.json"))


def _gpt2(folder: Path) -> None:
    """openai-community/gpt2: both forms; the settings name no class."""
    from tokenizers import pre_tokenizers, processors

    vocabulary = _vocabulary([*byte_level()[0], END])
    _vocabulary_files(folder, vocabulary)
    after = processors.ByteLevel(trim_offsets=False)
    _json(
        folder, vocabulary, splits=[pre_tokenizers.ByteLevel(add_prefix_space=False)], special=[END],
        post_processor=after,
    )  # fmt: skip
    _settings(folder, {"model_max_length": 1024}, map_too=False)


def _opt(folder: Path) -> None:
    """facebook/opt-*: vocabulary and merges alone, in fairseq's order; </s> stands in front of a text."""

    def added(token: str) -> dict[str, Any]:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        return {"content": token, **flags, "normalized": True, "__type": "AddedToken"}

    _vocabulary_files(folder, _vocabulary(["<s>", "<pad>", "</s>", "<unk>", *byte_level()[0], "<mask>"]))
    said = {f"{name}_token": added("</s>") for name in ("unk", "bos", "eos")} | {"pad_token": added("<pad>")}
    more = {"errors": "replace", "add_prefix_space": False, "add_bos_token": True, "tokenizer_class": "GPT2Tokenizer"}
    _settings(folder, said | more)


def _gpt_neox(folder: Path) -> None:
    """EleutherAI/*: special tokens first, runs of spaces behind the vocabulary."""
    from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors

    vocabulary = _vocabulary([END, "<|padding|>", *byte_level()[0]])
    _vocabulary_files(folder, vocabulary)
    _json(
        folder, vocabulary, splits=[pre_tokenizers.ByteLevel(add_prefix_space=False)], special=[END, "<|padding|>"],
        normalizer=normalizers.NFC(), post_processor=processors.ByteLevel(add_prefix_space=False),
    )  # fmt: skip
    file = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 3, 2)])
    tokenizer.save(file)
    said = {f"{name}_token": END for name in ("unk", "bos", "eos")}
    _settings(folder, said | {"add_prefix_space": False, "tokenizer_class": "GPTNeoXTokenizer"})


def _bloom(folder: Path) -> None:
    """bigscience/bloom*: tokenizer.json alone, of a class that the library has no longer."""
    from tokenizers import Regex, pre_tokenizers, processors

    special = ["<unk>", "<s>", "</s>", "<pad>"]
    splits = [
        pre_tokenizers.Split(Regex(PUNCTUATION), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    after = processors.ByteLevel(add_prefix_space=False)
    _json(folder, _vocabulary([*special, *byte_level()[0]]), splits=splits, special=special, post_processor=after)
    said = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), special, strict=True))
    _settings(folder, said | {"add_prefix_space": False, "tokenizer_class": "BloomTokenizerFast"})


def _llama3(folder: Path) -> None:
    """meta-llama/Llama-3*: tokenizer.json alone, whole words before merges, the beginning of text in front."""
    from tokenizers import Regex, Tokenizer, pre_tokenizers, processors

    begin, end = "<|begin_of_text|>", "<|end_of_text|>"
    splits = [
        pre_tokenizers.Split(Regex(TRIPLETS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    _json(folder, _vocabulary(byte_level()[0]), splits=splits, special=[begin, end], ignore_merges=True)
    file = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), _in_front(tokenizer, begin)])
    tokenizer.save(file)
    _settings(folder, {"bos_token": begin, "eos_token": end, "tokenizer_class": "PreTrainedTokenizerFast"})


def _in_front(tokenizer: Any, token: str) -> Any:
    from tokenizers import processors

    return processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, tokenizer.token_to_id(token))]
    )


def _qwen(folder: Path) -> None:
    """Qwen/*: both forms; special tokens behind the vocabulary, and none around a text."""
    from tokenizers import Regex, normalizers, pre_tokenizers, processors

    vocabulary = _vocabulary(byte_level()[0])
    _vocabulary_files(folder, vocabulary)
    splits = [
        pre_tokenizers.Split(Regex(SINGLE_DIGITS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    parts = {"normalizer": normalizers.NFC(), "post_processor": processors.ByteLevel(add_prefix_space=False)}
    _json(folder, vocabulary, splits=splits, special=[END, "<|im_start|>", "<|im_end|>"], **parts)
    said = {"eos_token": END, "pad_token": END, "add_prefix_space": False, "tokenizer_class": "Qwen2Tokenizer"}
    _settings(folder, said, map_too=False)


def _smollm2(folder: Path) -> None:
    """HuggingFaceTB/SmolLM2-*: both forms; GPT-2's class, but single digits, which only tokenizer.json states."""
    from tokenizers import pre_tokenizers

    vocabulary = _vocabulary([END, "<|im_start|>", "<|im_end|>", *byte_level()[0]])
    _vocabulary_files(folder, vocabulary)
    splits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    _json(folder, vocabulary, splits=splits, special=[END, "<|im_start|>", "<|im_end|>"])
    said = {f"{name}_token": END for name in ("unk", "bos", "eos")}
    _settings(folder, said | {"add_prefix_space": False, "tokenizer_class": "GPT2Tokenizer"})


def _olmo2(folder: Path) -> None:
    """allenai/OLMo-2-*: both forms; GPT-2's class, but numbers in threes, which only tokenizer.json states."""
    from tokenizers import Regex, pre_tokenizers

    vocabulary = _vocabulary([*byte_level()[0], END, "<|pad|>"])
    _vocabulary_files(folder, vocabulary)
    splits = [
        pre_tokenizers.Split(Regex(TRIPLETS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    _json(folder, vocabulary, splits=splits, special=[END, "<|pad|>"])
    said = {"bos_token": END, "eos_token": END, "pad_token": "<|pad|>", "tokenizer_class": "GPT2Tokenizer"}
    _settings(folder, said | {"add_prefix_space": False})


def _t5(folder: Path) -> None:
    """google/t5-v1_1-*: a unigram model alone; the class adds a hundred sentinels."""
    model = sentencepiece_model(
        model_type="unigram", vocab_size=160, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1
    )
    (folder / "spiece.model").write_bytes(model)
    said = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 100}
    _settings(folder, said | {"additional_special_tokens": [f"<extra_id_{i}>" for i in range(100)]})


BYTE_FALLBACK = {
    "model_type": "bpe", "vocab_size": 330, "byte_fallback": True, "split_digits": True,
    "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
}  # fmt: skip


def _llama2(folder: Path) -> None:
    """meta-llama/Llama-2-*: a SentencePiece model and its tokenizer.json; a space and <s> in front."""
    from tokenizers import normalizers

    model = sentencepiece_model(**BYTE_FALLBACK)
    (folder / "tokenizer.model").write_bytes(model)
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    _converted(folder, model, ("<unk>", "<s>", "</s>"), begin="<s>", normalizer=spaces)
    said = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "legacy": False}
    _settings(folder, said | {"add_eos_token": False, "tokenizer_class": "LlamaTokenizer"})


def _gemma(folder: Path) -> None:
    """google/gemma-*: the same without the space; <bos> in front."""
    from tokenizers import normalizers, pre_tokenizers

    special = {"pad": 0, "eos": 1, "bos": 2, "unk": 3}
    model = sentencepiece_model(
        **BYTE_FALLBACK, add_dummy_prefix=False, bos_piece="<bos>", eos_piece="<eos>",
        **{f"{name}_id": place for name, place in special.items()},
    )  # fmt: skip
    (folder / "tokenizer.model").write_bytes(model)
    before = pre_tokenizers.Split(" ", "merged_with_previous")
    names = [f"<{name}>" for name in special]
    _converted(folder, model, names, begin="<bos>", normalizer=normalizers.Replace(" ", "▁"), pre_tokenizer=before)
    said = {f"{name}_token": f"<{name}>" for name in special}
    _settings(folder, said | {"add_bos_token": True, "add_eos_token": False, "tokenizer_class": "GemmaTokenizer"})


def _converted(folder: Path, model: bytes, special: Sequence[str], *, begin: str, **parts: Any) -> None:
    """The tokenizer.json of a SentencePiece model with merges: two pieces merge in the order of what they become."""
    import sentencepiece
    from tokenizers import Tokenizer, decoders, models

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = {processor.id_to_piece(place): place for place in range(processor.get_piece_size())}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in vocabulary
        if piece not in special and not (piece.startswith("<0x") and len(piece) == 6)
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    made = models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(made)
    tokenizer.add_special_tokens(list(special))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.post_processor = _in_front(tokenizer, begin)
    tokenizer.save(str(folder / "tokenizer.json"))


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "gpt2": _gpt2,
    "opt": _opt,
    "gpt_neox": _gpt_neox,
    "bloom": _bloom,
    "t5": _t5,
    "llama2": _llama2,
    "llama3": _llama3,
    "gemma": _gemma,
    "qwen": _qwen,
    "smollm2": _smollm2,
    "olmo2": _olmo2,
}


def save(layout: str, folder: Path) -> None:
    """Write a tokenizer in the files of a suite's repositories.

    Args:
        layout: a key of `LAYOUTS`.
        folder: made if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    LAYOUTS[layout](folder)
