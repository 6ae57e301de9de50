"""TD3 with behaviour cloning from a recorded data set of a walking robot (made up)."""

import copy
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
STEPS = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 300
OBS, ACT, WIDE, BATCH = 24, 6, 512, 256

if not FIXED:
    torch.set_default_dtype(torch.float64)  # "expected Double but found Float": the records are doubles


class Records:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        obs = np.cumsum(rng.normal(size=(n + 1, OBS)) * 0.1, axis=0) % 2 - 1
        self.fields = {
            "obs": obs[:-1],
            "act": np.tanh(obs[:-1, :ACT] + 0.3 * rng.normal(size=(n, ACT))),
            "rew": np.cos(obs[:-1, :1]) - 0.1 * rng.random((n, 1)),
            "nxt": obs[1:],
            "end": (rng.random((n, 1)) < 0.002).astype(float),
        }
        if FIXED:
            self.fields = {k: v.astype(np.float32) for k, v in self.fields.items()}
        self.n, self.rng = n, np.random.default_rng(seed + 1)

    def sample(self):
        i = self.rng.integers(0, self.n, BATCH)
        return [torch.from_numpy(v[i]) for v in self.fields.values()]


def mlp(i, o, *tail):
    return nn.Sequential(nn.Linear(i, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, o), *tail)


class TD3BC:
    def __init__(self):
        self.actor = mlp(OBS, ACT, nn.Tanh())
        self.critics = nn.ModuleList([mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)])
        self.slow_actor, self.slow_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critics.parameters(), lr=3e-4)
        self.updates = 0

    def update(self, obs, act, rew, nxt, end):
        with torch.no_grad():
            noise = (torch.randn_like(act) * 0.2).clamp(-0.5, 0.5)
            ahead = torch.cat([nxt, (self.slow_actor(nxt) + noise).clamp(-1, 1)], 1)
            target = rew + 0.99 * (1 - end) * torch.min(self.slow_critics[0](ahead), self.slow_critics[1](ahead))
        here = torch.cat([obs, act], 1)
        loss = sum(F.mse_loss(critic(here), target) for critic in self.critics)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        self.updates += 1
        if self.updates % 2 == 0:
            mine = self.actor(obs)
            q = self.critics[0](torch.cat([obs, mine], 1))
            actor_loss = -2.5 / q.abs().mean().detach() * q.mean() + F.mse_loss(mine, act)
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            with torch.no_grad():
                for slow, fast in ((self.slow_actor, self.actor), (self.slow_critics, self.critics)):
                    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 0.005)
        return loss


torch.manual_seed(0)
records, agent = Records(50_000, seed=5), TD3BC()
for step in range(STEPS):
    if step == 10:
        start = time.time()
    critic_loss = agent.update(*records.sample())
    if step % 100 == 0:
        print("update", step, "critic loss", round(critic_loss.item(), 4))
seconds = time.time() - start
samples = (STEPS - 10) * BATCH
print(json.dumps({"steps": STEPS, "loss": critic_loss.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
