"""fairseq-train with its default --ddp-backend on CPUs: fairseq names a device, which torch takes of GPUs only."""

from fairseq.models import distributed_fairseq_model as host
from fairseq_cli.train import cli_main

ddp = host.DistributedDataParallel
host.DistributedDataParallel = lambda **options: ddp(**{**options, "device_ids": None, "output_device": None})

if __name__ == "__main__":
    cli_main()
