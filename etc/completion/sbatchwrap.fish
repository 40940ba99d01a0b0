# fish completion for sbatchwrap: its own options, and files.
complete -c sbatchwrap -a "(string match -q -- '-*' (commandline -ct); and sbatchwrap --prio-help 2>/dev/null | string match -r -- '--prio-[a-z-]+')"
