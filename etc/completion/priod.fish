# fish completion for priod: priod itself prints what fits, and runs nothing.
complete -c priod -a '(set -l words (commandline -opc) (commandline -ct); $words[1] $words[2..-1] --generate-bash-completion 2>/dev/null)'
