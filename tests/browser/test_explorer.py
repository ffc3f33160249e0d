"""The explorer in a real browser: what each control does to the plot, read back from the plot's own data."""

import html
import io
import re
from urllib.parse import parse_qs, urlencode
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from browser.conftest import make_explorer
from embscale.plotting import theme
from explorer_rows import (
    HOSTILE,
    LAYERS,
    MODELS,
    accuracy_rows,
    confusion_rows,
    difference_rows,
    fact_rows,
    point_rows,
    score_rows,
)

browsing = pytest.importorskip("browser.browsing", reason="playwright is not installed: pages were not opened")

ROWS = score_rows()
DEFAULT = {"task": "Cats", "metric": "ndcg_at_10", "special_tokens": "exclude"}


@pytest.fixture(scope="module")
def page(browser, explorer):
    """The explorer, plotted once; unpacking the library takes longer than a test."""
    context = browser.new_context(**browsing.DESK)
    yield opened(browsing.Sheet(context), explorer)
    context.close()


@pytest.fixture
def tables(page):
    """The first view, as at first."""
    return follow(page, "#view=tables")


@pytest.fixture
def layers(page):
    """The view of layers, as at first."""
    follow(page, "#view=layers")
    plotted(page, "points-plot")
    return page


def follow(page, address):
    """Give an open page another address, and wait until it is followed."""
    page.mouse.move(0, 0)
    page.evaluate(
        """address => new Promise(done => {
             addEventListener("hashchange", () => setTimeout(done), {once: true}); location.hash = address; })""",
        address,
    )
    return page


def opened(sheet, file, fragment="", plot="tables-plot"):
    page = sheet.open(file, fragment)
    plotted(page, plot)
    return page


def plotted(page, plot="tables-plot"):
    page.wait_for_function("id => document.getElementById(id).data", arg=plot)


def traces(page, plot="tables-plot"):
    """The data of a plot as it is drawn."""
    return page.evaluate(
        """id => document.getElementById(id).data.map(t => ({name: t.name, x: [...t.x], y: [...t.y], z: t.z,
           customdata: t.customdata, text: t.text, fill: t.fill, mode: t.mode, dash: t.line?.dash,
           opacity: t.marker?.opacity, symbol: t.marker?.symbol, bars: t.error_y?.visible,
           high: t.error_y && [...t.error_y.array], low: t.error_y && [...t.error_y.arrayminus]}))""",
        plot,
    )


def lines(page):
    """The lines of models, by suite and variant."""
    return {trace["name"]: trace for trace in traces(page) if trace["customdata"]}


def expected(suite, variant, **chosen):
    """What the rows say of a suite and variant, by model, from narrow to wide."""
    rows = ROWS[(ROWS["suite"] == suite) & (ROWS["variant"] == variant)]
    for column, value in (DEFAULT | chosen).items():
        rows = rows[rows[column] == value]
    rows = rows[(rows["step"] == 400) | rows["step"].isna()]
    width = rows["model"].map(MODELS[suite])
    return rows.assign(width=width).sort_values("width")


def check_line(trace, rows):
    np.testing.assert_allclose(trace["x"], rows["width"])
    np.testing.assert_allclose(trace["y"], rows["value"] * 100, rtol=1e-5)
    np.testing.assert_allclose(trace["high"], (rows["ci_high"] - rows["value"]) * 100, rtol=1e-3)
    np.testing.assert_allclose(trace["low"], (rows["value"] - rows["ci_low"]) * 100, rtol=1e-3)


def tick(page, group, value, on=True):
    page.locator(f"#{group} input").and_(page.locator(f'[value="{value}"]')).set_checked(on)


def status(page, view="tables"):
    return page.locator(f"#{view}-status").inner_text()


def test_at_first_the_tables_of_all_suites_are_shown_by_the_chosen_metric(tables):
    found = lines(tables)
    assert set(found) == {"wide full", "deep full"}
    for suite in MODELS:
        check_line(found[f"{suite} full"], expected(suite, "full"))
    assert status(tables) == "5 scores of 5 models on Cats, nDCG@10 × 100."
    assert tables.locator("#tables-plot").get_attribute("aria-label").startswith("nDCG@10 × 100 against width")


@pytest.mark.parametrize(
    ("control", "value", "chosen"),
    [
        ("task", "Dogs", {"task": "Dogs"}),
        ("metric", "map_at_100", {"metric": "map_at_100"}),
        ("vectors", "mean, special tokens included", {"special_tokens": "include"}),
    ],
)
def test_task_metric_and_vector_choose_the_rows(tables, control, value, chosen):
    before = lines(tables)["wide full"]["y"]
    tables.select_option(f"#{control}", value)
    after = lines(tables)
    assert after["wide full"]["y"] != before
    for suite in MODELS:
        check_line(after[f"{suite} full"], expected(suite, "full", **chosen))
    if control == "metric":
        title = tables.evaluate("document.getElementById('tables-plot').layout.yaxis.title.text")
        assert title == "MAP@100 × 100"


def test_each_variant_is_a_line_of_its_own(tables):
    labels = {"crop": "crop:8", "idf": "idf", "pad": "pad:512"}
    for variant, label in labels.items():
        tick(tables, "variant", label)
        check_line(lines(tables)[f"wide {label}"], expected("wide", variant))
    shapes = {trace["name"]: trace["symbol"] for trace in lines(tables).values()}
    assert len(set(shapes.values())) == 4  # shapes tell variants apart
    assert shapes["wide idf"] == shapes["deep idf"]
    tick(tables, "variant", "full", on=False)
    assert "wide full" not in lines(tables)


