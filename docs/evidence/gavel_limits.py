"""Gives the jobs of a stream of Gavel's time limits, as users would.

A limit is 1 to 3 times (evenly drawn) the run time on the slowest GPU type: a
job that leaves its type open has to ask for that. Writes the CSV that priod
simulate reads.

usage: gavel_limits.py THROUGHPUTS.json STREAM.tsv JOBS_PER_HOUR > jobs.csv
"""
import json, random, sys

throughputs, stream, rate = sys.argv[1:4]
speed = json.load(open(throughputs))
draw = random.Random(1)
print("job_id,submit_s,gpus,workload,steps,limit_s")
for row in open(stream).read().splitlines()[1:]:
    job, kind, gpus, steps, _, arrival = row.split("\t")
    key = "('%s', %s)" % (kind, gpus)
    there = [speed[t].get(key, {}).get("null", 0) for t in ("v100", "p100", "k80")]
    limit = float(steps) / min(s for s in there if s > 0) * draw.uniform(1, 3)
    print('%s,%r,%s,"%s",%s,%r' % (job, float(arrival) * 3600 / float(rate), gpus, kind, steps, limit))
