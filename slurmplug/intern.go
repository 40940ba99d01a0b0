package slurmplug

// interner turns bytes into strings, one string for equal bytes: a queue of a
// hundred thousand jobs has a few users, states and requests.
type interner map[string]string

func (in interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in[string(b)]; ok { // no allocation
		return s
	}
	s := string(b)
	in[s] = s
	return s
}

// value is get, "" for what Slurm prints for a value that is not there.
func (in interner) value(b []byte) string {
	if string(b) == "(null)" || string(b) == "N/A" {
		return ""
	}
	return in.get(b)
}
