"""Writes a month of 30,000 GPU jobs as sacct -P prints them, with the word others 100,000 more without GPUs.

For 24 nodes each of 4 V100, 4 P100 and 4 K80, at a load of 0.55, or with load=0.9 of 0.9, more by day than by
night. Of 20 jobs 5 are TE, of some minutes; 8 are BE of a workload of Gavel's, their GPU
type open; 4 are BE of one of Synergy's, for which CPUs and memory matter, on V100s; 3
have no tag. Run times are lognormal, time limits 1.2 to 4 times as long. For each GPU they
ask for 4 CPUs and 40 GB, or with the word share for a GPU's share of its node.

Jobs without GPUs are for 120 nodes of 64 CPUs in a partition of their own, at a load of 0.75 (month-nodes.toml).
Of 100 jobs 88 take some CPUs of one node, 12 whole nodes; 3 run on the nodes with GPUs.

usage: month.py [share] [others] [load=LOAD] > month.sacct
"""
import math, random, sys

JOBS, DAYS, GPUS, MIDNIGHT = 30000, 30, 3 * 24 * 4, 1704067200
LOAD = ([float(a[5:]) for a in sys.argv if a.startswith("load=")] or [0.55])[0]
CPUS, GB = (8, 96) if "share" in sys.argv else (4, 40)
OTHERS, NODES, CORES, BUSY = 100000 if "others" in sys.argv else 0, 120, 64, 0.75
BATCHES = {"lm": (5, 10, 20, 40, 80), "resnet-18": (16, 32, 64, 128, 256), "resnet-50": (16, 32, 64, 128), "transformer": (16, 32, 64, 128, 256)}
GAVEL = ["%s-%d" % (name, size) for name, sizes in BATCHES.items() for size in sizes]
SYNERGY = ["alexnet", "res18", "res50", "mobilenet", "shufflenet", "gnmt", "lstm", "m5", "deepspeech"]
draw = random.Random(1)


def job():
    """Seconds, GPUs, their type or "", and the tag."""
    kind, gpus = draw.randrange(20), draw.choices((1, 2, 4, 8), (70, 14, 12, 4))[0]
    if kind < 5:
        return min(draw.lognormvariate(math.log(300), 1), 3600), min(gpus, 4), "", "prio:type=te&v=1"
    seconds = min(draw.lognormvariate(math.log(3600), 1.6), 5 * 86400)
    if kind < 13:
        return seconds, gpus, "", "prio:ckpt=1800&grace=60&type=be&v=1&workload=" + draw.choice(GAVEL)
    if kind < 17:
        return seconds, min(gpus, 4), "v100", "prio:grace=60&type=be&v=1&workload=" + draw.choice(SYNERGY)
    return seconds, gpus, draw.choice(("v100", "p100", "k80")), ""


def arrival():
    """Twice as often as on average at two in the afternoon, and never at two at night."""
    while True:
        at = draw.random() * DAYS * 86400
        if draw.random() * 2 < 1 - math.cos((at / 86400 - 1 / 12) * 2 * math.pi):
            return int(at)


jobs, arrivals = [job() for _ in range(JOBS)], sorted(arrival() for _ in range(JOBS))
work = [sum(s * gpus for s, gpus, _, tag in jobs if ("type=te" in tag) == te) for te in (False, True)]
longer = (LOAD * GPUS * DAYS * 86400 - work[1]) / work[0]  # TE jobs stay as short as they are
print("JobID|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|NNodes|ReqTRES|AllocTRES|User|Account|QOS|" + ("Partition|" if OTHERS else "") + "Comment")
for i, (at, (seconds, gpus, kind, tag)) in enumerate(zip(arrivals, jobs)):
    te = "type=te" in tag
    ran = math.ceil(seconds if te else seconds * longer)
    limit = math.ceil(min(ran * draw.uniform(1.2, 4), 3600 if te else 10 * 86400) / 60)
    tres, user = "cpu=%d,gres/gpu=%d,%%smem=%dG,node=%d" % (CPUS * gpus, gpus, GB * gpus, (gpus + 3) // 4), int(60 ** draw.random())
    typed = ["gres/gpu:%s=%d," % (t, gpus) if t else "" for t in (kind, kind or "v100")]
    start = MIDNIGHT + at + 60
    print("%d|%d|%d|%d|%d|%d|COMPLETED|%d|%d|%s|%s|u%d|a%d|normal|%s%s" % (
        i + 1, MIDNIGHT + at, MIDNIGHT + at, start, start + ran, ran, limit, (gpus + 3) // 4, tres % typed[0], tres % typed[1], user, user % 8, "gpu|" if OTHERS else "", tag))

others = []
for i in range(OTHERS):
    nodes = draw.choices((1, 2, 4, 8), (88, 7, 4, 1))[0]
    cpus = CORES * nodes if nodes > 1 else draw.choices((1, 2, 4, 8, 16, 32, 64), (35, 10, 15, 15, 12, 8, 5))[0]
    others.append((arrival(), nodes, cpus, min(draw.lognormvariate(math.log(1800), 1.5), 3 * 86400)))
longer = BUSY * NODES * CORES * DAYS * 86400 / max(sum(cpus * s for _, _, cpus, s in others), 1)
for i, (at, nodes, cpus, seconds) in enumerate(sorted(others)):
    ran, user = math.ceil(min(seconds * longer, 10 * 86400)), int(60 ** draw.random())
    partition = "gpu" if cpus <= 4 and draw.randrange(17) == 0 else "cpu"
    start, tres = MIDNIGHT + at + 60, "cpu=%d,mem=%dG,node=%d" % (cpus, 3 * cpus, nodes)
    print("%d|%d|%d|%d|%d|%d|COMPLETED|%d|%d|%s|%s|c%d|a%d|normal|%s|" % (
        JOBS + i + 1, MIDNIGHT + at, MIDNIGHT + at, start, start + ran, ran, math.ceil(ran * draw.uniform(1.2, 4) / 60), nodes, tres, tres, user, user % 8, partition))
