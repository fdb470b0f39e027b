package team

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func TestCheckPlace(t *testing.T) {
	project := t.TempDir()
	box := filepath.Join(project, ".signalbox")
	must.Succeed(t, os.Mkdir(box, 0o700))
	write := func(name, text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(box, name), []byte(text), 0o600))
	}
	store := Store{t.TempDir()}
	check := func(named bool) error {
		t.Helper()
		address, err := config.ReadJournal(box)
		must.Succeed(t, err)
		return store.CheckPlace(t.Context(), box, address, named)
	}
	refused := func(what string) {
		t.Helper()
		if err := check(false); !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := func(what string) {
		t.Helper()
		if err := check(false); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	add := func() {
		t.Helper()
		must.Succeed(t, store.AddPlace(box))
	}
	allowed("a file")
	write(config.FileName, "journal: postgres://ann@db/shop\n")
	refused("a database")
	if err := check(true); err != nil {
		t.Errorf("a named box: %v", err)
	}
	add()
	allowed("recorded")
	write(config.FileName, "journal: postgres://ann@db/shop\nslots: 3\n")
	allowed("other settings")
	write(config.FileName, "journal: postgres://ann@other/shop\n")
	refused("another database")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q",
		project).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	refused("another database, at the top of a repository")
	write(config.FileName, "cluster: {node: a, nodes: {a: '127.0.0.1:7420'}}\n")
	refused("a cluster")
	write("cluster.secret", "mine")
	add()
	allowed("a recorded cluster")
	write("cluster.secret", "theirs")
	refused("another secret")
	write("cluster.secret", "mine")
	allowed("the secret again")
	write(config.FileName, "journal: sqlite\ncluster: {node: a, nodes: {a: '127.0.0.1:7420'}}\n")
	if !store.KnowsPlaces(box) {
		t.Error("the cluster is not known after the ledger was moved out of it")
	}
	write(config.FileName, "journal: sqlite\ncluster: {node: a, nodes: {a: '127.0.0.1:7422'}}\n")
	allowed("a file, with another cluster")
	add()
	cluster := func() error { return store.CheckPlace(t.Context(), box, config.JournalCluster, false) }
	if err := cluster(); !errors.Is(err, ErrUntrusted) || store.KnowsPlaces(box) {
		t.Errorf("a cluster that the ledger is not in: %v", err)
	}
	if err := store.AddPlaces(box); err != nil || cluster() != nil || !store.KnowsPlaces(box) {
		t.Errorf("a trusted cluster that the ledger is not in: %v, %v", err, cluster())
	}
	write(config.FileName, "cluster: {node: a, nodes: {a: '127.0.0.1:7422'}}\n")
	if removed, err := store.RemovePlaces(box); err != nil || !removed {
		t.Fatal(removed, err)
	}
	refused("removed")
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	add()
	name, err := store.placeFile(box, config.JournalCluster)
	if err == nil {
		err = os.Chmod(name, 0o644)
	}
	must.Succeed(t, err)
	refused("a record that others can write or read")
}
