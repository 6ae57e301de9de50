# Link prediction by enclosing subgraphs: for a pair of nodes, cut out what lies within two hops and ask a small GNN whether they are linked.
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

NODES, FEATURES, HIDDEN, BATCH, HOPS = 30_000, 48, 96, 32, 2


def make_graph(seed=0):
    """A ring in which all know some of their next forty; edges sorted by source, both directions."""
    rng = np.random.default_rng(seed)
    a = np.repeat(np.arange(NODES), 3)
    b = (a + rng.integers(1, 40, len(a))) % NODES
    keys = np.unique(np.concatenate([a * NODES + b, b * NODES + a]))
    edge_index = torch.from_numpy(np.stack([keys // NODES, keys % NODES]))
    x = torch.from_numpy(rng.normal(size=(NODES, FEATURES)).astype("float32"))
    return edge_index, x


def within_hops(edge_index, u, v):
    row, col = edge_index
    wanted = torch.zeros(NODES, dtype=torch.bool)
    found = [torch.tensor([u, v])]
    for _ in range(HOPS):
        wanted.fill_(False)
        wanted[found[-1]] = True
        found.append(col[wanted[row]])
    nodes = torch.cat(found).unique()
    wanted.fill_(False)
    wanted[nodes] = True
    both = wanted[row] & wanted[col]
    local = torch.full((NODES,), -1)
    local[nodes] = torch.arange(len(nodes))
    return nodes, local[edge_index[:, both]]


class Rows:
    """The same from an index of where each node's edges begin."""

    def __init__(self, edge_index):
        self.neighbours = edge_index[1].numpy()
        self.begin = np.searchsorted(edge_index[0].numpy(), np.arange(NODES + 1))
        self.local = np.full(NODES, -1)

    def of(self, nodes):
        return np.concatenate([self.neighbours[self.begin[i] : self.begin[i + 1]] for i in nodes])

    def within_hops(self, u, v):
        found = [np.array([u, v])]
        for _ in range(HOPS):
            found.append(np.unique(self.of(found[-1])))
        nodes = np.unique(np.concatenate(found))
        self.local[nodes] = np.arange(len(nodes))
        source = np.repeat(np.arange(len(nodes)), self.begin[nodes + 1] - self.begin[nodes])
        target = self.local[self.of(nodes)]
        inside = target >= 0
        self.local[nodes] = -1
        return torch.from_numpy(nodes), torch.from_numpy(np.stack([source[inside], target[inside]]))


class Links(Dataset):
    def __init__(self, edge_index, x, rows, count=6000):
        rng = np.random.default_rng(3)
        self.edge_index, self.x, self.rows = edge_index, x, rows
        real = edge_index.numpy()[:, rng.integers(0, edge_index.shape[1], count // 2)].T
        start = rng.integers(0, NODES, count // 2)
        wrong = np.stack([start, (start + rng.integers(1, 100, count // 2)) % NODES], 1)
        self.pairs = np.concatenate([real, wrong])
        self.labels = np.repeat([1.0, 0.0], count // 2).astype("float32")

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        u, v = map(int, self.pairs[i])
        if self.rows is not None:
            nodes, edges = self.rows.within_hops(u, v)
        else:
            nodes, edges = within_hops(self.edge_index, u, v)
        lu, lv = (torch.searchsorted(nodes, torch.tensor([u, v]))).tolist()
        s, t = edges
        edges = edges[:, ~(((s == lu) & (t == lv)) | ((s == lv) & (t == lu)))]
        return self.x[nodes], edges, lu, lv, self.labels[i]


def collate(items):
    xs, edges, us, vs, shift = [], [], [], [], 0
    for x, e, u, v, _ in items:
        xs.append(x)
        edges.append(e + shift)
        us.append(u + shift)
        vs.append(v + shift)
        shift += len(x)
    labels = torch.tensor([item[-1] for item in items])
    return torch.cat(xs), torch.cat(edges, 1), torch.tensor(us), torch.tensor(vs), labels


class Sage(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.others = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, h, edges):
        s, t = edges
        total = torch.zeros_like(h).index_add_(0, t, h[s])
        count = torch.zeros(len(h)).index_add_(0, t, torch.ones(len(t))).clamp_(min=1)
        return F.relu(self.own(h) + self.others(total / count[:, None]))


class Linked(nn.Module):
    def __init__(self):
        super().__init__()
        self.mark = nn.Parameter(torch.randn(FEATURES) * 0.1)
        self.layers = nn.ModuleList([Sage(FEATURES, HIDDEN), Sage(HIDDEN, HIDDEN), Sage(HIDDEN, HIDDEN)])
        self.head = nn.Sequential(nn.Linear(2 * HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, x, edges, u, v):
        ends = torch.zeros(len(x), 1)
        ends[u] = ends[v] = 1
        h = x + ends * self.mark
        for layer in self.layers:
            h = layer(h, edges)
        return self.head(torch.cat([h[u] * h[v], h[u] + h[v]], 1)).squeeze(1)


fixed = "--fixed" in sys.argv
steps = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 120
torch.manual_seed(0)
edge_index, x = make_graph()
loader = DataLoader(Links(edge_index, x, Rows(edge_index) if fixed else None), batch_size=BATCH, shuffle=True, collate_fn=collate, drop_last=True)
model = Linked()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
step, begun = 0, None
while step < steps:
    for x_, edges_, u_, v_, y_ in loader:
        loss = F.binary_cross_entropy_with_logits(model(x_, edges_, u_, v_), y_)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == 10:
            begun = time.time()
        if step % 60 == 0:
            print("step", step, "loss", round(loss.item(), 4))
        if step == steps:
            break
    scheduler.step()
seconds = time.time() - begun
samples = (steps - 10) * BATCH
print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
