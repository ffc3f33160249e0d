"""Score one further table: our pooling and search beside sentence-transformers' StaticEmbedding and MTEB's search.

    python benchmarks/pooling.py TASK_FOLDER TOKENIZER_FOLDER [DIMS ...]

Both routes end in MTEB's metrics and run in this one process, in turn; the ratio is what counts.
"""

import statistics
import sys
import time
from pathlib import Path

import mteb
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from embscale import beir, random_tables, tokens
from embscale.retrieval import FolderTask, Scorer

ROUNDS = 3


def seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def main(task, tokenizer_folder, dims):
    data = beir.load(Path(task))
    tokenizer = tokens.load_tokenizer(Path(tokenizer_folder))
    groups = [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=2048, special_tokens=False)
        for texts in (data.documents, data.queries)
    ]
    scorer = Scorer(data, *groups)
    print(f"{len(data.documents)} documents, {len(data.queries)} queries, {torch.get_num_threads()} threads")
    print("dims  ours, s  plain, s  ratio")
    for dim in dims:
        table = random_tables.independent(tokenizer.get_vocab_size(), dim, seed=0)

        def ours(table=table):
            scorer.per_query(table, ["ndcg_at_10"])

        def plain(table=table):
            static = StaticEmbedding(tokens.load_tokenizer(Path(tokenizer_folder)), embedding_weights=table)
            reference = FolderTask(data)
            reference.load_data()
            model = SentenceTransformer(modules=[static], device="cpu")
            mteb.evaluate(model, reference, cache=None, show_progress_bar=False)

        ours()  # the first call pays for imports
        pairs = [(seconds(ours), seconds(plain)) for _ in range(ROUNDS)]
        fast, slow = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{dim:4d}  {fast:7.2f}  {slow:8.2f}  {slow / fast:5.1f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(text) for text in sys.argv[3:]] or [64, 256, 1024])
