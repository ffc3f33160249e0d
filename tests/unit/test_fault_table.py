"""The page of faults says what the tests try."""

from collections import Counter

import fault_table


def test_the_page_is_made_of_the_marks():
    assert fault_table.TABLE.read_text("utf-8") == fault_table.table(), "run python tests/fault_table.py"


def test_a_hundred_faults_have_names_of_their_own_and_a_chapter():
    found = fault_table.collected()
    names = Counter(fault.name for some in found.values() for fault in some)
    assert len(names) >= 100 and set(names.values()) == {1}
    chapters = [name for some in fault_table.CHAPTERS.values() for name in some]
    assert set(found) <= set(chapters) and len(chapters) == len(set(chapters))
