// Record stands where the real sbatch would stand and writes down, as JSON,
// what reaches it.
package main

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	stdin, _ := io.ReadAll(os.Stdin)
	cwd, _ := os.Getwd()
	umask := syscall.Umask(0)
	status, _ := os.ReadFile("/proc/self/status")
	blocked := ""
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "SigBlk:"); ok {
			blocked = strings.TrimSpace(v)
		}
	}
	var script []byte
	if path := os.Getenv("RECORD_READ"); path != "" {
		script, _ = os.ReadFile(path)
	}
	three, _ := os.Readlink("/proc/self/fd/3")
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"name": os.Args[0], "args": raw(os.Args[1:]), "env": raw(syscall.Environ()), "cwd": cwd, "umask": umask, "stdin": stdin,
		"pid": os.Getpid(), "blocked": blocked, "three": three, "script": script,
	})
	os.Stderr.WriteString("recorded\n")
	code, _ := strconv.Atoi(os.Getenv("RECORD_EXIT"))
	os.Exit(code)
}

// raw keeps words that are no UTF-8 whole in JSON.
func raw(words []string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}
