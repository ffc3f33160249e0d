"""Train a byte-level BPE tokenizer on the training texts of a corpus."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import Vocabulary
from embscale.texts import beir, samples
from embscale.texts.splits import TRAIN
from embscale.texts.tokens import END_OF_TEXT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("corpus", type=Path, metavar="FOLDER", help="a folder in the BEIR format")
    flags.add(parser, Vocabulary)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Train on the documents that are not held out, and save in the Hugging Face layout."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    source = beir.corpus_file(args.corpus)
    texts = samples.read_texts(source, split=TRAIN).values()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=args.vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    outputs = [args.output / "tokenizer.json", args.output / "tokenizer_config.json"]
    with write_with_provenance(args, inputs=[source], outputs=outputs) as temporary:
        tokenizer.train_from_iterator(texts, trainer)
        folder = temporary[0].parent / "saved"
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT).save_pretrained(folder)
        for made, target in zip(temporary, outputs, strict=True):
            (folder / target.name).replace(made)
