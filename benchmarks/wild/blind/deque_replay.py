"""Deep Q-learning on a small grid of cliffs, with a large replay memory."""

import argparse
import json
import random
import time
from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from torch import nn


class Transition(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    next_state: np.ndarray
    done: bool


class Cliffs:
    """Point on a line of hills: push left, right or not at all."""

    actions = 3

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = self.rng.normal(0, 0.3, 8).astype(np.float32)
        self.age = 0
        return self.state

    def step(self, action):
        nxt = 0.95 * self.state
        nxt[0] += 0.1 * (action - 1)
        nxt[1:] += 0.1 * self.state[:-1]
        nxt = nxt.astype(np.float32)
        reward = -abs(float(nxt[-1]))
        self.age += 1
        done = self.age >= 200 or abs(nxt[0]) > 2
        self.state = nxt
        return nxt, reward, done


class DequeReplay:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(Transition(*transition))

    def sample(self, count):
        batch = Transition(*zip(*random.sample(self.memory, count), strict=True))
        states, next_states = np.stack(batch.state), np.stack(batch.next_state)
        actions, rewards, dones = np.array(batch.action), np.array(batch.reward, np.float32), np.array(batch.done, np.float32)
        return [torch.from_numpy(a) for a in (states, actions, rewards, next_states, dones)]


class ArrayReplay:
    def __init__(self, capacity, width=8):
        self.capacity, self.size, self.next = capacity, 0, 0
        self.states = np.empty((capacity, width), np.float32)
        self.next_states = np.empty((capacity, width), np.float32)
        self.actions = np.empty(capacity, np.int64)
        self.rewards, self.dones = np.empty(capacity, np.float32), np.empty(capacity, np.float32)

    def push(self, state, action, reward, next_state, done):
        i = self.next
        self.states[i], self.actions[i], self.rewards[i], self.next_states[i], self.dones[i] = state, action, reward, next_state, done
        self.next = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, count):
        i = np.random.randint(0, self.size, count)
        return [torch.from_numpy(a[i]) for a in (self.states, self.actions, self.rewards, self.next_states, self.dones)]


class Agent:
    def __init__(self, replay, batch_size=512, gamma=0.99):
        self.replay, self.batch_size, self.gamma = replay, batch_size, gamma
        self.q, self.target = self.network(), self.network()
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=5e-4)

    @staticmethod
    def network():
        return nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, Cliffs.actions))

    @torch.no_grad()
    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(Cliffs.actions)
        return int(self.q(torch.from_numpy(state)).argmax())

    def learn(self):
        states, actions, rewards, next_states, dones = self.replay.sample(self.batch_size)
        values = self.q(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            goal = rewards + self.gamma * (1 - dones) * self.target(next_states).max(1).values
        loss = nn.functional.smooth_l1_loss(values, goal)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.optimizer.step()
        return loss


def prefill(replay, env, count):
    """Random play, as before most trainings of this kind."""
    state = env.reset()
    for _ in range(count):
        action = random.randrange(Cliffs.actions)
        nxt, reward, done = env.step(action)
        replay.push(state, action, reward, nxt, done)
        state = env.reset() if done else nxt


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--prefill", type=int, default=350_000)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    env = Cliffs()
    replay = ArrayReplay(500_000) if args.fixed else DequeReplay(500_000)
    prefill(replay, env, args.prefill)
    agent = Agent(replay)
    state, start, losses = env.reset(), time.perf_counter(), []
    for step in range(1, args.steps + 1):
        action = agent.act(state, epsilon=max(0.05, 1 - step / args.steps))
        nxt, reward, done = env.step(action)
        replay.push(state, action, reward, nxt, done)
        state = env.reset() if done else nxt
        losses.append(agent.learn().item())
        if step % 250 == 0:
            agent.target.load_state_dict(agent.q.state_dict())
            print(f"step {step} td loss {sum(losses[-250:]) / 250:.5f}", flush=True)
        if step == 50:
            start = time.perf_counter()
    seconds = time.perf_counter() - start
    samples = (args.steps - 50) * agent.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
