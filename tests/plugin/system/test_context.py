"""Document context through the real commands: the previous sentences change a translation, other documents do not."""

import pytest
from workspace import hypotheses, reported


@pytest.fixture(scope="module")
def trained(workspace, tmp_path_factory):
    save_dir = tmp_path_factory.mktemp("context")
    workspace.train("--bert-context", "1", "--bert-branch-weights", "0.2,0.8", save_dir=save_dir)
    return str(save_dir / "checkpoint_last.pt")


def test_interactive_follows_the_documents_of_generate(workspace, trained, tmp_path):
    """Documents of four sentences: by an index for generate, by blank lines for interactive."""
    (tmp_path / "test.docs").write_text("".join(f"{i}\n" for i in range(0, 30, 4)))
    whole = hypotheses(workspace.generate("--path", trained).stdout)
    parts = hypotheses(workspace.generate("--path", trained, "--bert-documents", tmp_path).stdout)
    lines = (workspace.path / "test.en").read_text(encoding="utf-8").splitlines()
    blank = "".join(("\n" if i and i % 4 == 0 else "") + line + "\n" for i, line in enumerate(lines))
    by_lines = workspace.interactive(blank, "--path", trained, "--buffer-size", "100", "--max-sentences", "3").stdout
    numbers = [i + i // 4 for i in range(30)]  # the blank lines have numbers too
    actual = hypotheses(by_lines)
    assert len(actual) == 37
    for i, number in enumerate(numbers):
        assert actual[number][1] == parts[i][1]
        assert actual[number][0] == pytest.approx(parts[i][0], abs=1e-4)
    starts = set(range(0, 30, 4))
    assert {i for i in whole if abs(whole[i][0] - parts[i][0]) > 1e-4} <= starts - {0}
    assert any(abs(whole[i][0] - parts[i][0]) > 1e-4 for i in starts)


def test_the_cache_holds_what_bert_says_with_token_types(workspace, trained, tmp_path):
    plain = hypotheses(workspace.generate("--path", trained).stdout)
    cache = ["--bert-cache", tmp_path, "--bert-cache-dtype", "fp32"]
    cached = hypotheses(workspace.generate("--path", trained, *cache).stdout)
    assert [cached[n][0] for n in plain] == pytest.approx([score for score, _ in plain.values()], abs=1e-4)


def test_a_report_gives_the_documents_to_the_model_with_context_alone(workspace, trained, tmp_path):
    (tmp_path / "test.docs").write_text("0\n4\n")
    runs = f"without={workspace.save_dir}", f"context={trained}"
    systems = reported(workspace.data, *runs, more=["--bert-documents", tmp_path])["systems"]
    assert [system["name"] for system in systems] == ["without", "context"]


def test_a_single_line_has_no_context_and_that_is_said(workspace, trained):
    done = workspace.interactive("a dog\nred\n", "--path", trained, "--buffer-size", "1")
    assert (done.stdout + done.stderr).count("--bert-context 1 reads the preceding lines of the same buffer") == 1
    refused = workspace.generate("--path", trained, task="translation", ok=False)
    assert "--bert-context 1 needs the previous sentences; use --task" in refused.stderr
    both = workspace.generate("--path", f"{trained}:{workspace.checkpoint}", ok=False)
    assert "error: --bert-context 1: the models differ in BERT's input" in both.stderr
