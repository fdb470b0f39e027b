#!/bin/sh
# No trailing white space, and every file parses.
here=$(dirname "$0")
status=0
for file in "$here"/*.sh "$here"/lib/*.sh "$here"/tools/*.sh "$here"/tests/*.test; do
	[ -f "$file" ] || continue
	if grep -n '[[:space:]]$' "$file" /dev/null; then
		status=1
	fi
	case $file in
	*.sh) sh -n "$file" || status=1 ;;
	esac
done
exit $status
