#!/usr/bin/env bash
# Run by Snakemake in a new conda environment: torch in the build for this machine, then the packages that require it.
#
# For Linux, PyPI has torch for Nvidia's GPUs, which brings several GB of libraries.  Where there is no such GPU, the
# build for processors alone is taken from torch's own index.  That index is asked in a run of pip of its own, so that
# where it cannot be reached one short wait is all that is lost: then PyPI's build serves, as it runs without a GPU too.
# CONDA_OVERRIDE_CUDA, with which conda itself is told of a GPU that it cannot see, chooses the build for GPUs, as on
# the front end of a cluster.
set -euo pipefail

torch=torch==2.13.0
if [ "$(uname)" = Linux ] && [ -z "${CONDA_OVERRIDE_CUDA:-}" ] && ! nvidia-smi --list-gpus > /dev/null 2>&1; then
    python -m pip install --no-deps --retries 1 --timeout 10 \
        --index-url https://download.pytorch.org/whl/cpu "$torch" ||
        echo "torch's own index has no $torch for this machine or cannot be reached; PyPI's build is installed"
fi
# Adds what an installed build still lacks, and nothing else.
python -m pip install "$torch"
python -m pip install --no-deps mteb==2.26.24 sentence-transformers==6.2.0
