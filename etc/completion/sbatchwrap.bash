# bash completion for sbatchwrap: its own options, else files, and where Slurm's completion is loaded, sbatch's.
_sbatchwrap() {
  local word=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  if declare -F _sbatch >/dev/null; then _sbatch "$@"; fi
  if [[ $word == -* ]]; then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$("$1" --prio-help 2>/dev/null | grep -o '^ *--prio-[a-z-]*')" -- "$word")
  fi
}
complete -o default -F _sbatchwrap sbatchwrap
