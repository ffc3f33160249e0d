"""Effective tables against what block 1 of the library's own model receives; names of tables in checkpoints."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from embscale.checkpoints.families import FAMILIES, anatomy, family, input_table_names, output_table_names
from embscale.errors import EmbscaleError
from embscale.tables.effective import effective_table

ROWS, PLACES = 300, 64
UNCHANGED = {"gpt_neox", "llama", "mistral", "olmo2", "qwen2", "qwen3", "t5"}
POSITION_TABLES = {
    "gpt2": "wpe.weight",
    "opt": "decoder.embed_positions.weight",
    "bert": "embeddings.position_embeddings.weight",
}
# Other shapes of a family than that of the shared fixture.
SHAPES = {
    "opt-350m": ("opt", {"word_embed_proj_dim": 8, "do_layer_norm_before": False}),
    # 24 has no root that any dtype could hold; the fixture's width 16 has one.
    "gemma3_text of width 24": ("gemma3_text", {"hidden_size": 24}),
    "bert, other epsilon": ("bert", {"layer_norm_eps": 0.1}),
    "bloom, other epsilon": ("bloom", {"layer_norm_epsilon": 0.1}),
}


def find(endings, tensors):
    """The rule of `embscale.checkpoints.families`, once more."""
    for ending in endings:
        matching = [name for name in tensors if name == ending or name.endswith(f".{ending}")]
        assert len(matching) <= 1, matching
        if matching:
            return matching[0]
    return None


class Saved:
    """A checkpoint folder, read without the package."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = load_file(folder / "model.safetensors")
        self.table = self.read(input_table_names(self.config["model_type"]))

    def read(self, endings):
        name = find(endings, self.tensors)
        return None if name is None else self.tensors[name].float().numpy()

    def effective(self, positions):
        return effective_table(self.table, self.config, self.read, positions)

    def model(self, **options):
        model_class = getattr(transformers, family(self.config["model_type"]).model_class)
        return model_class.from_pretrained(self.folder, local_files_only=True, **options).eval()


@pytest.fixture(scope="module")
def saved(checkpoint, tmp_path_factory):
    """A function from a model type or a name of `SHAPES` to its checkpoint."""

    def make(name):
        if name not in SHAPES:
            return Saved(checkpoint(name))
        model_type, changes = SHAPES[name]
        return Saved(resaved(checkpoint(model_type), changes, tmp_path_factory.mktemp("shape")))

    return make


def resaved(folder, changes, target, dtype=torch.float32):
    """A fresh random model with the config of a checkpoint, some of it changed."""
    config = transformers.AutoConfig.from_pretrained(folder)
    settings = config.to_dict()
    settings.get("text_config", settings).update(changes)
    config = type(config)(**settings)
    torch.manual_seed(1)
    transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(target)
    return target


def into_block_1(model, tokens):
    """What the first block receives for texts of tokens, ``[texts, places, width]``."""
    received = []

    def keep(module, args, kwargs):
        received.append(args[0] if args else kwargs["hidden_states"])

    handle = anatomy(model).blocks[0].register_forward_pre_hook(keep, with_kwargs=True)
    with torch.inference_mode():
        model(input_ids=torch.from_numpy(tokens))
    handle.remove()
    (states,) = received
    return states


def every_token_everywhere(places):
    """Texts that, taken together, have every token at each of some places, ``[ROWS, places]``."""
    return (np.arange(ROWS)[:, None] + 7 * np.arange(places)) % ROWS


