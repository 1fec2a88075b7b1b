"""An attached loop with what real loops have: schedule, clipping, evaluation, late zero_grad."""

import torch
from torch import nn
from torch.nn.functional import mse_loss

import harmony_worker as harmony

torch.manual_seed(0)
samples = torch.randn(128, 8)
targets = samples.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(
    [{"params": model[0].parameters(), "lr": 0.02}, {"params": model[1:].parameters()}], lr=0.01
)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
job = harmony.attach(model, optimizer)

for _ in range(6):
    model.train()
    for rows in torch.randperm(len(samples)).split(16):
        loss = mse_loss(model(samples[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        job.report(loss)
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        model(samples)
