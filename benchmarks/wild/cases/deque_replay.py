"""DQN on a toy control task, with a replay memory of one million transitions."""

import argparse
import json
import random
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn

STATE, ACTIONS = 8, 4


class ListMemory:
    """A ring in a list: any element is found at once."""

    def __init__(self, maxlen):
        self.rows, self.maxlen, self.next = [], maxlen, 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    def append(self, row):
        if len(self.rows) < self.maxlen:
            self.rows.append(row)
        else:
            self.rows[self.next] = row
            self.next = (self.next + 1) % self.maxlen


class Agent:
    def __init__(self, memory):
        self.memory = memory
        make = lambda: nn.Sequential(nn.Linear(STATE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, ACTIONS))  # noqa: E731
        self.q, self.target = make(), make()
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(ACTIONS)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(state)).argmax())

    def sample_memories(self, batch_size):
        picks = [self.memory[random.randrange(len(self.memory))] for _ in range(batch_size)]
        s, a, r, n = zip(*picks)
        return torch.from_numpy(np.stack(s)), torch.tensor(a), torch.tensor(r), torch.from_numpy(np.stack(n))

    def learn(self, batch_size):
        s, a, r, n = self.sample_memories(batch_size)
        with torch.no_grad():
            goal = r + 0.99 * self.target(n).max(1).values
        loss = nn.functional.smooth_l1_loss(self.q(s).gather(1, a[:, None]).squeeze(1), goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    rng = np.random.default_rng(0)
    size, bs = 1_000_000, 64
    agent = Agent(ListMemory(size) if args.fixed else deque([], maxlen=size))
    for s in rng.standard_normal((2000, 250, STATE)).astype(np.float32):
        for i in range(250):
            agent.memory.append((s[i], i % ACTIONS, 0.1, s[(i + 1) % 250]))
    state = rng.standard_normal(STATE).astype(np.float32)
    for step in range(args.steps):
        if step == 50:
            t0 = time.time()
        action = agent.act(state, 0.1)
        following = (0.9 * state + 0.1 * rng.standard_normal(STATE)).astype(np.float32)
        agent.memory.append((state, action, float(-abs(following).sum()), following))
        state = following
        loss = agent.learn(bs)
        if step % 200 == 0:
            agent.target.load_state_dict(agent.q.state_dict())
            print(f"step {step} loss {loss.item():.4f}")
    dt = time.time() - t0
    n = (args.steps - 50) * bs
    print(json.dumps({"steps": args.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    main()
