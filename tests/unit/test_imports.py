import subprocess
import sys

LIBRARIES = "transformers tokenizers huggingface_hub sacremoses matplotlib sympy torch._dynamo".split()


def test_a_plain_model_pays_nothing_for_the_libraries_of_bert():
    code = (
        "import sys, fairseq_cli.generate; before = set(sys.modules)\n"
        "import bert_fused_plugin; print(*sorted(set(sys.argv[1:]) & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *LIBRARIES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