def test_each_suite_can_be_left_out(tables):
    tick(tables, "suite", "wide", on=False)
    assert set(lines(tables)) == {"deep full"}
    tables.locator("#suite").get_by_role("button", name="all").click()
    assert set(lines(tables)) == {"wide full", "deep full"}


@pytest.mark.parametrize("axis", ["parameters", "table_share"])
def test_the_axis_can_be_the_parameters_or_the_share_of_the_table(tables, axis):
    tables.select_option("#x", axis)
    facts = fact_rows().set_index("model").assign(table_share=lambda f: f["rows"] * f["dims"] / f["parameters"])
    models = expected("wide", "full")["model"].tolist()
    wanted = facts.loc[models, axis].sort_values()
    found = lines(tables)["wide full"]
    np.testing.assert_allclose(found["x"], wanted, rtol=1e-5)
    assert found["customdata"] == [f"wide/{model}" for model in wanted.index]
    assert "1 model left out, whose place on this axis is not known" in status(tables)
    random = tables.locator('#beside input[value="random"]')
    assert random.is_disabled() and "no such axis" in random.locator("..").inner_text()
    assert not [trace for trace in traces(tables) if trace["fill"]]


def test_intervals_can_be_switched_off(tables):
    assert all(trace["bars"] for trace in lines(tables).values())
    tick(tables, "beside", "intervals", on=False)
    assert not any(trace["bars"] for trace in lines(tables).values())


def test_bands_run_from_the_lowest_to_the_highest_seed(tables):
    bands = {trace["name"]: trace for trace in traces(tables) if not trace["customdata"]}
    random = ROWS[(ROWS["variant"] == "random") & (ROWS["tokenizer"] == "deep-bpe") & (ROWS["dim"] <= 64)]
    for column, value in DEFAULT.items():
        random = random[random[column] == value]
    seeds = random.groupby("dim")["value"]
    for name, values in (("", seeds.mean()), (", lowest", seeds.min()), (", highest", seeds.max())):
        np.testing.assert_allclose(bands[f"random deep-bpe{name}"]["y"], values * 100, rtol=1e-5)
        assert bands[f"random deep-bpe{name}"]["x"] == [16, 32, 64]
    assert bands["random deep-bpe, highest"]["fill"] == "tonexty"
    assert "of 3 draws, from" in bands["random deep-bpe"]["text"][0]
    assert not any("random+idf" in name for name in bands)
    tick(tables, "variant", "idf")
    assert any("random+idf" in trace["name"] for trace in traces(tables))
    tick(tables, "beside", "random", on=False)
    assert not [trace for trace in traces(tables) if trace["fill"]]


def test_scores_that_need_no_table_are_level_lines(tables):
    assert not [trace for trace in traces(tables) if trace["dash"] == "dot"]
    tick(tables, "beside", "reference")
    found = {trace["name"]: trace for trace in traces(tables) if trace["dash"] == "dot"}
    rows = ROWS[ROWS["suite"] == "reference"]
    for column, value in DEFAULT.items():
        rows = rows[rows[column] == value]
    for row in rows.itertuples():
        np.testing.assert_allclose(found[f"bm25 {row.tokenizer}"]["y"], [row.value * 100] * 2, rtol=1e-5)


def test_the_search_keeps_models_whose_name_contains_it(tables):
    tables.fill("#search", "DEEP")
    assert set(lines(tables)) == {"deep full"} and lines(tables)["deep full"]["x"] == [32]
    assert tables.locator("#models button").count() == 1
    tables.fill("#search", "none such")
    assert "no model's name contains “none such”" in tables.locator("#tables-empty").inner_text()
    assert not tables.locator("#tables-plot").is_visible()


@pytest.mark.parametrize(("group", "words"), [("suite", "No suite is ticked."), ("variant", "No variant is ticked.")])
def test_an_empty_choice_says_so(tables, group, words):
    tables.locator(f"#{group}").get_by_role("button", name="none").click()
    assert tables.locator("#tables-empty").inner_text() == words
    assert not tables.locator("#tables-plot").is_visible()
    assert tables.locator("#models-status").inner_text() == "None."


def test_a_point_names_its_model_with_interval_and_n(tables):
    hover(tables, "wide/wide-32")
    row = expected("wide", "full").query("model == 'wide-32'").iloc[0]
    words = hovered(tables)
    value, low, high = (f"{row[name] * 100:.2f}" for name in ("value", "ci_low", "ci_high"))
    assert "wide-32, wide" in words and f"{value} [{low}, {high}]" in words
    assert "95 % interval over 1 training run and 120 queries" in words


