"""What records lose before they are recorded, and what they keep."""

import json

import strip_environment


def test_a_record_loses_the_environment_and_nothing_else(tmp_path):
    record = {"rule": "a", "params": ["1"], "software_stack_hash": "ab", "input_checksums": {"x": "sha256:1"}}
    (tmp_path / "@folder").mkdir()
    for name in ("cmVzdWx0cw==", "@folder/bmFtZQ=="):
        (tmp_path / name).write_text(json.dumps(record | {"conda_env": "Y2hhbm5lbHM="}))
    assert strip_environment.strip_environment(tmp_path) == 2
    for name in ("cmVzdWx0cw==", "@folder/bmFtZQ=="):
        assert json.loads((tmp_path / name).read_text()) == record | {"conda_env": None}
    assert strip_environment.strip_environment(tmp_path) == 0
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2
