"""The logit lens against the library's own logits, and on states whose answer is known."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from embscale.checkpoints.families import FAMILIES
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import hidden_states, logit_lens, running
from embscale.layers.names import FINAL_NORM
from embscale.texts.samples import Sample
from embscale.texts.tokens import TokenisedTexts

DECODERS = sorted(set(FAMILIES) - set(logit_lens.ENCODERS))
OPTIONS = {"first_position": 0, "vectors": 1000, "chunk": 7, "groups": 5, "seed": 0}


def captured(folder, texts=6, length=10):
    """Hidden states of random tokens, in memory."""
    tokens = np.random.default_rng(0).integers(1, 90, size=(texts, length))
    ids = TokenisedTexts(tokens.astype(np.int32).reshape(-1), np.arange(texts + 1) * length)
    sample = Sample(tuple(f"t{i}" for i in range(texts)), ids, 0)
    model = running.load_model(folder)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "states.safetensors"
        running.extract(model, sample, path, first_position=0, batch=4, metadata={})
        states = hidden_states.load(path)
        arrays = {layer: np.array(array) for layer, array in states.arrays.items()}
        described = {part: np.array(getattr(states, part)) for part in ("text", "position", "token")}
    return tokens, dataclasses.replace(states, arrays=arrays, **described)


@pytest.mark.parametrize("model_type", DECODERS)
def test_the_last_block_gives_the_models_own_logits(checkpoint, model_type):
    import torch

    tokens, states = captured(checkpoint(model_type))
    model = logit_lens.load_model(checkpoint(model_type))
    of_block, after_norm = logit_lens.heads(model)
    with torch.inference_mode():
        expected = model(input_ids=torch.from_numpy(tokens)).logits.reshape(tokens.size, -1)
        last = torch.from_numpy(states.take([states.classes[-1]], np.arange(tokens.size))[0])
        torch.testing.assert_close(of_block(last), expected, rtol=1e-4, atol=1e-4)
        if FINAL_NORM in states.layers:
            normed = torch.from_numpy(states.take([FINAL_NORM], np.arange(tokens.size))[0])
            torch.testing.assert_close(after_norm(normed), expected, rtol=1e-4, atol=1e-4)
    rows = logit_lens.lens(model, states, **OPTIONS).set_index(["layer", "metric"])
    assert rows.loc[(states.classes[-1], "agreement"), "value"] == 1
    assert rows.loc[(states.classes[-1], "kl_divergence"), "value"] == pytest.approx(0, abs=1e-5)
    assert (rows["n"] == tokens.size).all()


def test_numbers_are_those_of_the_logits(checkpoint):
    """Agreement, divergence and both references, from the library's logits and scipy's sums."""
    import torch
    from scipy.special import log_softmax, rel_entr

    tokens, states = captured(checkpoint("gpt_neox"))
    model = logit_lens.load_model(checkpoint("gpt_neox"))
    with torch.inference_mode():
        final = model(input_ids=torch.from_numpy(tokens)).logits.reshape(tokens.size, -1).numpy()
        early = model.lm_head(model.gpt_neox.final_layer_norm(torch.from_numpy(states.arrays["block 1"]))).numpy()
    p, q = (np.exp(log_softmax(logits.astype(float), axis=1)) for logits in (final, early))
    rows = logit_lens.lens(model, states, **OPTIONS).set_index(["layer", "metric"])
    agreement, divergence = rows.loc[("block 1", "agreement")], rows.loc[("block 1", "kl_divergence")]
    assert agreement["value"] == pytest.approx((p.argmax(1) == q.argmax(1)).mean())
    independent = (p.argmax(1)[:, None] == q.argmax(1)[None]).mean()
    assert agreement["reference"] == pytest.approx(independent)
    assert divergence["value"] == pytest.approx(rel_entr(p, q).sum(axis=1).mean(), rel=1e-4)
    assert divergence["reference"] == pytest.approx(rel_entr(p, p.mean(axis=0)).sum(axis=1).mean(), abs=1e-5)
    assert divergence["ci_low"] <= divergence["value"] <= divergence["ci_high"]
    chunked = logit_lens.lens(model, states, **OPTIONS | {"chunk": 1000})
    pd.testing.assert_frame_equal(chunked, rows.reset_index()[chunked.columns], rtol=1e-5, atol=1e-6)


def test_a_table_narrower_than_the_blocks_is_projected_back(tmp_path):
    """As in opt-350m: post-norm blocks, no final norm, a projection before the output table."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.OPTConfig(
        hidden_size=16, word_embed_proj_dim=8, do_layer_norm_before=False, ffn_dim=32, num_hidden_layers=2,
        num_attention_heads=2, vocab_size=50, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.OPTForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    tokens = torch.arange(40).reshape(4, 10)
    with torch.inference_mode():
        output = model(input_ids=tokens)
        blocks = []
        hook = model.model.decoder.layers[-1].register_forward_hook(lambda _, __, out: blocks.append(out))
        model(input_ids=tokens)
        hook.remove()
    last = blocks[0][0] if isinstance(blocks[0], tuple) else blocks[0]
    of_block, _ = logit_lens.heads(logit_lens.load_model(tmp_path))
    with torch.inference_mode():
        torch.testing.assert_close(of_block(last), output.logits, rtol=1e-4, atol=1e-5)


def keys(folder):
    named = ["--suite", "own", "--model", "m", "--step", "main", "--tied", "no", "--texts", "t"]
    numbers = [text for name, value in OPTIONS.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    return [*named, *numbers, "-o", str(folder / "lens.csv")]


def test_the_command_writes_rows_and_skips_encoders_with_the_reason(checkpoint, tmp_path, capsys):
    for model_type in ("llama", "bert"):
        _, states = captured(checkpoint(model_type))
        hidden_states.save(tmp_path / "states.safetensors", states)
        given = [str(checkpoint(model_type)), str(tmp_path / "states.safetensors")]
        assert execute("logit-lens", [*given, *keys(tmp_path)]) == 0
        rows = pd.read_csv(tmp_path / "lens.csv")
        assert list(rows.columns[:8]) == ["suite", "model", "step", "width", "texts", "tokens", "texts_count", "tied"]
        assert rows.empty == (model_type == "bert")
    assert "bert is an encoder" in capsys.readouterr().err
    assert "bert is an encoder" in (tmp_path / "lens.csv.note.json").read_text("utf-8")


def test_states_of_another_model_are_reported(checkpoint):
    _, states = captured(checkpoint("llama"))
    model = logit_lens.load_model(checkpoint("llama"))
    shorter = dataclasses.replace(states, arrays={k: v for k, v in states.arrays.items() if k != "block 2"})
    with pytest.raises(EmbscaleError, match="the states end with block 1 of width 16, but the checkpoint has 2 blocks"):
        logit_lens.lens(model, shorter, **OPTIONS)
