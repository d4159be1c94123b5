"""Packaging of bert_fused_plugin.

fairseq itself is not among the dependencies: the pins of fairseq 0.12.2 (hydra-core<1.1,
omegaconf<2.1) cannot be met by a current pip.  What it really needs is listed instead, and
``scripts/setup.sh`` (or ``pip install --no-deps fairseq==0.12.2``) adds fairseq.
"""

import os
import shutil
from pathlib import Path

from setuptools import find_packages, setup

from distutils.command.install_headers import install_headers  # isort: skip (setuptools' own copy)

HERE = Path(__file__).resolve().parent
REPOSITORY = "https://github.com/OWNER/bert_fused_plugin"  # whoever publishes it puts a name for OWNER
STARTUP_FILE = "bert_fused_plugin_compat.pth"  # runs "import fairseq_compat" at interpreter start


class InstallStartupFile(install_headers):
    """Puts STARTUP_FILE into site-packages, from a wheel and from an editable install alike.

    setuptools has no option for a file in the root of site-packages, but it sends "headers"
    through this command in both kinds of build.  The wheel format says that what lies in
    ``<name>.data/purelib`` goes to site-packages, so that is where ours go.
    """

    def finalize_options(self):  # noqa: D102
        super().finalize_options()
        self.install_dir = os.path.join(os.path.dirname(self.install_dir), "purelib")


def read(name):
    """The text of a file of this folder, or "" where it is missing."""
    path = HERE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


SPARSE = ["entmax>=1.1"]  # for --attention-map and --self-attention-map other than softmax
DEPLOY = ["ctranslate2>=4.6.3"]  # for the step deploy of the recipes
JAPANESE = ["fugashi", "unidic-lite"]  # which the tokenizers of most Japanese BERTs need
PLOTS = ["tensorboard"]  # for --tensorboard-logdir; without a bound, since each Python has its newest version

shutil.rmtree(HERE / "build" / "lib", ignore_errors=True)  # setuptools would install the modules of an earlier version
setup(
    name="bert_fused_plugin",
    version="1.1.0",
    description="BERT-fused neural machine translation, and RNNsearch, in stock fairseq with a pre-trained BERT",
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    author="bert_fused_plugin contributors",
    url=REPOSITORY,
    project_urls={
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
    },
    license="MIT",
    license_files=["LICENSE"],
    keywords="fairseq BERT neural-machine-translation BERT-fused drop-net RNNsearch attention transformers",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.9,<3.16",
    packages=find_packages(include=["bert_fused_plugin*", "bert_fused_lab*", "fairseq_compat"]),
    package_data={
        "bert_fused_plugin": ["py.typed"],
        "bert_fused_lab": ["py.typed"],
        "bert_fused_lab.importing": ["templates/*"],
        "bert_fused_lab.report": ["templates/*"],
    },
    entry_points={
        "console_scripts": [
            "bert-fused-attention = bert_fused_lab.evidence.plot_attention:main",
            "bert-fused-average = bert_fused_lab.exporting.average_checkpoints:main",
            "bert-fused-cache = bert_fused_plugin.cache_command:main",
            "bert-fused-compare = bert_fused_lab.compare:main",
            "bert-fused-evidence = bert_fused_lab.evidence.command:main",
            "bert-fused-export = bert_fused_lab.exporting.export_model:main",
            "bert-fused-import = bert_fused_lab.importing.import_bert_nmt:main",
            "bert-fused-recipe = bert_fused_lab.recipe.command:main",
            "bert-fused-report = bert_fused_lab.report.command:main",
        ]
    },
    headers=[STARTUP_FILE],
    cmdclass={"install_headers": InstallStartupFile},
    zip_safe=False,
    # scripts/test_matrix.sh makes pip's constraints of the lower bounds, one in each line.
    install_requires=[
        "torch>=2.6",
        "safetensors>=0.4.1",
        "transformers>=4.40",
        "protobuf",  # transformers reads models of sentencepiece with it
        "huggingface_hub>=0.19.3",
        "sacrebleu>=2.2",
        "sacremoses>=0.0.43",
        "langcodes[data]>=3.5",
        "sentencepiece>=0.1.95",
        "subword-nmt>=0.3.7",
        "jinja2>=3.0",
        "matplotlib>=3.5",
        # What fairseq 0.12.2 needs, with versions that exist for today's pip and Python.
        "hydra-core>=1.3,<1.4",
        "omegaconf>=2.3,<2.4",
        "bitarray>=2.9",
        "cffi",
        "cython",
        "numpy>=1.22",
        "regex",
        "tqdm",
    ],
    extras_require={
        "deploy": DEPLOY,
        "japanese": JAPANESE,
        "plots": PLOTS,
        "sparse": SPARSE,
        "dev": [
            *DEPLOY,
            *JAPANESE,
            *PLOTS,
            *SPARSE,
            "ruff==0.17.5",
            'mypy==2.4.1; python_version >= "3.10"',
            "pytest>=7",
            "setuptools>=64",  # the tests build a wheel offline; Python 3.12 and newer bring none
            "pytest-timeout>=2.1",
            "pytest-xdist>=3",
            "hypothesis>=6",
        ],
    },
)