def test_the_queries_that_a_model_gains_and_loses_most_on_are_listed(tables):
    section = tables.locator("#queries")
    assert "Choose a model" in section.inner_text() and not tables.locator("#gain").is_visible()
    tables.locator("#models button", has_text="wide-32").click()
    told = tables.locator("#queries-status").inner_text()
    for words in (
        "of 120 queries, 70 score higher",
        "mean of 1 training run",
        "mean of 3 draws",
        "40 lower and 10 the same",
    ):
        assert words in told
    gains = tables.locator("#gain tbody tr").all_inner_texts()
    assert [line.split("\t") for line in gains] == [
        ["how cats purr", "80.00", "20.00", "+60.00"],
        ["=cats", "50.00", "40.00", "+10.00"],
    ]
    # A query is shown as it is written, whatever it contains.
    assert tables.locator("#loss tbody td").all_inner_texts() == [HOSTILE, "10.00", "40.00", "−30.00"]
    assert tables.evaluate("window.hacked") is None
    rows = pd.read_csv(io.BytesIO(downloaded(tables, "queries", "CSV")))
    assert rows["query"].tolist() == ["q7", "q2", "q5"] and rows["text"].tolist()[1] == "'=cats"
    tables.locator("#models button", has_text="deep-32").click()
    assert "Not computed: deep-32" in tables.locator("#queries-status").inner_text()
    assert not tables.locator("#queries-lists").is_visible()


ADDRESSES = 150  # examples
ADDRESS_KEYS = [
    *("view", "task", "measure", "metric", "x", "vectors", "suite", "variant", "beside", "tokens", "search", "chosen"),
    *("model", "texts", "classifier", "split", "input", "control", "trained_on", "quality", "reduction", "scaling"),
    *("layers", "layer", "other", "token", "constructor", "__proto__", "toString", ""),
]
ADDRESS_VALUES = [
    *("tables", "layers", "Dogs", "difference", "map_at_100", "tokens", "parameters", "deep", "wide", "full", "idf"),
    *("wide/wide-16", "wide/wide-16, step 400", "text", "lda", "tsne", "unit", "block 1", "accuracy", "0", "409600"),
    *("", "constructor", "__proto__", "NaN", "-1", "1e999", "[object Object]", HOSTILE, "x" * 5000, "%", "\ud800"),
]


def address_of(pairs):
    """Keys and values as an address has them, halves of characters as well."""
    return urlencode([tuple(part.encode("utf-8", "surrogatepass") for part in pair) for pair in pairs])


