# Completes signalbox in fish. Load it with: signalbox completion fish | source
function __signalbox_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates (signalbox completion fish -- $words[2..] 2>/dev/null)
    if set -q candidates[1]
        printf '%s\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c signalbox -f -a '(__signalbox_complete)'
