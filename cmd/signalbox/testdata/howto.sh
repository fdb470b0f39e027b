# Prints the output that the how-to pages show. TestHowToPagesShowRealOutput compares them.
# The first argument is the folder of examples, the second the script in docs/how-to/rehearsal.md.
exec 2>&1
mkdir "$HOME"
git config --global user.name ann
git config --global user.email ann@example.org
signalbox plan show "$1/plan.md"
printf '%s\n' '#### Task T1: a' '**Acceptance Criteria**: a' '**Blocked By**: T3' '#### Task T2: b' '**Depends On**: T1' '#### Task T4: c' '**Acceptance Criteria**: c' >bad.md
signalbox plan check bad.md

task() { printf '#### Task %s: %s\n**Work**: %s\n**Acceptance Criteria**:\n- [ ] %s\n**Blocked By**: %s\n' "$@"; }
git init -q -b main greeting
cd greeting
{ echo '# A greeting'
  task T1 'Greet somebody' x x none
  task T2 'Greet in German' 'Let greet.sh take a language.' 'greet.sh de prints Hallo' T1
  task T3 'Write the manual' 'Write README.md.' 'it exists' T1; } >plan.md
echo true >test.sh
git add . && git commit -q -m start
signalbox init
cat >"$HOME/crew.script" <<'END'
on developer T2 attempt 1:
    usage 300 200 0
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Should an unknown language be refused, or greeted in English?
on developer T2 attempt 3+:
    write {task}.txt hallo
    usage 1000 200 0.02
    signal READY_FOR_REVIEW: {task}
on developer T3 attempt 1:
    ratelimit 1s
on developer T3:
    signal INFRA_BLOCKED: {task}
on developer *:
    write {task}.txt hello
    usage 1000 200 0.02
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
on remediation *:
    signal REMEDIATION_COMPLETE
on health-auditor *:
    signal HEALTH_AUDIT: HEALTHY
END
cat >.signalbox/signalbox.yaml <<END
agent: scripted
agents:
  scripted: {command: [signalbox, rehearse, agent, $HOME/crew.script, --format, claude], format: claude}
checks: [{name: tests, command: sh test.sh}]
protected: [test.sh]
approve: merge
END
signalbox run plan.md --no-wait
signalbox pause T3 --reason 'the design is being discussed'
signalbox approve T1
signalbox run plan.md --no-wait
signalbox questions
signalbox work list
signalbox answer Q-1 'greet in English'
signalbox resume T3
signalbox ledger tail -n 3
signalbox work show T2
signalbox cancel T3 --reason 'no longer wanted'
signalbox run plan.md --no-wait
signalbox reject T2 'greet by name, not by number'
signalbox rework T2 'use the table in languages.txt'
signalbox tell T2 'the test database is down until noon'
signalbox run plan.md --no-wait
signalbox approve T2
signalbox run plan.md --no-wait
git log --oneline --graph
signalbox retry T3
signalbox prompt developer T3
mkdir .signalbox/prompts
echo '{{.Worke}}' >.signalbox/prompts/critic.md
printf 'roles:\n  critic: {prompt: prompts/critic.md}\n' >>.signalbox/signalbox.yaml
signalbox prompt critic T3
signalbox ledger key >../key.pub
signalbox backup ../project.tar.gz
signalbox restore ../project.tar.gz ../restored --key ../key.pub
gunzip -c ../project.tar.gz | sed 's/BoxOpened/BoxOpenet/' >../damaged.tar
signalbox restore ../damaged.tar ../restored-too
signalbox pause
signalbox restore ../project.tar.gz ../restored-too
rm .signalbox/prompts/critic.md
sed '/^roles/,$d' .signalbox/signalbox.yaml >settings
mv settings .signalbox/signalbox.yaml
signalbox run plan.md --no-wait
signalbox resume
signalbox cancel
signalbox run plan.md --no-wait
signalbox retry
signalbox run plan.md --no-wait
signalbox cancel T3
echo hello >.signalbox/trees/T3/notes.txt
signalbox clean --yes
signalbox retry T3
{ echo '# Another plan'; task A1 a a a none; } >other.md
signalbox run other.md --no-wait

mkdir ../refused
cd ../refused
task T1 a a a none >plan.md
signalbox run plan.md --no-wait
git init -q -b main .
signalbox run plan.md --no-wait
git add . && git commit -q -m start
mkdir ../bin # a PATH without agent programs
ln -s "$(command -v git)" ../bin/git
PATH=$PWD/../bin "$(command -v signalbox)" run plan.md --no-wait
task T1 a a a T1 >plan.md
signalbox run plan.md --no-wait
task T1 b b b none >plan.md
signalbox run plan.md --no-wait
echo b >notes
echo 'notes filter=lfs' >.gitattributes
git add . && git commit -q -m b
git config filter.lfs.clean cat
signalbox run plan.md --no-wait
git config --remove-section filter.lfs
git checkout -q --detach
signalbox run plan.md --no-wait
git switch -q -c other HEAD~1
echo c >notes
git add . && git commit -q -m c
git rebase -q main
signalbox run plan.md --no-wait

git init -q -b main ../counter
cd ../counter
{ echo '# A counter'; task T1 'Count by one' x x none; } >plan.md
echo 'echo $((n + 2))' >counter.sh
echo true >test.sh
cp "$2" agents.script
git add . && git commit -q -m start
signalbox init
cat >.signalbox/signalbox.yaml <<END
agent: scripted
agents:
  scripted: {command: [signalbox, rehearse, agent, agents.script], format: plain}
END
signalbox rehearse check agents.script
signalbox run plan.md --no-wait
{ echo '# A counter'; task T1 'Count by three' x x none; } >plan.md
git commit -q -am 'other tasks'
signalbox run plan.md --no-wait
signalbox run plan.md --no-wait --new-plan
signalbox work show T1

git init -q -b main ../red
cd ../red
{ echo '# On a red base'; task T1 'Count by one' x x none; } >plan.md
git add . && git commit -q -m start
signalbox init
cat >.signalbox/signalbox.yaml <<END
agent: scripted
agents:
  scripted: {command: [signalbox, rehearse, agent, $HOME/crew.script], format: plain}
checks: [{name: tests, command: no-such-program --all}]
END
signalbox run plan.md --no-wait

mkdir ../lost
cd ../lost
signalbox init
signalbox work open T5
signalbox work open T6
cp .signalbox/ledger.db old.db
signalbox work open T7
signalbox work open T8
cp old.db .signalbox/ledger.db
signalbox work open T9
true