@pytest.mark.parametrize("name", [*sorted(FAMILIES), *SHAPES])
def test_a_row_at_a_place_is_what_block_1_receives_there(saved, name):
    checkpoint = saved(name)
    tokens = every_token_everywhere(5)
    received = into_block_1(checkpoint.model(dtype=torch.float32), tokens).numpy()
    for place in range(5):
        table, _ = checkpoint.effective(place)
        assert table.dtype == np.float32
        np.testing.assert_allclose(table[tokens[:, place]], received[:, place], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_families_that_apply_nothing_give_the_table_itself(saved, model_type):
    checkpoint = saved(model_type)
    table, applied = checkpoint.effective(3)
    assert (table is checkpoint.table) == (not applied) == (model_type in UNCHANGED)
    if applied:
        assert np.abs(table - checkpoint.table).max() > 0.01


@pytest.mark.parametrize("model_type", POSITION_TABLES)
def test_the_last_place_is_the_last_and_there_is_none_beyond(saved, model_type):
    checkpoint = saved(model_type)
    tokens = every_token_everywhere(PLACES)[:3]
    received = into_block_1(checkpoint.model(), tokens).numpy()
    table, _ = checkpoint.effective(PLACES - 1)
    np.testing.assert_allclose(table[tokens[:, -1]], received[:, -1], rtol=1e-5, atol=1e-6)
    for place in (PLACES, -1):
        with pytest.raises(EmbscaleError, match=rf"^position {place}: the model has 64 learned positions"):
            checkpoint.effective(place)


@pytest.mark.parametrize("model_type", POSITION_TABLES)
@pytest.mark.parametrize("positions", ["none", "mean"])
def test_without_positions_and_with_their_mean(saved, model_type, positions):
    """As in a model whose every place has the vector zero, or the mean of those that the model itself looks up."""
    checkpoint = saved(model_type)
    model = checkpoint.model()
    name = POSITION_TABLES[model_type]
    looked_up = []
    hook = model.get_submodule(name.removesuffix(".weight")).register_forward_hook(
        lambda module, args, output: looked_up.append(output)
    )
    into_block_1(model, every_token_everywhere(PLACES)[:1])
    hook.remove()
    vectors = looked_up[0].reshape(PLACES, -1)
    with torch.no_grad():
        model.get_parameter(name)[:] = vectors.mean(dim=0) if positions == "mean" else 0

    received = into_block_1(model, every_token_everywhere(1))[:, 0].numpy()
    table, applied = checkpoint.effective(positions)
    np.testing.assert_allclose(table, received, rtol=1e-5, atol=1e-6)
    assert ("positions mean" in applied) == (positions == "mean")


@pytest.mark.parametrize(
    ("name", "positions", "expected"),
    [
        ("bert", 4, ["token type 0", "positions 4", "layer norm"]),
        ("bloom", "mean", ["layer norm"]),
        ("gemma3", "mean", ["scale 4"]),
        ("gpt2", "mean", ["positions mean"]),
        ("gpt2", "none", []),
        ("llama", "mean", []),
        ("opt-350m", 0, ["projection to 16", "positions 0"]),
    ],
)
def test_what_was_applied_is_reported_in_words(saved, name, positions, expected):
    assert saved(name).effective(positions)[1] == expected


@pytest.mark.parametrize(
    ("dtype", "words"), [("float32", "scale 4.89898"), ("bfloat16", "scale 4.90625"), ("float16", "scale 4.89844")]
)
@pytest.mark.parametrize("model_type", ["gemma", "gemma2", "gemma3", "gemma3_text"])
def test_the_scale_is_rounded_as_the_checkpoints_own_dtype_rounds_it(checkpoint, model_type, dtype, words, tmp_path):
    resaved(checkpoint(model_type), {"hidden_size": 24}, tmp_path, getattr(torch, dtype))
    small = Saved(tmp_path)
    table, applied = small.effective("none")
    assert applied == [words]
    model = small.model()
    assert str(model.dtype) == f"torch.{dtype}"
    received = into_block_1(model, every_token_everywhere(1))[:, 0]
    assert torch.equal(torch.from_numpy(table).to(model.dtype), received)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        # As google/gemma-3-4b: the dtype stands outside of what describes the language model.
        ({"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {"hidden_size": 2560}}, "scale 50.5"),
        ({"model_type": "gemma2", "dtype": "bfloat16", "hidden_size": 2560}, "scale 50.5"),
        ({"model_type": "gemma", "dtype": None, "hidden_size": 2560}, "scale 50.5964"),
    ],
)
def test_the_dtype_is_found_under_its_old_and_new_name(config, words):
    assert effective_table(np.ones((2, 2560), np.float32), config, lambda endings: None, "none")[1] == [words]


def test_rounding_is_torchs_at_every_width():
    ones = np.ones((1, 1), np.float32)
    config = {"model_type": "gemma", "dtype": "bfloat16"}
    for width in range(1, 20_000):
        table, _ = effective_table(np.broadcast_to(ones, (1, width)), config, lambda endings: None, "none")
        assert table[0, 0] == torch.tensor(width**0.5, dtype=torch.bfloat16).item()


def test_tables_larger_than_a_block_are_whole(saved):
    bloom = saved("bloom")
    rows = np.resize(np.random.default_rng(0).permutation(ROWS), 10_000)
    large, _ = effective_table(bloom.table[rows], bloom.config, bloom.read, "none")
    np.testing.assert_allclose(large, bloom.effective("none")[0][rows], rtol=1e-6)


def test_the_oldest_names_of_a_layer_norm_are_known(saved):
    bert = saved("bert")
    expected, _ = bert.effective(2)
    bert.tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in bert.tensors.items()
    }
    np.testing.assert_array_equal(bert.effective(2)[0], expected)


