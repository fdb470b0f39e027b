# Tests greet.sh. tools/same is installed by install.sh.
set -e
tools/same "$(sh greet.sh Ann)" 'Hello, Ann.'
tools/same "$(sh greet.sh)" 'Hello, world.'
