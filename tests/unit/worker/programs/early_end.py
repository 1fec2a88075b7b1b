"""Worker 0 leaves early, in the way that the arguments say: form of the loop, exit code."""

import sys

import torch
from torch import nn

import harmony_worker as harmony

form, code = sys.argv[1], int(sys.argv[2])
model = nn.Linear(4, 1)


def loss_of(iteration: int, job: harmony.Job) -> torch.Tensor:
    if job.worker == 0 and iteration == 5:
        sys.exit(code)
    return model(torch.ones(2, 4)).square().mean()


if form == "phases":
    with harmony.connect() as job:
        model, optimizer = job.parameter_server(model, torch.optim.SGD, lr=0.01)
        for iteration in job.iterations(10):
            with job.pull():
                optimizer.pull()
            with job.compute():
                loss = loss_of(iteration, job)
                loss.backward()
            job.report(loss)
            with job.push():
                optimizer.push()
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    job = harmony.attach(model, optimizer)
    for iteration in range(10):
        optimizer.zero_grad()
        loss = loss_of(iteration, job)
        loss.backward()
        job.report(loss)
        optimizer.step()
