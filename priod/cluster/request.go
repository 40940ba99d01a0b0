package cluster

// Request is what a waiting job asks for of nodes. Jobs with equal requests fit in the same places.
type Request struct {
	Partitions                  string // in which it may come to run
	GPUType, Features           string
	Nodes, GPUs, CPUs, TaskCPUs int
	MemMB                       int64
	Node                        Least
	Gres, Open                  string
	Whole, OneThread            bool
	AllMem, MemByCPU, Admitted  bool
}

// Asks is what a job asks for in some partitions. Of a running job it is what that got: its GPU type and its nodes' shares.
func (j *Job) Asks(partitions string) Request {
	return Request{
		Partitions: partitions, GPUType: j.GPUType, Features: j.Features,
		Nodes: j.Nodes, GPUs: j.GPUs, CPUs: j.CPUs, TaskCPUs: j.TaskCPUs, MemMB: j.MemMB, Node: j.Node, Gres: j.Gres, Open: j.Open,
		Whole: j.Whole, OneThread: j.OneThread, AllMem: j.AllMem, MemByCPU: j.MemByCPU, Admitted: j.Admitted,
	}
}

// Job is a waiting job with this request, of no user.
func (r *Request) Job() Job {
	return Job{
		State: Pending, Partition: r.Partitions, GPUType: r.GPUType, Features: r.Features,
		Nodes: r.Nodes, GPUs: r.GPUs, CPUs: r.CPUs, TaskCPUs: r.TaskCPUs, MemMB: r.MemMB, Node: r.Node, Gres: r.Gres, Open: r.Open,
		Whole: r.Whole, OneThread: r.OneThread, AllMem: r.AllMem, MemByCPU: r.MemByCPU, Admitted: r.Admitted,
	}
}

// ByRequest holds what was found out for requests; the zero value, nothing. Jobs that follow each other in a queue often ask
// for the same.
type ByRequest[T any] struct {
	All  map[Request]T
	last Request
	of   T
}

// Get is that of a request, found out when it is first asked for.
func (m *ByRequest[T]) Get(r *Request, find func() T) T {
	if m.All != nil && *r == m.last {
		return m.of
	}
	of, known := m.All[*r]
	if !known {
		if m.All == nil {
			m.All = map[Request]T{}
		}
		of = find()
		m.All[*r] = of
	}
	m.last, m.of = *r, of
	return of
}
