"""Makes of a recorded stream of Gavel's generator (gavel_stream.py) a trace in
which people run their programs again and again: of each job type USERS users
have one program each, whose work is that of the first jobs of the stream, and
every run of it does the same but for a factor exp(N(0, SPREAD)).

usage: gavel_again.py STREAM.tsv JOBS_PER_HOUR USERS SPREAD > trace.csv
"""
import math, random, sys

stream, rate, users, spread = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
draw, programs = random.Random(1), {}
print("job_id,submit_s,gpus,user,workload,steps")
for line in open(stream).read().splitlines()[1:]:
    job, kind, gpus, steps, _, arrival = line.split("\t")
    work = programs.setdefault(kind, [])
    user = len(work)
    if user < users:
        work.append(float(steps))
    else:
        user = draw.randrange(users)
    steps = work[user] * math.exp(draw.gauss(0, spread))
    print("%s,%.3f,%s,user%d,%s,%.3f" % (job, float(arrival) * 3600 / rate, gpus, user, kind, steps))
