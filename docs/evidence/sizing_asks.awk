# One of Synergy's traces, and what each job asks for: -v asks=6 CPUs and 64 GB,
# -v asks=share (3 CPUs, 64 GB), -v asks=use (what its model can use, as
# etc/workloads.toml has it).
BEGIN {
	FS = ","
	n = split("alexnet 12 128000,shufflenet 12 128000,res18 9 64000,mobilenet 6 64000,res50 4 64000,m5 6 192000," \
		"deepspeech 3 64000,gnmt 1 20480,transformer 1 20480,lstm 1 20480", models, ",")
	for (i = 1; i <= n; i++) {
		split(models[i], m, " ")
		cpus[m[1]] = m[2]
		mem[m[1]] = m[3]
	}
	print "job_id,submit_s,gpus,cpus,mem_mb,workload,steps"
}
{
	c = asks == "use" ? cpus[$2] : asks == "share" ? 3 : asks
	print $1 "," $3 "," $5 "," c * $5 "," (asks == "use" ? mem[$2] : 64000) * $5 "," $2 "," $4
}
