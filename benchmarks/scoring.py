"""Score tables of several widths by our route and by others: seconds and ratios.

    python benchmarks/scoring.py [--beir FOLDER --tokenizer FOLDER] [--dims DIMS ...]

Without a folder the corpus is synthetic, of SciFact's size.  All routes run in this one process and end in MTEB's
metrics.

study     the first study's: each text encoded by itself, bfloat16 rows, mean pooling in batches of 16, MTEB's search
static    sentence-transformers' StaticEmbedding, MTEB's search
cold      ours, from texts; in brackets what of it is tokenising
ours      ours for one further table, once the texts are tokenised

A second table is of pooling alone, from the same token ids: ours, torch's `embedding_bag` on float32, the module of
sentence-transformers' StaticEmbedding, and model2vec's StaticModel.

The last column of both is the largest difference: of any query's metric between ours and the study's route, and of any
value of a text's vector between ours and the others, in units of the largest value.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

import mteb
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from embscale.scoring.mteb_task import FolderTask
from embscale.scoring.retrieval import PooledTexts, Scorer
from embscale.tables import random_tables
from embscale.texts import beir, tokens

METRICS = ["ndcg_at_10", "map_at_100", "recall_at_100"]
MAX_LENGTH = 2048
ROUNDS, SLOW_ROUNDS = 7, 2


class EachByItself(InputModule):
    """The first study's tokenising, look-up and pooling: bfloat16 rows times a float32 mask, the rest in float32."""

    def __init__(self, tokenizer, table):
        super().__init__()
        self.tokenizer = tokenizer
        self.table = torch.nn.Embedding.from_pretrained(torch.as_tensor(table).bfloat16())

    def preprocess(self, inputs, prompt=None, **kwargs):
        ids = [self.tokenizer.encode(text, max_length=MAX_LENGTH, truncation=True) for text in inputs]
        length = max(map(len, ids))
        padded = torch.tensor([row + [0] * (length - len(row)) for row in ids], dtype=torch.long)
        mask = torch.arange(length) < torch.tensor([[len(row)] for row in ids])
        return {"input_ids": padded, "attention_mask": mask.float()}

    def forward(self, features, **kwargs):
        mask = features["attention_mask"].unsqueeze(-1)
        rows = self.table(features["input_ids"])
        expanded = mask.expand(rows.shape).float()
        pooled = (rows * expanded).sum(1) / expanded.sum(1).clamp(min=1e-9)
        return features | {"sentence_embedding": pooled}

    def get_embedding_dimension(self):
        return self.table.embedding_dim

    def save(self, *args, **kwargs):
        raise NotImplementedError("a benchmark is not saved")


def synthetic(folder, documents=5183):
    """Texts of SciFact's number and length over Zipf-distributed words, and a tokenizer of those words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    generator, words = np.random.default_rng(0), 50_304
    chances = 1 / np.arange(1, words + 1)

    def text(length):
        return " ".join(f"w{i}" for i in generator.choice(words, length, p=chances / chances.sum()))

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    documents = {f"d{i}": text(length) for i, length in enumerate(generator.poisson(300, documents))}
    queries = {f"q{i}": text(20) for i in range(300)}
    qrels = {query: {f"d{i}": 1} for i, query in enumerate(queries)}
    return beir.RetrievalData("Synthetic", documents, queries, qrels, "0" * 64), folder


def tokenised(data, folder):
    tokenizer = tokens.load_tokenizer(folder)
    return [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=MAX_LENGTH, special_tokens=True)
        for texts in (data.documents, data.queries)
    ]


def through_mteb(data, model, **encode):
    task = FolderTask(data)
    task.load_data()
    mteb.evaluate(model, task, cache=None, show_progress_bar=False, encode_kwargs=encode | {"show_progress_bar": False})
    return task.per_query


def seconds(function, rounds=ROUNDS):
    """The shortest of several rounds, the one that other work has disturbed least, and what came of the last."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - started)
    return min(times), result


def beside(took, name, unit):
    """Seconds, and how many times as long as another."""
    return f"{took[name]:.3g} ({took[name] / took[unit]:.3g})"


