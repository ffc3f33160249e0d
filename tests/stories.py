"""A model that was really trained, if only for seconds: a small Llama on stories of a few words, and its tokenizer.

Its tokenizer is of the SentencePiece kind, as Llama's: a word's start is marked, and `<s>` stands before each text.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np

WHO = ("the dog", "a small girl", "his mother", "her brother", "the old man", "he", "she", "Tom", "a bird", "the king")
DID = ("found", "saw", "wanted", "took", "lost", "liked", "gave away", "looked for", "hid", "carried")
WHAT = ("a red ball", "the big tree", "his hat", "her book", "some bread", "a box", "the key", "water", "a long rope")
HOW = ("in the park", "at home", "every day", "with a smile", "in the rain", "before lunch", "near the river", "again")
VOCABULARY = 200
CONTEXT = 64


def story(chance: random.Random, sentences: int) -> list[str]:
    """Sentences of the same few words."""
    return [
        f"{', '.join(' '.join(map(chance.choice, (WHO, DID, WHAT, HOW))) for _ in range(2))}." for _ in range(sentences)
    ]


def save_reviews(path: Path, count: int = 200) -> Path:
    """Write texts as reviews of films are published: line breaks and entities of HTML, a label, and no ids."""
    chance = random.Random(1)
    rows = [
        {"text": f"{'<br /><br />'.join(story(chance, chance.randint(1, 9)))} <b>Good &amp; bad</b>", "label": i % 2}
        for i in range(count)
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0))
    return path


def save_checkpoint(folder: Path, *, blocks: int = 3, steps: int = 60) -> None:
    """Train the model and write it with its tokenizer, in the Hugging Face layout."""
    import torch
    import transformers

    chance = random.Random(0)
    stories = [" ".join(story(chance, 4)) for _ in range(300)]
    tokenizer = _save_tokenizer(folder, stories)
    ids = np.concatenate([tokenizer.encode(text).ids for text in stories])
    sequences = torch.from_numpy(ids[: len(ids) // CONTEXT * CONTEXT].reshape(-1, CONTEXT))
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=blocks, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=2 * CONTEXT, tie_word_embeddings=True,
        initializer_range=0.1, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for _ in range(steps):
            batch = sequences[torch.randint(len(sequences), (16,))]
            loss = model(batch, labels=batch).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    assert loss.item() < 4.5  # of ln 200 = 5.3 before training
    model.save_pretrained(folder)


def _save_tokenizer(folder, stories):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.decoder = decoders.Replace("▁", " ")
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"])
    tokenizer.train_from_iterator([*stories, "<b>Good &amp; bad</b>"], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return tokenizer
