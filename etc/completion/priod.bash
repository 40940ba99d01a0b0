# bash completion for priod: priod itself prints what fits, and runs nothing.
_priod() {
  local IFS=$'\n'
  mapfile -t COMPREPLY < <("$1" "${COMP_WORDS[@]:1:COMP_CWORD}" --generate-bash-completion 2>/dev/null | cut -f 1)
}
complete -o default -F _priod priod
