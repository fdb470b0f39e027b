#compdef signalbox
# Completes signalbox in zsh. Load it with: source <(signalbox completion zsh)
_signalbox() {
	local -a candidates
	candidates=("${(@f)$(signalbox completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n ${candidates[1]} ]]; then
		_describe signalbox candidates
	else
		_files
	fi
}
# The file may be sourced, or autoloaded from a folder in fpath.
if [[ $funcstack[1] == _signalbox ]]; then
	_signalbox "$@"
else
	compdef _signalbox signalbox
fi