def test_any_address_is_followed_or_told(sheet, explorer):
    """One view is shown, with a plot or words in its place, and nothing goes wrong in the script."""
    opened_sheet = sheet()
    page = opened(opened_sheet, explorer)
    texts = st.one_of(st.sampled_from(ADDRESS_VALUES), st.text(max_size=6))
    pairs = st.lists(st.tuples(st.one_of(st.sampled_from(ADDRESS_KEYS), st.text(max_size=4)), texts), max_size=8)
    fragments = st.one_of(pairs.map(address_of), st.text(max_size=30))

    @settings(max_examples=ADDRESSES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @seed(1)
    @given(fragments)
    def follow_any(fragment):
        page.evaluate(
            "text => new Promise(done => { location.hash = text; setTimeout(done, 20); })",
            fragment.encode("utf-8", "replace").decode(),
        )
        shown = [name for name in ("tables", "layers") if page.locator(f"#view-{name}").is_visible()]
        assert len(shown) == 1 and page.locator(f"#view-{shown[0]}").inner_text().strip(), fragment
        assert [line for line in opened_sheet.console if line.startswith("error")] == [], fragment
        assert page.evaluate("window.hacked") is None

    follow_any()


def hover(page, key):
    """Put the mouse on the mark of a model, and return where that is."""
    place = place_of(page, key)
    page.mouse.move(place[0] - 30, place[1] - 30)
    page.mouse.move(*place)
    page.locator("#tables-plot .hovertext").wait_for()
    return place


def place_of(page, key):
    """Where the mark of a model is in the window."""
    page.locator("#tables-plot").scroll_into_view_if_needed()
    return page.evaluate(
        """key => { const plot = document.getElementById('tables-plot'); const box = plot.getBoundingClientRect();
             const trace = plot.data.find(t => t.customdata?.includes(key)); const i = trace.customdata.indexOf(key);
             const {xaxis: x, yaxis: y} = plot._fullLayout;
             return [box.x + x._offset + x.d2p(trace.x[i]), box.y + y._offset + y.d2p(trace.y[i])]; }""",
        key,
    )


def hovered(page):
    """The words that the mouse calls up."""
    return " | ".join(page.locator("#tables-plot .hoverlayer tspan").all_text_contents())


def table_of(page, selector="#rows"):
    cells = [row.locator("th, td").all_inner_texts() for row in page.locator(f"{selector} tr").all()]
    return pd.DataFrame(cells[1:], columns=cells[0])


def rows_of(suite, model):
    rows = ROWS[(ROWS["suite"] == suite) & (ROWS["model"] == model)]
    return rows[(rows["task"] == "Cats") & (rows["metric"] == "ndcg_at_10")]


def test_a_click_on_a_point_lists_the_rows_of_its_model(tables):
    assert tables.locator("#rows-status").inner_text() == "Choose a model, in the list or in the plot."
    tables.mouse.click(*hover(tables, "wide/wide-32"))
    tables.locator("#rows tbody tr").first.wait_for()
    found, wanted = table_of(tables), rows_of("wide", "wide-32")
    assert len(found) == len(wanted) == 10  # five tables, the first of which had one variant, by two poolings
    scores = {f"{r.value * 100:.2f} [{r.ci_low * 100:.2f}, {r.ci_high * 100:.2f}]" for r in wanted.itertuples()}
    assert set(found["score × 100 [95 % interval]"]) == scores
    assert set(found["step"]) == {"0", "400"} and set(found["n"]) == {"120"}
    names = {"as it is", "first columns: 8", "weighted by rarity (idf)", "padded at the first study's scale: 512"}
    assert set(found["variant"]) == names
    [row] = expected("wide", "full").query("model == 'wide-32'").itertuples()
    assert f"wide-32: as it is {row.value * 100:.2f} [" in tables.locator("#card").inner_text()
    ring = next(trace for trace in traces(tables) if trace["name"] == "chosen")
    assert ring["x"] == [32]


def test_the_list_does_the_same_with_the_keyboard_alone(tables):
    tables.locator("#search").focus()
    tables.keyboard.press("Tab")
    by_width = ["wide-16", "wide-32", "deep-32", "wide-64", HOSTILE]
    assert tables.locator("#models .name").all_inner_texts() == by_width
    while not tables.evaluate("document.activeElement.value === 'wide/wide-16'"):
        tables.keyboard.press("Tab")
    tables.keyboard.press("Enter")
    assert tables.evaluate("document.activeElement.value") == "wide/wide-16"  # the focus stays
    assert len(table_of(tables)) == len(rows_of("wide", "wide-16"))
    assert tables.locator('#models [aria-pressed="true"]').get_attribute("value") == "wide/wide-16"


def test_every_control_can_be_reached_with_the_keyboard(tables):
    wanted = set(
        tables.evaluate(
            "[...document.querySelectorAll('#view-tables select, #view-tables input')].map(e => e.id || e.value)"
        )
    )
    assert tables.evaluate("document.querySelector('a, button, input, select').className") == "skip"
    tables.locator(".skip").focus()
    reached = set()
    for _ in range(90):
        tables.keyboard.press("Tab")
        reached.add(tables.evaluate("document.activeElement.id || document.activeElement.value"))
    assert wanted <= reached


def test_the_address_keeps_the_view(tables, sheet, explorer):
    tables.select_option("#metric", "map_at_100")
    tables.select_option("#x", "parameters")
    tick(tables, "variant", "pad:512")
    tick(tables, "suite", "deep", on=False)
    tick(tables, "beside", "intervals", on=False)
    tables.locator('#models button[value="wide/wide-64"]').click()
    fragment = tables.evaluate("location.hash")
    assert parse_qs(fragment[1:])["variant"] == ["full", "pad:512"]
    again = opened(sheet(), explorer, fragment)
    assert traces(again) == traces(tables)
    assert again.evaluate("location.hash") == fragment
    assert table_of(again).equals(table_of(tables))


def test_an_empty_list_is_kept_by_the_address(tables):
    tick(tables, "beside", "intervals", on=False)
    tick(tables, "beside", "random", on=False)
    address = tables.evaluate("location.hash")
    follow(tables, "#view=tables")
    follow(tables, address)
    assert not any(trace["bars"] for trace in lines(tables).values())


def test_an_address_that_asks_for_what_is_not_there_says_so(page):
    follow(page, "#task=Birds&suite=none&suite=wide&chosen=x/y")
    words = page.locator("#unknown").inner_text()
    assert words == "The address asks for what this study does not have: task “Birds”, suite “none”, model “x/y”."
    assert set(lines(page)) == {"wide full"}
    page.select_option("#task", "Dogs")
    assert not page.locator("#unknown").is_visible()


def test_an_address_typed_into_an_open_page_is_followed(tables):
    follow(tables, "#task=Dogs&suite=wide")
    assert set(lines(tables)) == {"wide full"}
    check_line(lines(tables)["wide full"], expected("wide", "full", task="Dogs"))


# Training, differences, steps back ------------------------------------------------------------------------


def test_the_difference_from_random_tables_is_a_measure(tables):
    tables.select_option("#measure", "difference")
    wanted = difference_rows(ROWS).query("model == 'wide-32' and treatment == 'full' and step == 400")
    for column, value in DEFAULT.items():
        wanted = wanted[wanted[column] == value]
    [row] = wanted.itertuples()
    found = lines(tables)["wide full"]
    place = found["x"].index(32)
    np.testing.assert_allclose(found["y"][place], row.value * 100, rtol=1e-4)
    np.testing.assert_allclose(found["high"][place], (row.ci_high - row.value) * 100, rtol=1e-3)
    [zero] = [trace for trace in traces(tables) if trace["name"] == "zero"]
    assert zero["y"] == [0, 0] and not any(trace["fill"] for trace in traces(tables))
    random = tables.locator('#beside input[value="random"]')
    assert random.is_disabled() and "are the line at zero" in random.locator("..").inner_text()
    hover(tables, "wide/wide-32")
    assert f"{row.score * 100:.2f}, random tables {row.control_score * 100:.2f}" in hovered(tables)


def test_tokens_of_training_are_an_axis_with_a_line_for_each_model(tables):
    follow(tables, "#view=tables&x=tokens&suite=wide")
    found = lines(tables)
    assert set(found) == {f"wide {model} full" for model in MODELS["wide"]}
    rows = ROWS[(ROWS["suite"] == "wide") & (ROWS["variant"] == "full")]
    for column, value in DEFAULT.items():
        rows = rows[rows[column] == value]
    for model, own in rows.sort_values("step").groupby("model"):
        np.testing.assert_allclose(found[f"wide {model} full"]["y"], own["value"] * 100, rtol=1e-5)
        assert found[f"wide {model} full"]["x"][1] == 409_600
    axis = tables.evaluate("document.getElementById('tables-plot').layout.xaxis")
    assert axis["ticktext"] == ["0", "410K"] and axis["tickvals"][0] < axis["tickvals"][1]
    colours = tables.evaluate(
        "document.getElementById('tables-plot').data.filter(t => t.customdata).map(t => t.line.color)"
    )
    assert colours == theme.ordered_colours(3)
    assert not tables.locator("#tokens").is_visible()
    levels = [trace for trace in traces(tables) if trace["dash"] == "dash"]
    assert len(levels) == 3  # random tables of each width
    follow(tables, "#view=tables&x=tokens")
    assert "2 models left out, whose place on this axis is not known" in status(tables)


def test_the_slider_goes_back_in_training(tables):
    tables.locator("#tokens").focus()
    tables.keyboard.press("ArrowLeft")
    rows = ROWS[(ROWS["suite"] == "wide") & (ROWS["step"] == 0)]
    for column, value in DEFAULT.items():
        rows = rows[rows[column] == value]
    np.testing.assert_allclose(lines(tables)["wide full"]["y"], rows.sort_values("width")["value"] * 100, rtol=1e-5)
    check_line(lines(tables)["deep full"], expected("deep", "full"))  # its tokens are not known
    assert tables.locator("#tokens-value").inner_text() == "0 tokens"
    assert "after 0 tokens of training" in status(tables) and "tokens=0" in tables.evaluate("location.hash")
    tables.keyboard.press("ArrowRight")
    check_line(lines(tables)["wide full"], expected("wide", "full"))
    assert tables.locator("#tokens-value").inner_text() == "end of training"


def test_back_undoes_a_choice_and_what_was_typed_is_one_step(tables):
    first = tables.evaluate("location.hash")
    tables.select_option("#task", "Dogs")
    tables.locator("#search").press_sequentially("wide-3")
    assert lines(tables)["wide full"]["x"] == [32]
    tables.go_back()
    tables.wait_for_function("document.getElementById('search').value === ''")
    check_line(lines(tables)["wide full"], expected("wide", "full", task="Dogs"))
    tables.go_back()
    tables.wait_for_function("document.getElementById('task').value === 'Cats'")
    assert tables.evaluate("location.hash") == first
    tables.go_forward()
    tables.wait_for_function("document.getElementById('task').value === 'Dogs'")


def test_the_zoom_stays_when_a_menu_changes(tables):
    def shown():
        ranges = "(l => [l.xaxis.range, l.yaxis.range])(document.getElementById('tables-plot')._fullLayout)"
        return np.array(tables.evaluate(ranges))

    tools = tables.locator("#tables-tools")
    whole = shown()
    tools.get_by_role("button", name="Zoom in").click()
    near = shown()
    assert (np.ptp(near, axis=1) < np.ptp(whole, axis=1)).all()
    tables.select_option("#task", "Dogs")
    tick(tables, "beside", "intervals", on=False)
    np.testing.assert_allclose(shown(), near)
    tables.select_option("#measure", "difference")  # another scale; the widths are the same
    np.testing.assert_allclose(shown()[0], near[0])
    tools.get_by_role("button", name="Show the whole plot").click()
    np.testing.assert_allclose(shown()[0], whole[0], atol=0.01)  # margins differ with the numbers on the axis


def test_rows_of_a_model_that_is_no_longer_shown_are_not_shown_either(tables):
    tables.locator('#models button[value="deep/deep-32"]').click()
    assert tables.locator("#rows").is_visible() and tables.locator("#card").is_visible()
    tick(tables, "suite", "deep", on=False)
    assert not tables.locator("#rows").is_visible() and not tables.locator("#card").is_visible()
    assert tables.locator("#rows-status").inner_text() == "deep-32 is not among the models shown."


# Downloads ------------------------------------------------------------------------------------------------


def downloaded(page, plot, form):
    with page.expect_download() as download:
        page.locator(f"#{plot}-tools").get_by_role("button", name=re.compile(f"as {form}$")).click()
    assert download.value.suggested_filename.endswith(f".{form.lower()}")
    return download.value.path().read_bytes()


def test_texts_that_a_spreadsheet_takes_for_formulas_are_saved_as_texts(page):
    rows = [{"token": text, "value": -1.5, "step": "-3"} for text in ("=1+1", "+a", "-a", "@a", "a=b", "-1e-3", "")]
    saved = pd.read_csv(io.StringIO(page.evaluate("rows => csv(rows)", rows)), keep_default_na=False, dtype=str)
    assert saved["token"].tolist() == ["'=1+1", "'+a", "'-a", "'@a", "a=b", "-1e-3", ""]
    assert set(saved["value"]) == {"-1.5"} and set(saved["step"]) == {"-3"}


def test_the_rows_that_are_drawn_can_be_downloaded(tables):
    tick(tables, "suite", "wide", on=False)
    tick(tables, "beside", "reference")
    found = pd.read_csv(io.BytesIO(downloaded(tables, "tables", "CSV")))
    models = found[found["suite"] == "deep"].sort_values("width")
    wanted = expected("deep", "full")
    assert models["model"].tolist() == wanted["model"].tolist()  # the hostile name among them
    for column in ("value", "ci_low", "ci_high"):
        np.testing.assert_allclose(models[column], wanted[column], rtol=1e-5)
    others = found[found["suite"] != "deep"]
    assert set(others["suite"]) == {"random", "reference"} and set(others["tokenizer"]) == {"deep-bpe"}
    assert len(others) == 3 * 3 + 1 and set(found["task"]) == {"Cats"}  # draws of three widths, and BM25


def test_a_plot_can_be_downloaded_as_a_picture(tables):
    picture = downloaded(tables, "tables", "SVG").decode()
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert "nDCG@10 × 100 against width" in picture and ">deep<" in picture  # title, and a line's name
    assert downloaded(tables, "tables", "PNG").startswith(b"\x89PNG")


def test_rows_of_layers_can_be_downloaded(layers):
    counts = pd.read_csv(io.BytesIO(downloaded(layers, "confusion", "CSV")))
    wide = counts.pivot(index="true_layer", columns="predicted_layer", values="count").loc[list(LAYERS), list(LAYERS)]
    np.testing.assert_array_equal(wide, confusions())
    places = pd.read_csv(io.BytesIO(downloaded(layers, "points", "CSV")))
    np.testing.assert_allclose(places["x"], points()["x"], rtol=1e-3)
    reached = pd.read_csv(io.BytesIO(downloaded(layers, "width", "CSV")))
    assert set(reached["classifier"]) == {"logistic_regression", "lda"} and set(reached["split"]) == {"text"}


def test_without_scripts_there_are_tables(sheet, explorer):
    page = sheet(java_script_enabled=False).open(explorer)
    words = page.locator("noscript").inner_text()
    for row in pd.concat([expected("wide", "full"), expected("deep", "full", task="Dogs")]).itertuples():
        assert f"{row.value * 100:.2f} [{row.ci_low * 100:.2f}, {row.ci_high * 100:.2f}]" in words
    assert HOSTILE in words and page.locator("noscript img").count() == 0
    assert not page.locator("select").first.is_visible() and browsing.sticking_out(page) == []


# Names, sizes, touch --------------------------------------------------------------------------------------


def test_on_a_phone_the_plot_comes_first_and_a_tap_chooses(sheet, explorer):
    page = opened(sheet(**browsing.PHONE), explorer)
    plot, controls = (page.locator(name).bounding_box() for name in ("#tables-plot", "#view-tables .controls"))
    assert plot["y"] + plot["height"] < 844 and controls["y"] > plot["y"] + plot["height"]
    page.touchscreen.tap(*place_of(page, "wide/wide-32"))
    page.locator("#card").wait_for()
    assert page.locator("#card strong").inner_text() == "wide-32"
    assert page.locator(".finger").is_visible() and not page.locator(".mouse").is_visible()
    assert min(box["height"] for box in (b.bounding_box() for b in page.locator("#tables-tools button").all())) >= 44


def test_on_a_laptop_the_controls_are_beside_the_plot(tables):
    plot, controls = (tables.locator(name).bounding_box() for name in ("#tables-plot", "#view-tables .controls"))
    assert controls["x"] > plot["x"] + plot["width"] and plot["y"] + plot["height"] < 800


LONG = "a-model-whose-name-is-very-long-and-has-no-place-to-break-x60"


def test_forty_models_with_long_names_fit_a_phone(sheet, tmp_path, tokenizer_folder):
    models = {"s" * 60: {f"{LONG}<b>{i}</b>": 16 * 2 ** (i % 4) for i in range(40)}, "other": {HOSTILE: 32}}
    page = opened(sheet(**browsing.PHONE), make_explorer(tmp_path, tokenizer_folder, scores=score_rows(models)))
    page.locator("#models button").first.click()
    assert page.locator("#card strong").inner_text().startswith(LONG)
    assert browsing.sticking_out(page) == [] and page.evaluate("typeof hacked") == "undefined"
    assert page.locator("#models button").count() == 41


def test_a_hostile_name_is_shown_and_does_nothing(tables):
    assert tables.locator("#models .name", has_text="hacked").inner_text() == HOSTILE
    hover(tables, f"deep/{HOSTILE}")
    assert HOSTILE[:48] in hovered(tables)
    tables.locator("#models .name", has_text="hacked").click()
    assert tables.locator("#rows-status").inner_text().startswith(f"deep/{HOSTILE}: ")
    assert tables.evaluate("[typeof hacked, document.querySelectorAll('img, a[href^=javascript]').length]") == [
        "undefined",
        0,
    ]


# Layers -----------------------------------------------------------------------------------------------


def points(**chosen):
    rows = point_rows()
    for column, value in ({"model": "wide-16", "reduction": "pca", "scaling": "raw", "layers": "all"} | chosen).items():
        rows = rows[rows[column] == value]
    return rows


def check_points(page, rows):
    found = {trace["name"]: trace for trace in traces(page, "points-plot")}
    assert set(found) == set(rows["layer"])
    for layer, group in rows.groupby("layer"):
        np.testing.assert_allclose(found[layer]["x"], group["x"], rtol=1e-3)
        np.testing.assert_allclose(found[layer]["y"], group["y"], rtol=1e-3)


SHARES = "the axes give their share of the variance."


def test_all_layers_of_the_first_model_are_shown_at_first(layers):
    check_points(layers, points())
    assert (
        status(layers, "points") == "24 vectors of 3 layers, PCA, vectors as they are, trustworthiness 0.87; " + SHARES
    )
    assert layers.locator("#layers-key li").all_inner_texts() == list(LAYERS)
    assert not layers.locator("#other").is_visible()


@pytest.mark.parametrize(
    ("control", "value", "chosen"),
    [
        ("model", "wide/wide-64, step 400", {"model": "wide-64"}),
        ("reduction", "tsne", {"reduction": "tsne"}),
        ("scaling", "unit", {"scaling": "unit"}),
        ("layers", "blocks", {"layers": "blocks"}),
    ],
)
def test_model_reduction_and_scaling_choose_the_points(layers, control, value, chosen):
    layers.select_option(f"#{control}", value)
    check_points(layers, points(**chosen))
    title = layers.evaluate("document.getElementById('points-plot').layout.xaxis.title.text")
    assert title == ("first coordinate" if value == "tsne" else "first component, 50 %")


def test_a_pair_of_layers_can_be_compared(layers):
    layers.select_option("#layer", "embedding")
    rows = points()
    check_points(layers, rows[rows["layer"].isin(["embedding", "block 2"])])  # the last is the other at first
    layers.select_option("#other", "block 1")
    check_points(layers, rows[rows["layer"].isin(["embedding", "block 1"])])


def test_a_point_tells_its_token_and_tokens_can_be_marked(layers, tokenizer_folder):
    from embscale.cli.explorer import _speller

    spell = _speller(tokenizer_folder)
    spelled = points().query("layer == 'block 1'")["token"].map(spell).tolist()
    trace = next(trace for trace in traces(layers, "points-plot") if trace["name"] == "block 1")
    told = [re.fullmatch("<b>“(.*)”</b><br>block 1<br>text 0, position \\d", text)[1] for text in trace["text"]]
    assert [html.unescape(token) for token in told] == spelled
    layers.fill("#token", spelled[0].upper())
    trace = next(trace for trace in traces(layers, "points-plot") if trace["name"] == "block 1")
    marked = [spelled[0].lower() in token.lower() for token in spelled]
    assert [opacity > 0.5 for opacity in trace["opacity"]] == marked
    assert f"{3 * sum(marked)} vectors of " in status(layers, "points")


FITTED = {"model": "wide-16", "classifier": "logistic_regression", "split": "text", "control": "none"}


def confusions(**chosen):
    rows = confusion_rows()
    for column, value in (FITTED | chosen).items():
        rows = rows[rows[column] == value]
    return rows.pivot_table(index="true_layer", columns="predicted_layer", values="count", aggfunc="sum").loc[
        list(LAYERS), list(LAYERS)
    ]


@pytest.mark.parametrize(
    ("control", "value", "chosen"),
    [
        (None, None, {}),
        ("model", "wide/wide-64, step 400", {"model": "wide-64"}),
        ("classifier", "lda", {"classifier": "lda"}),
        ("split", "vector", {"split": "vector"}),
    ],
)
def test_the_confusion_matrix_is_that_of_the_chosen_classifier(layers, control, value, chosen):
    if control:
        layers.select_option(f"#{control}", value)
    counts = confusions(**chosen)
    shares = counts.div(counts.sum(axis=1), axis=0) * 100
    np.testing.assert_allclose(traces(layers, "confusion-plot")[0]["z"], shares, rtol=1e-6)
    layers.evaluate("document.getElementById('confusion-words').open = true")
    table = table_of(layers, "#confusion-rows").set_index("layer").astype(int)
    np.testing.assert_array_equal(table, counts)
    reached = accuracy_rows().query("seed == 'all' and layer.isna()")
    for column, chosen_value in (FITTED | chosen).items():
        reached = reached[reached[column] == chosen_value]
    results = table_of(layers, "#accuracy-rows").set_index("metric")
    for row in reached.itertuples():
        assert float(results.loc[row.metric, "value"]) == pytest.approx(row.value, abs=5e-4)


def test_what_was_not_run_can_be_seen_and_not_chosen(layers):
    layers.select_option("#reduction", "tsne")
    layers.select_option("#model", f"deep/{HOSTILE}")
    option = layers.locator("#reduction option[value=tsne]")
    assert option.inner_text() == "t-SNE (not run)" and option.is_disabled()
    check_points(layers, points(model=HOSTILE))
    assert layers.evaluate("typeof hacked") == "undefined"


def test_a_combination_that_was_not_run_cannot_be_chosen(layers):
    gaussian = layers.locator("#control option[value=gaussian]")
    assert gaussian.inner_text() == "random, same means and variances (not run)" and gaussian.is_disabled()
    layers.select_option("#classifier", "lda")
    assert gaussian.inner_text() == "random, same means and variances" and not gaussian.is_disabled()
    layers.select_option("#control", "gaussian")
    assert traces(layers, "confusion-plot")[0]["z"]
    layers.select_option("#classifier", "logistic_regression")
    assert layers.locator("#control").input_value() == "none"


def test_accuracy_by_width_has_a_line_for_each_classifier(layers):
    reached = accuracy_rows().query("seed == 'all' and layer.isna() and split == 'text' and suite == 'wide'")
    found = {trace["name"]: trace for trace in traces(layers, "width-plot")}
    for classifier, rows in reached[reached["metric"] == "accuracy"].groupby("classifier"):
        assert found[f"wide {classifier}"]["x"] == rows["width"].tolist() == [16, 64]
        np.testing.assert_allclose(found[f"wide {classifier}"]["y"], rows["value"] * 100, rtol=1e-5)
    layers.select_option("#split", "vector")
    other = accuracy_rows().query("seed == 'all' and metric == 'accuracy' and split == 'vector' and suite == 'wide'")
    found = {trace["name"]: trace for trace in traces(layers, "width-plot")}
    np.testing.assert_allclose(found["wide lda"]["y"], other.query("classifier == 'lda'")["value"] * 100, rtol=1e-5)


def test_a_model_without_a_picture_offers_those_that_have_one(sheet, tmp_path, tokenizer_folder):
    some = point_rows().query("model == 'wide-64'")
    rows = {"points": some, "confusion": confusion_rows(), "layers": accuracy_rows()}
    page = opened(
        sheet(), make_explorer(tmp_path, tokenizer_folder, scores=score_rows(), **rows), "#view=layers", "points-plot"
    )
    assert page.locator("#model").input_value() == "wide/wide-64, step 400"  # the first with a picture
    page.select_option("#model", "wide/wide-16, step 400")
    assert "No picture was made of this model" in page.locator("#points-empty").inner_text()
    assert not page.locator("#points-plot").is_visible() and page.locator("#confusion-plot").is_visible()
    page.locator("#points-empty button").click()
    assert page.locator("#points-plot").is_visible() and not page.locator("#points-empty").is_visible()


def test_hidden_states_without_classifiers_can_be_chosen_too(sheet, tmp_path, tokenizer_folder):
    file = make_explorer(tmp_path, tokenizer_folder, scores=score_rows(), points=point_rows())
    page = opened(sheet(), file, "#view=layers", "points-plot")
    page.select_option("#model", "wide/wide-64, step 400")
    check_points(page, points(model="wide-64"))
    assert not page.locator("#taken-for").is_visible() and not page.locator("#by-width").is_visible()


def test_a_study_without_layers_or_choices_shows_nothing_empty(sheet, tmp_path, tokenizer_folder):
    """One suite of one width, one task, one metric, no layers, no facts: no menu is left that changes nothing."""
    rows = score_rows({"wide": {"wide-32": 32}}).query(
        "task == 'Cats' and metric == 'ndcg_at_10' and special_tokens == 'exclude' and (step == 400 or step.isna())"
    )
    page = opened(sheet(), make_explorer(tmp_path, tokenizer_folder, scores=rows), "#view=layers&x=parameters")
    words = page.locator("#unknown").inner_text()
    assert words == "The address asks for what this study does not have: hidden states, x “parameters”."
    for dead in ("#to-layers", "#task", "#metric", "#measure", "#vectors", "#x", "#suite", "#tokens", "#view-layers"):
        assert not page.locator(dead).is_visible(), dead
    assert page.locator("#variant").is_visible() and lines(page)["wide full"]["x"] == [32]
    assert browsing.sticking_out(page) == []


# The page as a whole ------------------------------------------------------------------------------------


@pytest.fixture
def finished(request, explorer):
    """The explorer that was named on the command line, else the small one."""
    return request.config.getoption("--explorer") or explorer


def test_the_report_is_one_click_away_and_its_links_open_a_view(sheet, explorer, tmp_path):
    """A report beside the explorer: there and back again, on the view that a figure names."""
    folder = tmp_path / "it's a <site>"
    folder.mkdir()
    (folder / "explorer.html").write_bytes(explorer.read_bytes())
    report = "<title>R</title><a href='explorer.html#view=tables&amp;task=Dogs&amp;suite=deep'>as in the figure</a>"
    (folder / "index.html").write_text(report, "utf-8")
    page = sheet().open(folder / "index.html")
    page.locator("a").click()
    plotted(page)
    check_line(lines(page)["deep full"], expected("deep", "full", task="Dogs"))
    assert set(lines(page)) == {"deep full"}
    page.get_by_role("link", name="Report").click()
    page.wait_for_function("document.title === 'R'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["tables", "layers"])
@pytest.mark.parametrize("device", [browsing.DESK, browsing.PHONE], ids=["desk", "phone"])
def test_no_error_no_request_no_barrier(sheet, finished, scheme, view, device):
    open_sheet = sheet(color_scheme=scheme, **device)
    page = opened(open_sheet, finished, f"#view={view}", "tables-plot" if view == "tables" else "points-plot")
    assert page.locator("#tables-plot, #points-plot").locator("visible=true").count() == 1
    assert page.locator(".main-svg").first.bounding_box()["height"] > 200
    if view == "tables":
        page.locator("#models button").first.click()
    assert browsing.problems(page) == []
    assert browsing.sticking_out(page) == []
    assert open_sheet.console == [] and open_sheet.foreign(finished) == []


def test_first_contents_are_visible_within_a_second(sheet, finished):
    def painted():
        page = sheet().open(finished)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")

    assert min(painted() for _ in range(3)) < 1000
    assert finished.stat().st_size <= 8_000_000


def test_a_thousand_models_stay_readable(sheet, tmp_path, tokenizer_folder):
    models = {"wide": {f"model-{i:04}": 16 * 2 ** (i % 6) for i in range(1000)}}
    file = make_explorer(tmp_path, tokenizer_folder, scores=score_rows(models))
    assert file.stat().st_size <= 8_000_000
    page = opened(sheet(), file)
    assert status(page).startswith("1,000 scores of 1,000 models")
    assert page.locator("#models button").count() == 50
    assert "950 more, type a part of a name to find them" in page.locator("#models-status").inner_text()
    assert {trace["mode"] for trace in lines(page).values()} == {"markers"}
    page.fill("#search", "model-0777")
    assert page.locator("#models .name").all_inner_texts() == ["model-0777"]
    assert all(len(trace["x"]) == 1 for trace in lines(page).values())
    assert browsing.sticking_out(page) == []
