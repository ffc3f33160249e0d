"""Fetch a tokenizer from the Hugging Face Hub and save it in the form that every command here reads.

The output is always ``tokenizer.json``, whose digest is recorded in every score row.  Where the repository holds this
file, it is kept byte for byte.  Older repositories hold a vocabulary with merges (OPT), or a SentencePiece model alone
(T5 v1.1); these are converted.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import tokenizers
    import transformers

FILES = (
    "config.json",  # some repositories name the tokenizer's class only here
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
)
SETTINGS = {"config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tokenizer", metavar="REPO@COMMIT", help="the commit with all its 40 digits")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Download, load with transformers, save."""
    from embscale.checkpoints.hub import download

    repo, _, commit = args.tokenizer.partition("@")
    part = args.output.with_name(f".{args.output.name}.{commit[:12]}.part")
    found = download(repo, commit, part, names=FILES)
    if found.keys() <= SETTINGS:
        vocabularies = ", ".join(name for name in FILES if name not in SETTINGS)
        raise EmbscaleError(
            f"{args.tokenizer}: holds no tokenizer, only {', '.join(found)}; expected one of {vocabularies}; choose "
            "another commit, or another repository for tokenizer in the registry of suites"
        )
    outputs = [args.output / "tokenizer.json", args.output / "tokenizer_config.json"]
    with write_with_provenance(args, inputs=[], outputs=outputs) as temporary:
        folder = temporary[0].parent / "saved"
        try:
            _save(part, folder)
        except Exception as error:  # the libraries raise bare Exception for a broken file
            cause = str(error).strip().partition("\n")[0]
            raise EmbscaleError(f"{args.tokenizer}: transformers cannot load its tokenizer ({cause})") from error
        for made, target in zip(temporary, outputs, strict=True):
            (folder / target.name).replace(made)
    shutil.rmtree(part)


def _save(published: Path, folder: Path) -> None:
    """Write the tokenizer of a repository's files as ``tokenizer.json`` and ``tokenizer_config.json``."""
    import transformers

    file = published / "tokenizer.json"
    if file.is_file():
        # Not the class that the repository names: those of transformers 5 build the tokenizer anew from its vocabulary.
        fast = transformers.PreTrainedTokenizerFast.from_pretrained(
            published, local_files_only=True, trust_remote_code=False
        )
        fast.save_pretrained(folder)
        shutil.copyfile(file, folder / file.name)
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(published, local_files_only=True, trust_remote_code=False)
    tokenizer.save_pretrained(folder)
    if (published / "spiece.model").is_file():
        _of_sentencepiece(tokenizer).save(str(folder / file.name))


def _of_sentencepiece(tokenizer: transformers.PreTrainedTokenizerBase) -> tokenizers.Tokenizer:
    """T5's tokenizer with the ids of its SentencePiece model.

    The class of transformers 5 splits at every character that is white space in Unicode, SentencePiece only where its
    own normalisation leaves a space: their ids differ in texts with U+0085, such as some reviews.  The library's
    converter for the former class gives SentencePiece's ids.
    """
    from transformers.convert_slow_tokenizer import T5Converter

    tokenizer.add_prefix_space = True  # add_dummy_prefix of the model, which the class does not read
    return T5Converter(tokenizer).converted()
