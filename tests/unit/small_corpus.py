"""A corpus of sixty short texts, a third of it held out, with its tokens and a tokenizer of whole words."""

import json

import numpy as np

from embscale.texts import tokens

# What a file of tokens must say of itself.
MADE_OF = {"data_sha256": "x", "tokenizer_sha256": "y", "max_length": 9, "special_tokens": "exclude"}


def save_corpus(folder):
    """Write ``corpus.jsonl``, ``tokens.safetensors`` and the tokenizer; token 0 separates, token 13 is never seen."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [tokens.END_OF_TEXT, *(f"word{i}" for i in range(12)), "never"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}), "utf-8")
    generator = np.random.default_rng(0)
    texts = [" ".join(f"word{i}" for i in generator.integers(0, 12, 20)) for _ in range(60)]
    lines = [
        json.dumps({"_id": str(i), "text": text, "metadata": {"split": "heldout" if i % 3 == 0 else "train"}})
        for i, text in enumerate(texts)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    made = tokens.tokenise(texts, tokenizer, max_length=100, special_tokens=False)
    tokens.save(folder / "tokens.safetensors", {"documents": made}, MADE_OF)
