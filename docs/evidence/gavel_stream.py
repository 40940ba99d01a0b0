"""Continues a recorded stream of Gavel's generator.

The streams hold 7,500 jobs. At 5.6 jobs/h under an agnostic policy the jobs
4000 to 4999 take until hour 1,600, and arrivals would end at hour 1,340: the
baseline comes out 10 % too good. CPython's random numbers continue the stream;
the script checks that it draws the recorded jobs, too.

usage: gavel_stream.py THROUGHPUTS.json SINGLE_STREAM.tsv.gz STREAM.tsv.gz JOBS [SEED [notebook]] > longer.tsv
(SINGLE_STREAM, of seed 0, teaches the order of the 26 job types. With another
SEED, STREAM only says whether there are gangs. With the last word, it draws the
jobs behind the figures in the notebooks, of May 2020: A3C then stood behind the
Transformers in the table of job types, and now behind the Recommendations. The
recorded streams are of today's table.)
"""
import gzip, json, math, random, sys

throughputs, single, stream, jobs = sys.argv[1:5]
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 0
notebook = len(sys.argv) > 6
speed = json.load(open(throughputs))["v100"]
GANGS = ("ResNet-18", "ResNet-50", "Transformer", "LM")


def rows(path):
    lines = gzip.open(path, "rt").read().splitlines()
    return lines[0], [line.split("\t") for line in lines[1:]]


def draw(n, recorded, types, multi, seed):
    job, arrival, now = random.Random(seed + 2), random.Random(seed + 3), 0.0
    for i in range(n):
        r, gpus = job.random(), 1
        if multi:
            gpus = 1 if r < 0.7 else 2 if r <= 0.8 else 4 if r <= 0.95 else 8
        long = job.random() >= 0.8
        seconds = 60 * 10 ** (job.uniform(3, 4) if long else job.uniform(1.5, 3))
        while True:
            k = job.choice(range(26))
            if types[k] is None:
                types[k] = recorded[i][1]
            if gpus == 1 or types[k].split(" ")[0] in GANGS:
                break
        if i:
            now -= math.log(1 - arrival.random())
        steps = seconds * speed["('%s', %d)" % (types[k], gpus)]["null"]
        made = [str(i), types[k], str(gpus), repr(steps), repr(seconds), repr(now)]
        if i < len(recorded):
            old = recorded[i]
            same = old[1:3] == made[1:3] and abs(float(old[3]) - steps) <= 1e-6 * steps and abs(float(old[5]) - now) <= 1e-6 * max(1, now)
            if not same:
                sys.exit("job %d: drew %s, recorded %s" % (i, made, old))
            made = old
        yield made


header, first = rows(single)
types = [None] * 26
for _ in draw(len(first), first, types, False, 0):
    pass
_, recorded = rows(stream)
multi = any(r[2] != "1" for r in recorded)
if notebook:
    types.insert(14, types.pop(24))
print(header)
for row in draw(int(jobs), recorded if seed == 0 and not notebook else [], types, multi, seed):
    print("\t".join(row))
