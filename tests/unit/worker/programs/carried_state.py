"""A loop with phases whose next iteration depends on more than the parameters."""

import sys

import torch
from torch import nn
from torch.nn.functional import mse_loss

import harmony_worker as harmony

staleness = int(sys.argv[1]) if len(sys.argv) > 1 else 0

with harmony.connect(seed=7, staleness=staleness) as job:
    samples = torch.randn(128, 8)
    targets = samples.sum(dim=1, keepdim=True)
    network = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    model, optimizer = job.parameter_server(
        network,
        torch.optim.AdamW,
        params=[
            {"params": network[0].parameters()},
            {"params": network[2].parameters(), "lr": 0.1},
        ],
        lr=0.01,
    )
    job.schedule(torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=100))
    for sample, target in job.blocks(samples, targets, batch_size=16, iterations=100):
        average = job.state.get("average", torch.zeros(()))
        with job.pull():
            optimizer.pull()
        with job.compute():
            loss = mse_loss(model(sample), target) + 0.1 * average
            loss.backward()
        job.state["average"] = 0.9 * average + 0.1 * loss.detach()
        job.report(loss)
        with job.push():
            optimizer.push()
