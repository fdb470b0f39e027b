# Completes signalbox in bash. Load it with: source <(signalbox completion bash)
_signalbox() {
	local IFS=$'\n'
	COMPREPLY=($(signalbox completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _signalbox signalbox
