package fault

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/loopback"
)

// olderCommit is a commit whose program lacks events that this one writes, questions to the nodes
// of a cluster, and the checks of events in PostgreSQL.
const olderCommit = "add1615391dc89646642107caa0bb1e94c95053a"

// buildOlder builds the program of olderCommit, once for all tests.
var buildOlder = sync.OnceValues(func() (program string, err error) {
	folder := filepath.Join(filepath.Dir(os.Getenv(binaryVariable)), "older")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	program = filepath.Join(folder, "signalbox")
	out, err := exec.Command("sh", "-e", "-c", `cd "$(git rev-parse --show-toplevel)"
git archive -o "$1/source.tar" "$2"
cd "$1"
tar -xf source.tar
go build -trimpath -o signalbox ./cmd/signalbox`, "sh", folder, olderCommit).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the older program: %w\n%s", err, out)
	}
	return program, nil
})

// needOlder returns the program of olderCommit.
func needOlder(t *testing.T) string {
	t.Helper()
	if !isFull() {
		t.Skip("it takes long: make fault runs it")
	}
	requireTools(t, "git", "tar")
	if out, err := exec.CommandContext(t.Context(), "git", "cat-file", "-e",
		olderCommit+"^{commit}").CombinedOutput(); err != nil {
		skipOrFail(t, "this repository lacks the commit with the older program, as a shallow clone does: run git fetch --unshallow (%s)", out)
	}
	program, err := buildOlder()
	check(t, err)
	return program
}

// upgraded is a machine that opens one work item after the other, with an older program at first.
type upgraded struct {
	*site
	name string
	host *exec.Cmd

	mu           sync.Mutex // guards the program of the site, and what follows
	acknowledged []string
	refused      int // how often it was, because of a newer program
}

// load opens work until stop is closed. It pauses while somebody has locked busy.
func (u *upgraded) load(t testing.TB, busy *sync.RWMutex, stop <-chan struct{}) {
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		u.mu.Lock()
		now := *u.site
		u.mu.Unlock()
		work := fmt.Sprintf("%s-%d", u.name, n)
		busy.RLock()
		r := now.run(t, "work", "open", work)
		busy.RUnlock()
		newer := strings.Contains(r.stderr, rules.ErrNewer.Error())
		u.mu.Lock()
		switch {
		case r.status == 0:
			u.acknowledged = append(u.acknowledged, work)
		case newer && r.status == 1:
			u.refused++
		default:
			t.Logf("machine %s: exit status %d\n%s", u.name, r.status, r.stderr)
		}
		u.mu.Unlock()
	}
}

// await waits until a count of a machine has grown by some.
func (u *upgraded) await(t testing.TB, what string, count func() int) {
	t.Helper()
	get := func() int {
		u.mu.Lock()
		defer u.mu.Unlock()
		return count()
	}
	for end, before := time.Now().Add(patience), get(); get() < before+3; time.Sleep(10 *
		time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("machine %s: no more %s after %d", u.name, what, before)
		}
	}
}

func (u *upgraded) awaitWork(t testing.TB) {
	t.Helper()
	u.await(t, "work", func() int { return len(u.acknowledged) })
}

// upgrade ends the process of the machine, and starts it with the program under test.
func (u *upgraded) upgrade(t testing.TB) {
	t.Helper()
	endHost(u.host)
	u.mu.Lock()
	u.program = os.Getenv(binaryVariable)
	u.mu.Unlock()
	u.host = u.site.host(t)
}

