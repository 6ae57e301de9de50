"""PPO with an LSTM on a game of memory: say which symbol was shown four steps ago."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

SYMBOLS, NOISE, BACK, EPISODE = 6, 6, 4, 32
ENVS, HORIZON = 32, 64
PER_BATCH = 16


class RecallGame:
    """All games start and end together; an episode has EPISODE turns."""

    def __init__(self, n, seed):
        self.n, self.g = n, torch.Generator().manual_seed(seed)
        self.turn = 0
        self.shown = []

    def observe(self):
        if self.turn == 0:
            self.shown = []
        self.shown.append(torch.randint(0, SYMBOLS, (self.n,), generator=self.g))
        start = torch.full((self.n,), float(self.turn == 0))
        return torch.cat([F.one_hot(self.shown[-1], SYMBOLS).float(), torch.randn(self.n, NOISE, generator=self.g)], 1), start

    def answer(self, action):
        right = (action == self.shown[-1 - BACK]).float() if len(self.shown) > BACK else torch.zeros(self.n)
        self.turn = (self.turn + 1) % EPISODE
        return right, float(self.turn == 0)


class Agent(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Sequential(nn.Linear(SYMBOLS + NOISE, hidden), nn.Tanh())
        self.lstm = nn.LSTM(hidden, hidden)
        self.policy, self.value = nn.Linear(hidden, SYMBOLS), nn.Linear(hidden, 1)

    def blank(self, n):
        return torch.zeros(1, n, self.hidden), torch.zeros(1, n, self.hidden)

    @torch.no_grad()
    def act(self, obs, start, state):
        keep = (1 - start).view(1, -1, 1)
        out, state = self.lstm(self.embed(obs)[None], (keep * state[0], keep * state[1]))
        return self.policy(out[0]), self.value(out[0]).squeeze(-1), state

    def evaluate(self, obs, starts):
        features = self.embed(obs)
        state, outputs = self.blank(obs.shape[1]), []
        for x, start in zip(features, starts):
            keep = (1 - start).view(1, -1, 1)
            state = keep * state[0], keep * state[1]
            out, state = self.lstm(x[None], state)
            outputs.append(out)
        out = torch.cat(outputs)
        return self.policy(out), self.value(out).squeeze(-1)

    def evaluate_episodes(self, obs):
        """Every episode is a row of the LSTM's batch."""
        turns, games, _ = obs.shape
        episodes = turns // EPISODE
        x = self.embed(obs).view(episodes, EPISODE, games, -1).transpose(0, 1).reshape(EPISODE, episodes * games, -1)
        out, _ = self.lstm(x)
        out = out.view(EPISODE, episodes, games, -1).transpose(0, 1).reshape(turns, games, -1)
        return self.policy(out), self.value(out).squeeze(-1)


def collect(agent, game):
    state, rows = agent.blank(game.n), []
    for _ in range(HORIZON):
        obs, start = game.observe()
        logits, value, state = agent.act(obs, start, state)
        chosen = Categorical(logits=logits)
        action = chosen.sample()
        reward, done = game.answer(action)
        rows.append((obs, start, action, chosen.log_prob(action), value, reward, torch.full_like(reward, done)))
    obs, starts, actions, logps, values, rewards, dones = map(torch.stack, zip(*rows))
    advantage, running, after = torch.zeros_like(rewards), torch.zeros(game.n), torch.zeros(game.n)
    for t in reversed(range(HORIZON)):
        alive = 1 - dones[t]
        delta = rewards[t] + 0.99 * after * alive - values[t]
        running = delta + 0.99 * 0.95 * alive * running
        advantage[t], after = running, values[t]
    return obs, starts, actions, logps, advantage, advantage + values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160, help="updates of the weights")
    parser.add_argument("--fixed", action="store_true", help="give the LSTM whole episodes")
    args = parser.parse_args()
    torch.manual_seed(0)
    agent, game = Agent(), RecallGame(ENVS, seed=1)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    done, start_time = 0, None
    while done < args.steps:
        obs, starts, actions, old, advantage, returns = collect(agent, game)
        reward = 0.0
        for _ in range(4):
            for part in torch.randperm(ENVS).split(PER_BATCH):
                if done == 10:
                    start_time = time.perf_counter()
                if args.fixed:
                    logits, value = agent.evaluate_episodes(obs[:, part])
                else:
                    logits, value = agent.evaluate(obs[:, part], starts[:, part])
                chosen = Categorical(logits=logits)
                ratio = (chosen.log_prob(actions[:, part]) - old[:, part]).exp()
                a = advantage[:, part]
                a = (a - a.mean()) / (a.std() + 1e-8)
                gain = torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                loss = -gain + 0.5 * F.mse_loss(value, returns[:, part]) - 0.01 * chosen.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                done += 1
                if done == args.steps:
                    break
            if done == args.steps:
                break
        if done % 40 < 8:
            reward = float(returns.mean())
            print(f"update {done}: return {reward:.3f}", flush=True)
    seconds = time.perf_counter() - start_time
    samples = (args.steps - 10) * PER_BATCH * HORIZON
    print(json.dumps({"steps": args.steps, "loss": loss.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
