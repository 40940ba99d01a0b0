package sbatch

import (
	"os"
	"path/filepath"
	"strings"
)

// ScriptPath is the file that sbatch opens for a script's name (search_path in
// src/common/proc_args.c): a name that begins with "." or "/" as it is; any
// other in the working directory, that --chdir has set, then in PATH, whether
// executable or not; and as it is when it is nowhere.
func ScriptPath(name, cwd, chdir, pathList string) string {
	if name == "" || name[0] == '.' || name[0] == '/' {
		return name
	}
	dir := cwd
	switch {
	case strings.HasPrefix(chdir, "/"):
		dir = chdir
	case chdir != "":
		dir = cwd + "/" + chdir
	}
	for _, in := range append([]string{dir}, filepath.SplitList(pathList)...) {
		switch {
		case in == "":
			continue
		case in[0] == '.':
			in = dir + "/" + in
		}
		path := in + "/" + name
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return name
}
