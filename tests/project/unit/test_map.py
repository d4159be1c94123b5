"""The map of CONTRIBUTING.md is one of the code: its classes are in their files, and its arrows are uses."""

import re

from documentation import ROOT, text_of

PACKAGE = ROOT / "bert_fused_plugin"
NODE = r'(\w+)(?:\["\1<br>([\w/.]+)"\])?'


def test_every_box_and_arrow_of_the_map_is_in_the_code():
    drawn = re.search(r"^```mermaid\n(.*?)^```$", text_of("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)[1]
    files = dict(re.findall(r'(\w+)\["\1<br>([\w/.]+)"\]', drawn))
    code = {name: (PACKAGE / file).read_text(encoding="utf-8") for name, file in files.items()}
    assert len(files) > 15
    for name, text in code.items():
        assert re.search(rf"^(class {name}\b|def {name}\(|{name}\b.* = )", text, re.MULTILINE), f"{name} is not there"
    for line in drawn.splitlines()[1:]:
        names = [name for name, _ in re.findall(NODE, re.sub(r"-->(\|[^|]*\|)?", " ", line))]
        assert len(names) > 1
        for user, used in zip(names, names[1:]):
            assert re.search(rf"\b{used}\b", code[user]), f"{files[user]} does not use {used}"
