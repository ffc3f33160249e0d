"""Reading a .qmd text: what is put together, and what is refused with its place."""

import pytest

from embscale.errors import EmbscaleError
from embscale.report import metadata, qmd
from report_texts import BODY_LINE, write_report


def read(folder, body, **kinds):
    return qmd.read(write_report(folder, body, **kinds), {"renderer": "a test"})


def refusal(folder, body, **kinds):
    with pytest.raises(EmbscaleError) as error:
        read(folder, body, **kinds)
    return str(error.value).replace(f"{folder}/", "")


def test_values_come_from_variables_and_metadata(tmp_path):
    body = "Best: {{< var best.score >}} by {{< var best.model >}} in {{<var runs>}} runs; {{< meta renderer >}}."
    assert read(tmp_path, body).text.strip() == "Best: 41.20 by narrow in 12 runs; a test."


def test_values_also_reach_the_title_block(tmp_path):
    document = read(tmp_path, "Text.", front='subtitle: "After {{< var runs >}} runs"')
    assert document.meta["subtitle"] == "After 12 runs"


def test_escaped_shortcodes_are_shown_and_code_is_left_alone(tmp_path):
    document = read(tmp_path, "Write {{{< var x >}}} or `{{{< var y >}}}` for a `$` sign.")
    assert document.text.strip() == "Write {{< var x >}} or `{{< var y >}}` for a `$` sign."


def test_nested_includes_start_at_the_main_folder_and_lines_keep_their_place(tmp_path):
    files = {"parts/a.md": "from a\n\n{{< include parts/deep/b.md >}}\n", "parts/deep/b.md": "from b, {{< var runs >}}"}
    document = read(tmp_path, "before\n\n{{< include parts/a.md >}}\n\nafter", files=files)
    found = {line.text: (line.file.relative_to(tmp_path).as_posix(), line.number) for line in document.body}
    assert found["from a"] == ("parts/a.md", 1)
    assert found["from b, 12"] == ("parts/deep/b.md", 1)
    assert found["after"] == ("index.qmd", BODY_LINE + 4)


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("{{< var best.size >}}", 0, "no key 'size'; there is score, model"),
        ("{{< meta abstract >}}", 0, "no key 'abstract'"),
        ("{{< var ratio >}}", 0, "value is a float; write it as text"),
        ("{{< var best >}}", 0, "value is a dict"),
        ("{{< var long >}}", 0, "several lines; make it a file and include it"),
        ("{{< video a.mp4 >}}", 0, "only include, var and meta"),
        ("text\n\n{{< var\nruns >}}", 2, "closed on the same line"),
        ("`{{< var runs >}}`", 0, "shortcode inside code"),
        ("```\n{{< var runs >}}\n```", 1, "shortcode inside code"),
        ("```{python}\n1 + 1\n```", 0, "executable cell {python}"),
        ("text\n\n```python\nx = 1", 2, "code block without an end"),
        ("see {{< include figures/slope.md >}}", 0, "on a line of its own"),
        ("text\n{{< include figures/slope.md >}}", 1, "an empty line above and below"),
        ("{{< include figures/none.md >}}", 0, "figures/none.md: no such file"),
        ("{{< include ../secret.md >}}", 0, "leads out of"),
        ("{{< include figures/../../secret.md >}}", 0, "leads out of"),
        ("{{< include index.qmd >}}", 0, "include loop: index.qmd > index.qmd"),
        ("::: {#fig-x}\n\ntext", 0, "block without an end: ::: {#fig-x}"),
        ("::: {.callout-note}\n\n::: {.callout-tip}\ninner\n:::\n\nouter", 0, "block without an end"),
        ("text\n\n:::", 2, "closes a block that was never opened"),
        ("text\n::: {.callout-note}\nnote\n:::", 1, "an empty line above this ::: block"),
    ],
)
def test_refusals_name_file_line_and_remedy(tmp_path, body, line, words):
    message = refusal(tmp_path, body)
    assert message.startswith(f"index.qmd:{BODY_LINE + line}: ")
    assert words in message


def test_include_loop_through_another_file_names_the_way(tmp_path):
    files = {"a.md": "{{< include b.md >}}", "b.md": "text\n\n{{< include a.md >}}"}
    message = refusal(tmp_path, "{{< include a.md >}}", files=files)
    assert message.startswith("b.md:3: include loop: index.qmd > a.md > b.md > a.md")


def test_a_block_must_close_in_its_own_file(tmp_path):
    files = {"a.md": "\n::: {.callout-note}\n"}
    assert refusal(tmp_path, "{{< include a.md >}}", files=files).startswith("a.md:2: block without an end")
    closed_elsewhere = refusal(tmp_path, "{{< include a.md >}}\n\n:::", files=files)
    assert "::: closes a block that was never opened" in closed_elsewhere


def test_included_front_matter_is_refused(tmp_path):
    message = refusal(tmp_path, "{{< include a.md >}}", files={"a.md": "---\ntitle: B\n---\ntext"})
    assert message.startswith("a.md:2: an included file cannot have front matter")


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("toc-deepth: 2", "index.qmd:3: setting 'toc-deepth' is outside the shared subset"),
        ("date: today", "index.qmd:3: date 'today' changes daily"),
        ("html-math-method: katex", "index.qmd:3: html-math-method must be mathml"),
        ("format: pdf", "index.qmd: format pdf; the report is only made as html"),
        ("subtitle: 'open", "index.qmd:3: not YAML"),
        ("subtitle: '{{< var nothing >}}'", "index.qmd:3: {{< var nothing >}}: no key 'nothing'"),
    ],
)
def test_settings_outside_the_subset_are_refused(tmp_path, front, words):
    assert words in refusal(tmp_path, "Text.", front=front)


def test_settings_of_the_project_are_checked_too(tmp_path):
    project = "format:\n  html:\n    embed-resources: false\n"
    assert "embed-resources must be true" in refusal(tmp_path, "Text.", files={"_quarto.yml": project})
    project = "format:\n  html:\n    code-fold: true\n"
    assert refusal(tmp_path, "Text.", files={"_quarto.yml": project}).startswith("_quarto.yml:3: setting 'code-fold'")


def test_later_levels_override_and_lists_are_joined(tmp_path):
    project = "lang: de\nkeywords: [a]\nformat:\n  html:\n    toc: true\n"
    front = "lang: en-GB\nkeywords: [b]\nformat:\n  html:\n    toc: false"
    meta = read(tmp_path, "Text.", front=front, files={"_quarto.yml": project}).meta
    assert (meta["lang"], meta["keywords"], meta["toc"]) == ("en-GB", ["a", "b"], False)


def test_authors_in_every_form():
    people = ["Ada", {"name": "Ben", "affiliations": [{"name": "Lab"}, "Institute"]}]
    assert metadata.authors(people) == [{"name": "Ada"}, {"name": "Ben", "affiliation": "Lab; Institute"}]
    assert metadata.authors("Ada") == [{"name": "Ada"}]


def test_text_that_is_not_utf8_is_refused(tmp_path):
    source = write_report(tmp_path, "Text.")
    source.write_bytes(b"caf\xe9\n")
    with pytest.raises(EmbscaleError, match="not UTF-8 at byte 3"):
        qmd.read(source, {})