@pytest.mark.parametrize(("model_type", "key"), [("bert", "layer_norm_eps"), ("bloom", "layer_norm_epsilon")])
def test_a_config_without_epsilon_means_the_librarys_own(saved, model_type, key):
    checkpoint = saved(model_type)
    expected, _ = checkpoint.effective(0)
    del checkpoint.config[key]
    np.testing.assert_array_equal(checkpoint.effective(0)[0], expected)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("bert", "token_type_embeddings.weight"),
        ("bert", "position_embeddings.weight"),
        ("bloom", "word_embeddings_layernorm.bias"),
        ("opt-350m", "decoder.project_in.weight"),
    ],
)
def test_a_missing_or_foreign_tensor_is_reported_by_its_name(saved, name, missing):
    checkpoint = saved(name)
    full = find([missing], checkpoint.tensors)
    whole = checkpoint.tensors.pop(full)
    with pytest.raises(EmbscaleError, match=rf"^no tensor's name ends with .*{missing}; is the checkpoint whole"):
        checkpoint.effective(0)
    checkpoint.tensors[full] = whole[..., :5]
    with pytest.raises(EmbscaleError, match=rf"^{missing}: expected the shape .*, found .*same checkpoint\?$"):
        checkpoint.effective(0)


def test_an_unknown_dtype_is_reported():
    with pytest.raises(EmbscaleError, match=r"^config\.json: the dtype is 'int8'; expected float32"):
        effective_table(
            np.ones((2, 4), np.float32), {"model_type": "gemma", "dtype": "int8"}, lambda endings: None, "none"
        )


# Names of tensors in the repositories that the studies read, beside some that must not be taken for a table.
PUBLISHED = [
    ("gpt_neox", "gpt_neox.embed_in.weight", "embed_out.weight", ["gpt_neox.layers.0.attention.dense.weight"]),
    # opt-1.3b, which repeats the tied table; opt-6.7b; opt-350m.
    ("opt", "model.decoder.embed_tokens.weight", "lm_head.weight", ["model.decoder.embed_positions.weight"]),
    ("opt", "decoder.embed_tokens.weight", None, ["decoder.embed_positions.weight"]),
    ("opt", "decoder.embed_tokens.weight", None, ["decoder.project_in.weight", "decoder.project_out.weight"]),
    ("gpt2", "wte.weight", None, ["wpe.weight", "h.0.attn.c_attn.weight"]),
    ("gpt2", "transformer.wte.weight", "lm_head.weight", ["transformer.wpe.weight"]),
    ("bloom", "word_embeddings.weight", None, ["word_embeddings_layernorm.weight"]),
    ("bloom", "transformer.word_embeddings.weight", "lm_head.weight", ["transformer.word_embeddings_layernorm.weight"]),
    ("t5", "shared.weight", "lm_head.weight", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]),
    ("t5", "encoder.embed_tokens.weight", "lm_head.weight", ["decoder.embed_tokens.weight"]),
    ("t5", "decoder.embed_tokens.weight", "lm_head.weight", ["decoder.final_layer_norm.weight"]),
    ("llama", "model.embed_tokens.weight", "lm_head.weight", ["model.norm.weight"]),
    ("gemma3_text", "model.embed_tokens.weight", None, ["model.norm.weight"]),
    (
        "gemma3",
        "language_model.model.embed_tokens.weight",
        None,
        [
            "vision_tower.vision_model.embeddings.patch_embedding.weight",
            "vision_tower.vision_model.embeddings.position_embedding.weight",
        ],
    ),
    (
        "bert",
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.weight",
        ["bert.embeddings.position_embeddings.weight", "bert.encoder.layer.0.attention.output.LayerNorm.gamma"],
    ),
    ("bert", "embeddings.word_embeddings.weight", None, ["embeddings.token_type_embeddings.weight"]),
]


@pytest.mark.parametrize(("model_type", "table", "output", "others"), PUBLISHED)
def test_tables_are_found_under_their_published_names(model_type, table, output, others):
    names = [*others, table, *([output] if output else [])]
    assert find(input_table_names(model_type), names) == table
    assert find(output_table_names(model_type), names) == output


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_tables_are_found_under_the_names_that_the_library_writes(checkpoint, model_type, tmp_path):
    folder = checkpoint(model_type)
    config = transformers.AutoConfig.from_pretrained(folder)
    head = {"t5": "AutoModelForSeq2SeqLM", "bert": "AutoModelForPreTraining"}.get(model_type, "AutoModelForCausalLM")
    model = getattr(transformers, head).from_config(config)
    # T5's config insists on a tied table, so the untied one of T5 v1.1 must be made by hand.
    untied = torch.nn.Parameter(torch.randn_like(model.get_output_embeddings().weight))
    model.get_output_embeddings().weight = untied
    model.config.tie_word_embeddings = config.get_text_config().tie_word_embeddings = False
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    table = tensors[find(input_table_names(model_type), tensors)]
    assert torch.equal(table, model.get_input_embeddings().weight)
    assert torch.equal(tensors[find(output_table_names(model_type), tensors)], untied)


@pytest.mark.parametrize("model_type", ["gpt2", "opt", "bloom", "gemma", "gemma3", "bert", "t5"])
def test_a_tied_checkpoint_has_no_output_table(saved, model_type):
    assert find(output_table_names(model_type), saved(model_type).tensors) is None
