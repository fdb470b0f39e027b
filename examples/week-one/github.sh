# Plays GitHub, for Friday of docs/tutorial/week-one.md. The repository, and what happens to its pull request, are in a folder beside this project.
#
#   sh github.sh COMMAND...   runs a command with a gh that is played by this script
#   sh github.sh review       a check of the pull request fails, and a colleague comments
#   sh github.sh merge        the colleague merges it
set -e
here=$(cd "$(dirname "$0")" && pwd)
site=$here.github
url=https://github.com/ann/greetings
head() { git --git-dir="$site/repository.git" rev-parse refs/heads/signalbox/F1; }

case "$1" in
review)
	head >"$site/reviewed"
	exit
	;;
merge)
	head >"$site/merged"
	git --git-dir="$site/repository.git" update-ref refs/heads/main "$(head)"
	exit
	;;
gh) ;; # below
*)
	if ! test -d "$site"; then
		mkdir -p "$site/bin"
		git init -q --bare -b main "$site/repository.git"
		printf '#!/bin/sh\nexec sh %s/github.sh gh "$@"\n' "$here" >"$site/bin/gh"
		chmod +x "$site/bin/gh"
		printf '[include]\n\tpath = ~/.gitconfig\n[url "%s/repository.git"]\n\tinsteadOf = %s.git\n' "$site" "$url" >"$site/gitconfig"
	fi
	export PATH="$site/bin:$PATH" GIT_CONFIG_GLOBAL="$site/gitconfig"
	exec "$@"
	;;
esac

shift
case "$*" in
"pr list "*)
	if test -f "$site/opened"; then
		echo '[{"url":"'$url'/pull/1","title":"old","body":"old","headRefName":"signalbox/F1","baseRefName":"main","isCrossRepository":false}]'
	else
		echo '[]'
	fi
	;;
"pr create "*)
	cat >"$site/opened"
	echo $url/pull/1
	;;
"pr view "*)
	state=OPEN merged=null checks=
	if test -f "$site/merged"; then
		state=MERGED merged='{"oid":"'$(head)'"}'
	elif test -f "$site/reviewed" && test "$(cat "$site/reviewed")" = "$(head)"; then
		checks='{"__typename":"CheckRun","name":"manual","status":"COMPLETED","conclusion":"FAILURE","detailsUrl":"https://ci.example.org/1"}'
	fi
	echo '{"state":"'$state'","headRefOid":"'$(head)'","mergeCommit":'$merged',"mergeable":"MERGEABLE","author":{"login":"ann"},"reviews":[],"comments":[],"statusCheckRollup":['$checks']}'
	;;
"api "*PATCH*)
	cat >"$site/opened"
	echo '{}'
	;;
"api "*)
	if test -f "$site/reviewed"; then
		echo '[{"id":5,"user":{"login":"carol"},"body":"Please add it to the manual.","created_at":"2026-03-06T09:00:00Z","path":"greet.sh","line":7,"original_line":7}]'
	else
		echo '[]'
	fi
	;;
*)
	echo "gh: unknown command $*" >&2
	exit 1
	;;
esac