// TestUpgradeOnPostgres upgrades three machines one after the other, as docs/how-to/machines.md
// says, while all of them work. The first one is that of the owner of the tables.
func TestUpgradeOnPostgres(t *testing.T) {
	older := needOlder(t)
	t.Parallel()
	server := postgresServer.Need(t)
	address := withSchema(server.Address)
	worker := fmt.Sprintf("worker_%d", time.Now().UnixNano())
	_, err := server.Query("CREATE ROLE " + worker + " LOGIN")
	check(t, err)
	testUpgrade(t, older, func(t testing.TB, number int, s *site) {
		own := address
		if number > 0 {
			parsed, err := url.Parse(address)
			check(t, err)
			query := parsed.Query()
			query.Set("user", worker)
			parsed.RawQuery = query.Encode()
			own = parsed.String()
		}
		s.configureWith(t, fmt.Sprintf("journal: %q\n", own))
	}, func(first *site) { first.must(t, "ledger", "grant", worker) }, nil)
}

// TestUpgradeInCluster does so with the ledger on the machines themselves.
func TestUpgradeInCluster(t *testing.T) {
	older := needOlder(t)
	t.Parallel()
	nodes := newClusterNodes(loopback.Address(t), loopback.Address(t), loopback.Address(t))
	testUpgrade(t, older, nodes.configure, func(*site) {}, func(other *site) {
		awaitDoctor(t, other, "all replicas are current")
	})
}

// testUpgrade upgrades machines with the ledger in some place, which configure configures. grant is
// called after the first one has made the box, and current, if it is not nil, waits until what
// another machine says about the one that was upgraded is good.
func testUpgrade(t *testing.T, older string, configure func(testing.TB, int, *site),
	grant, current func(*site)) {
	f := newRepository(t, scenario{plan: planOf("T1"), script: goodAgents})
	machines := []*upgraded{{site: f.site}, {site: emptySite(t)}, {site: emptySite(t)}}
	for i, u := range machines {
		u.name, u.program = string(rune('a'+i)), older
		configure(t, i, u.site)
		if i > 0 {
			u.host = u.site.host(t)
		}
	}
	a, b, c := machines[0], machines[1], machines[2]
	a.init(t)
	a.host = a.site.host(t)
	grant(a.site)

	var (
		running sync.WaitGroup
		busy    sync.RWMutex
	)
	stop := make(chan struct{})
	ended := sync.OnceFunc(func() {
		close(stop)
		running.Wait()
	})
	defer ended()
	for _, u := range machines {
		running.Go(func() { u.load(t, &busy, stop) })
	}
	check := func(able ...*upgraded) {
		t.Helper()
		for _, u := range able {
			u.awaitWork(t)
		}
		busy.Lock() // the older program may follow a log that grows forever
		defer busy.Unlock()
		for _, u := range machines {
			u.must(t, "ledger", "verify")
		}
	}
	check(a, b, c)
	for i, u := range []*upgraded{a, b} {
		u.upgrade(t)
		if current != nil {
			current(machines[i+1].site)
		}
		check(a, b, c)
	}

	// A run on a machine with the new version renews the lease of a check, with an event that the
	// old version does not know. The machine that has it stops, and nothing is lost.
	f.write(t, f.file("signalbox.yaml"), a.settings+scriptedAgents(f.diary, f.script)+
		fmt.Sprintf("checks:\n  - {name: slow, command: 'until test -e %s; do sleep 0.1; done'}\n",
			f.diary.file("open")))
	run := f.startRun(t)
	run.await(0, "a heartbeat", ofType(rules.TypeLeasesRenewed, ""))
	c.await(t, "refusals", func() int { return c.refused })
	f.diary.create(t, "open")
	run.end(0)
	check(a, b)

	c.upgrade(t)
	if current != nil {
		current(a.site)
	}
	check(a, b, c)
	ended()
	for _, u := range machines {
		u.must(t, "ledger", "verify")
		words := strings.Fields(u.must(t, "work", "list"))
		for _, other := range machines {
			for _, work := range other.acknowledged {
				if !slices.Contains(words, work) {
					t.Errorf("machine %s lacks %s, which was acknowledged", u.name, work)
				}
			}
		}
	}
	t.Logf("%d, %d and %d work items were acknowledged", len(a.acknowledged), len(b.acknowledged),
		len(c.acknowledged))
}
