#!/bin/sh
# A calculator. Every file in lib/ brings one operation: a function calc_NAME.
#   sh calc.sh add 1 2
here=$(dirname "$0")
for file in "$here"/lib/*.sh; do
	. "$file"
done

operation=${1:-help}
[ $# -gt 0 ] && shift
if ! command -v "calc_$operation" >/dev/null; then
	echo "calc: unknown operation $operation" >&2
	exit 2
fi
"calc_$operation" "$@"
