#!/bin/sh
# Runs every line of tests/*.test: what calc.sh is given => what it prints.
here=$(dirname "$0")
cases=0 failures=0
for file in "$here"/tests/*.test; do
	while IFS= read -r line; do
		cases=$((cases + 1))
		want=${line#* => }
		got=$(cd "$here" && eval "sh calc.sh ${line%% => *}" 2>&1 </dev/null)
		if [ "$got" != "$want" ]; then
			failures=$((failures + 1))
			echo "FAIL $(basename "$file"): calc ${line%% => *}: got '$got', want '$want'"
		fi
	done <"$file"
done
echo "$cases cases, $failures failures"
[ "$failures" -eq 0 ]
