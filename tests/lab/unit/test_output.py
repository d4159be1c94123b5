"""Files and directories that are written whole or not at all."""

import os
from pathlib import Path

import pytest
import torch

from bert_fused_lab.arguments import given_path, output_errors
from bert_fused_lab.output import directory_errors, written_output
from bert_fused_plugin.errors import BertFusedError


def write_and_stop(place, error):
    with written_output(place) as new:
        new.write_text("half", encoding="utf-8")
        raise error


def test_an_error_leaves_what_there_was(tmp_path):
    place = tmp_path / "model.pt"
    place.write_text("old", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        write_and_stop(place, KeyboardInterrupt())
    assert place.read_text() == "old"
    with written_output(place) as new:
        new.write_text("new", encoding="utf-8")
        assert place.read_text() == "old"
    assert place.read_text() == "new"
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_disk_that_is_full_is_an_error_with_a_remedy(tmp_path):
    full = RuntimeError("write failed")  # as torch says it
    with pytest.raises(BertFusedError, match=r"model.pt cannot be written, and nothing was changed \(write failed\);"):
        write_and_stop(tmp_path / "model.pt", full)
    assert os.listdir(tmp_path) == []


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "last.pt"
    link.symlink_to(tmp_path / "real" / "model.pt")
    with written_output(link) as new:
        torch.save({"a": 1}, new)
    assert link.is_symlink()
    assert torch.load(tmp_path / "real" / "model.pt") == {"a": 1}


@pytest.mark.parametrize("name", ["model", "link"])
def test_a_folder_is_replaced_whole_and_may_be_read_by_all(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    (tmp_path / "link").symlink_to("model")
    with written_output(tmp_path / name) as new:
        new.mkdir()
        (new / "weights").touch(0o600)
    usual = tmp_path / "usual"
    usual.touch()
    assert os.listdir(tmp_path / "model") == ["weights"]
    assert (tmp_path / "model" / "weights").stat().st_mode == usual.stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["link", "model", "usual"]


def test_a_process_that_is_killed_while_it_replaces_a_folder_leaves_the_place_free(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()

    def killed(new, place):
        assert not place.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt), written_output(tmp_path / "model") as new:
        new.mkdir()
    monkeypatch.undo()
    with written_output(tmp_path / "model") as new:
        new.mkdir()
    assert os.listdir(tmp_path) == ["model"]


def test_a_flag_with_an_equals_sign_may_name_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert given_path("~/x") == Path("/home/someone/x")
    assert given_path("~x.pt") == Path("~x.pt")  # of no user, as in the shell


def test_a_file_is_not_written_below_a_file_nor_through_a_link_to_nowhere(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "page.html")
    for path in (tmp_path / "file" / "page.html", tmp_path / "link"):
        [error] = output_errors(output=path)
        assert error == f"--output {path} must be a file in an existing directory that can be written"
    assert output_errors(output=tmp_path / "new", json=tmp_path / "file", title=None) == []


def test_a_new_directory_has_a_parent_and_is_empty(tmp_path):
    assert directory_errors("OUT", tmp_path / "new") == directory_errors("OUT", tmp_path) == []
    [error] = directory_errors("OUT", tmp_path / "no" / "new")
    assert error == f"OUT {tmp_path}/no/new: {tmp_path}/no is no directory; make it first"
    [error] = directory_errors("OUT", tmp_path.parent)
    assert error.endswith("exists and is not empty; name a new directory, or remove this one first")
