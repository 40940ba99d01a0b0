// Package sbatch is sbatch's command line: its options release by release,
// and how sbatch makes one submission out of arguments, directives in the
// script and variables.
//
//	grammar := sbatch.AnyRelease()                // or For(release), or Installed{Path: path}.Grammar()
//	cmd, err := grammar.ParseArgs(os.Args[1:])     // components, script, where options may be added
//	path := sbatch.ScriptPath(cmd.Script[0], ...)  // sbatch's search rules
//	jobs, err := grammar.Resolve(cmd, script, env) // what counts, for each het component
//
// The truth is src/sbatch/opt.c, src/sbatch/xlate.c and
// src/common/slurm_opt.c of Slurm; the tests compare with the sbatch of the
// machine. Values are not checked or converted: that is sbatch's business.
//
// Not covered: resource lists of #PBS lines (-l), and defaults that a site's
// cli_filter sets.
package sbatch
