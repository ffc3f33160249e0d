"""An embedding lookup beside the product with one-hot vectors that gives the same: seconds forwards and backwards.

    python benchmarks/lookup.py [--rows ROWS] [--dims DIMS ...] [--tokens TOKENS] [--threads THREADS] [--repeats TIMES]

The product multiplies tokens x rows x dims numbers where the lookup copies tokens x dims; and it needs the one-hot
vectors, tokens x rows numbers, which are made beforehand and not timed.  Backwards, the lookup scatters its gradient
into a table of zeros, or with sparse=True keeps the used rows alone.  Shortest of the repeats, after one that is not
timed.
"""

import argparse
import time

import torch


def shortest(call, repeats):
    """Seconds of the fastest of several calls."""
    call()
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


def backwards(forwards, table, upstream):
    """A function that runs both ways and gives the table's gradient."""

    def call():
        table.grad = None
        forwards().backward(upstream)
        return table.grad

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_257)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 256, 768])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print(f"{args.tokens} tokens, {args.rows:,} rows, float32, {args.threads} threads; milliseconds")
    print("        |        forwards              |   forwards and backwards")
    print("   dims |   lookup   product     ratio |   lookup    sparse   product     ratio")
    for dims in args.dims:
        table = torch.randn(args.rows, dims, requires_grad=True)
        ids = torch.randint(args.rows, (args.tokens,))
        hot = torch.nn.functional.one_hot(ids, args.rows).float()
        upstream = torch.randn(args.tokens, dims)

        def lookup(table=table, ids=ids):
            return torch.nn.functional.embedding(ids, table)

        def sparse(table=table, ids=ids):
            return torch.nn.functional.embedding(ids, table, sparse=True)

        def product(table=table, hot=hot):
            return hot @ table

        gradients = [backwards(way, table, upstream)() for way in (lookup, sparse, product)]
        torch.testing.assert_close(lookup(), product())
        torch.testing.assert_close(gradients[0], gradients[2])
        torch.testing.assert_close(gradients[0], gradients[1].to_dense())
        ways = [shortest(way, args.repeats) * 1e3 for way in (lookup, product)]
        both = [shortest(backwards(way, table, upstream), args.repeats) * 1e3 for way in (lookup, sparse, product)]
        print(
            f"{dims:7} | {ways[0]:8.3f} {ways[1]:9.2f} {ways[1] / ways[0]:9.0f}"
            f" | {both[0]:8.2f} {both[1]:9.3f} {both[2]:9.2f} {both[2] / both[0]:9.0f}"
        )


if __name__ == "__main__":
    main()
