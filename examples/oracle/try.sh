# Shows the oracle without a model: a script plays the model, everything else is real. Run it from the root of the repository.
set -e
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
signalbox init >/dev/null 2>&1
signalbox portfolio init >/dev/null 2>&1
mkfifo address
signalbox rehearse model "$here/portfolio.yaml" >address 2>/dev/null &
server=$!
read -r _ url <address
cat >.signalbox/signalbox.yaml <<END
models: {rehearsal: {provider: openai, model: rehearsal, base_url: "$url"}}
oracle: {portfolio: portfolio}
END
signalbox oracle "${1:-Should I sell SLV?}"