def compare(data, folder, widths):
    from transformers import AutoTokenizer

    slow_tokenizer = AutoTokenizer.from_pretrained(folder)
    groups = tokenised(data, folder)
    scorer = Scorer(data, *groups)
    rows = rows_of(folder, groups)
    tokenising, _ = seconds(lambda: tokenised(data, folder), SLOW_ROUNDS)
    print("\n| dims | ours | cold | study | static | study / cold | difference |\n|---|---|---|---|---|---|---|")
    for dims in widths:
        table = random_tables.faithful(rows, dims, 42)

        def ours(table=table):
            return scorer.per_query(table, METRICS)

        def cold(table=table):
            return Scorer(data, *tokenised(data, folder)).per_query(table, METRICS)

        def study(table=table):
            model = SentenceTransformer(modules=[EachByItself(slow_tokenizer, table)], device="cpu")
            return through_mteb(data, model, batch_size=16)

        def static(table=table):
            embedding = StaticEmbedding(tokens.load_tokenizer(folder), embedding_weights=table)
            return through_mteb(data, SentenceTransformer(modules=[embedding], device="cpu"))

        ours()  # the first call pays for imports
        took, results = {}, {}
        for function in (ours, cold, study, static):
            rounds = ROUNDS if function is ours else SLOW_ROUNDS
            took[function.__name__], results[function.__name__] = seconds(function, rounds)
        theirs = results["study"]
        off = max(abs(row[name] - theirs[query][name]) for query, row in results["ours"].iterrows() for name in METRICS)
        cells = [dims, f"{took['ours']:.3g}", f"{beside(took, 'cold', 'ours')} [{tokenising:.3g}]"]
        cells += [beside(took, name, "ours") for name in ("study", "static")]
        cells += [f"{took['study'] / took['cold']:.3g}", f"{off:.1e}"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def pooling(data, folder, widths):
    from model2vec import StaticModel

    class GivenTokens(StaticModel):
        """model2vec's model without its tokenising."""

        def tokenize(self, sentences):
            return sentences

    groups = tokenised(data, folder)
    texts, rows = PooledTexts(groups[0]), rows_of(folder, groups)
    ids, offsets = torch.from_numpy(groups[0].ids).long(), torch.from_numpy(groups[0].offsets)
    lists = [groups[0][i].tolist() for i in range(len(groups[0]))]
    tokenizer = tokens.load_tokenizer(folder)
    print("\n| dims | ours | embedding_bag | StaticEmbedding | model2vec | difference |\n|---|---|---|---|---|---|")
    for dims in widths:
        table = random_tables.faithful(rows, dims, 42)
        weights = torch.from_numpy(table)
        static = StaticEmbedding(tokenizer, embedding_weights=table).requires_grad_(False)
        given = GivenTokens(table[: tokenizer.get_vocab_size()], tokenizer)
        routes = {
            "ours": lambda weights=weights: texts.pool(weights),
            "embedding_bag": lambda weights=weights: torch.nn.functional.embedding_bag(
                ids, weights, offsets, mode="mean", include_last_offset=True
            ),
            "StaticEmbedding": lambda static=static: static({"input_ids": ids, "offsets": offsets[:-1]})[
                "sentence_embedding"
            ],
            "model2vec": lambda given=given: torch.from_numpy(given._encode_batch(lists, False)),
        }
        took, results = {}, {}
        for name, function in routes.items():
            took[name], results[name] = seconds(function, SLOW_ROUNDS if name == "model2vec" else ROUNDS)
        off = max(float((results["ours"] - vectors).abs().max()) for vectors in results.values())
        cells = [dims, f"{took['ours']:.3g}", *(beside(took, name, "ours") for name in list(routes)[1:])]
        print(f"| {' | '.join(map(str, cells))} | {off / float(weights.abs().max()):.1e} |", flush=True)


def rows_of(folder, groups):
    """Rows that a table needs: some tokenizers give ids beyond their own count."""
    highest = max(int(group.ids.max()) for group in groups)
    return max(tokens.load_tokenizer(folder).get_vocab_size(), highest + 1)


def run(data, folder, widths):
    print(f"{len(data.documents)} documents, {len(data.queries)} queries, {torch.get_num_threads()} threads, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}; seconds, in round brackets: how many times as long as ours")
    compare(data, folder, widths)
    pooling(data, folder, widths)


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beir", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--dims", type=int, nargs="+", default=[128, 1024, 5120])
    args = parser.parse_args()
    if args.beir:
        run(beir.load(args.beir), args.tokenizer, args.dims)
        return
    with tempfile.TemporaryDirectory() as scratch:
        run(*synthetic(Path(scratch)), args.dims)


if __name__ == "__main__":
    main()
