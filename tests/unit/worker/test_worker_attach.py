from collections.abc import Callable

import torch
from torch import nn

import harmony_worker as harmony


def train(prepare: Callable[[nn.Module, torch.optim.Optimizer], object]) -> list[float]:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    prepare(model, optimizer)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_outside_harmony_an_attached_loop_is_what_it_was() -> None:
    assert train(harmony.attach) == train(lambda model, optimizer: None)


def test_iterations_are_counted_by_steps() -> None:
    jobs: list[harmony.Job] = []
    train(lambda model, optimizer: jobs.append(harmony.attach(model, optimizer)))
    assert jobs[0].iteration == 19
