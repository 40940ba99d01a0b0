package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// builtEnv names a folder with programs that Build need not build: those of a
// test that runs where there is no compiler (tests/versions.sh).
const builtEnv = "SLURMPRIO_BUILT"

// Build builds a program of this module, such as "tests/shim/cmd/shim", into dir
// and returns its path. env are variables of the build.
func Build(dir, program string, env ...string) (string, error) {
	if built := os.Getenv(builtEnv); built != "" {
		path := filepath.Join(built, filepath.Base(program))
		_, err := os.Stat(path)
		return path, err
	}
	path := filepath.Join(dir, filepath.Base(program))
	cmd := exec.Command("go", "build", "-ldflags", "-s -X slurmprio/priod/config.Settable=yes", "-o", path, "slurmprio/"+program)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %v\n%s", program, err, out)
	}
	return path, nil
}
