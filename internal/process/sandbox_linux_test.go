package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// fixture is a folder with a tree that a program may change, and things that it may not reach.
type fixture struct {
	dir  string
	spec Spec
	out  bytes.Buffer
}

// newFixture returns a program that runs a shell script under a policy that allows the system and a
// tree.
func newFixture(t *testing.T, script string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir()}
	for _, name := range []string{"tree", "temp", "secret", "tree/box"} {
		must.Succeed(t, os.Mkdir(f.path(name), 0o700))
	}
	for _, name := range []string{"secret/key", "tree/.git", "tree/box/key"} {
		must.Succeed(t, os.WriteFile(f.path(name), []byte("canary\n"), 0o600))
	}
	f.spec = shell(script)
	f.spec.Dir, f.spec.Stdout, f.spec.Stderr = f.path("tree"), &f.out, &f.out
	f.spec.Env = append(Environ(), "SECRET="+f.path("secret"), "TMPDIR="+f.path("temp"),
		"SUPERVISOR="+strconv.Itoa(os.Getpid()))
	f.spec.Sandbox = &sandbox.Policy{Mode: sandbox.Enforce,
		Read:  []string{"/usr", "/bin", "/lib", "/lib64", "/etc"},
		Write: []string{f.path("tree")}, Fixed: []string{f.path("tree/.git")}, Temp: f.path("temp")}
	return f
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) run(t *testing.T) (Exit, string) {
	t.Helper()
	exit := start(t, f.spec).Wait()
	return exit, f.out.String()
}

// withoutNamespaces makes a program run as on a system that grants none.
func (f *fixture) withoutNamespaces() {
	s := Support()
	s.Namespaces = false
	if f.spec.simulated = &s; !s.Groups {
		f.spec.Sandbox.Processes = sandbox.WatchProcesses
	}
}

// needSupport skips a test if this system cannot enforce policies at all.
func needSupport(t *testing.T, namespaces bool) {
	t.Helper()
	s := Support()
	s.Namespaces = s.Namespaces && namespaces
	if err := s.Check(&sandbox.Policy{Mode: sandbox.Enforce,
		Processes: sandbox.WatchProcesses}); err != nil || namespaces && !s.Namespaces {
		if os.Getenv("CI") == "true" {
			t.Fatalf("support %+v: %v", s, err)
		}
		t.Skipf("needs a newer kernel or one with namespaces: %+v, %v", s, err)
	}
}

func TestSandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		script, want string
		namespaces   bool // it needs them
		alone        bool // it would harm the system without a sandbox, or needs rights
	}{
		"read outside":     {script: `cat "$SECRET/key"`, want: "denied"},
		"list outside":     {script: `ls "$SECRET"`, want: "denied"},
		"write outside":    {script: `echo x >"$SECRET/new"`, want: "denied"},
		"remove outside":   {script: `rm "$SECRET/key"`, want: "denied"},
		"write the system": {script: `echo x >/usr/signalbox-test`, want: "denied", alone: true},
		"rename away":      {script: `mv "$SECRET/key" .`, want: "denied"},
		"link in":          {script: `ln "$SECRET/key" key`, want: "denied"},
		"link to it":       {script: `ln -s "$SECRET/key" key; cat key`, want: "denied"},
		"trace":            {script: `cat /proc/$SUPERVISOR/environ`, want: "denied"},
		"signal":           {script: `kill -0 $SUPERVISOR`, want: "denied"},
		"new namespaces":   {script: `unshare -r true`, want: "denied", alone: true},
		"mount":            {script: `mount -t tmpfs none .`, want: "denied", alone: true},

		"write": {script: `echo one >a && mkdir d && mv a d/b && cat d/b`, want: "one"},
		"rename a folder": {script: `mkdir c d && echo two >c/a && mv c d/c && cat d/c/a`,
			want: "two"},
		"temporary files": {script: `echo three >"$TMPDIR/x" && cat "$TMPDIR/x"`, want: "three"},
		"devices":         {script: `echo x >/dev/null && head -c 4 /dev/zero | wc -c`, want: "4"},
		"read the system": {script: `test -s /etc/passwd && echo four`, want: "four"},
		"its own .git":    {script: `cat .git`, want: "canary"},
		"its capabilities": {script: `grep -c 'Cap...:.0000000000000000$' /proc/self/status`,
			want: "5"},

		"change .git": {script: `echo x >.git; mv .git x; rm -f .git; ln -sf x .git; cat .git`,
			want: "canary", namespaces: true},
		"mode outside":   {script: `chmod 777 "$SECRET/key"`, want: "denied", namespaces: true},
		"mode of system": {script: `chmod 777 /usr`, want: "denied", namespaces: true, alone: true},
		"tmp": {script: `echo five >/tmp/x && cat "$TMPDIR/x"`, want: "five",
			namespaces: true},
		// the keeper and the shell
		"processes":     {script: `set -- /proc/[0-9]*; echo $#`, want: "2", namespaces: true},
		"list the root": {script: `ls / | grep -c -x -e usr -e home`, want: "1", namespaces: true},
	} {
		for _, namespaces := range []bool{true, false} {
			if tt.namespaces && !namespaces {
				continue
			}
			t.Run(name+"/namespaces "+strconv.FormatBool(namespaces), func(t *testing.T) {
				t.Parallel()
				needSupport(t, namespaces)
				script := tt.script
				if tt.want == "denied" {
					script = "(" + script + ") >/dev/null 2>&1 || echo denied"
				}
				f := newFixture(t, "exec 2>/dev/null; "+script)
				if !namespaces {
					f.withoutNamespaces()
				}
				if _, out := f.run(t); out != tt.want+"\n" {
					t.Errorf("output %q, want %q", out, tt.want)
				}
				if tt.want != "denied" || tt.alone {
					return
				}
				// Without a sandbox the script succeeds, or it would prove nothing.
				f = newFixture(t, script)
				f.spec.Sandbox = nil
				if _, out := f.run(t); out == "denied\n" {
					t.Error("it is denied without a sandbox")
				}
			})
		}
	}
}

// A hidden folder is empty, although the folder around it can be changed.
func TestSandboxHiddenFolder(t *testing.T) {
	needSupport(t, true)
	f := newFixture(t, `ls -A box; cat box/key; rm -rf box; mv box x; echo x >box/key; ls -d box`)
	f.spec.Sandbox.Hidden = []string{f.path("tree/box")}
	_, out := f.run(t)
	if text, err := os.ReadFile(f.path("tree/box/key")); err != nil || string(text) != "canary\n" {
		t.Errorf("the key is %q, %v; output %s", text, err, out)
	}
	if bytes.Contains(f.out.Bytes(), []byte("canary")) {
		t.Errorf("output %s", out)
	}
	f = newFixture(t, `echo x >box/tmp/x && cat box/tmp/x`)
	must.Succeed(t, os.Mkdir(f.path("tree/box/tmp"), 0o700))
	f.spec.Sandbox.Hidden, f.spec.Sandbox.Temp = []string{f.path("tree/box")},
		f.path("tree/box/tmp")
	if _, out := f.run(t); out != "x\n" {
		t.Errorf("a folder in a hidden one: %q", out)
	}
	f = newFixture(t, `true`)
	f.spec.Sandbox.Hidden = []string{f.path("tree/box")}
	f.withoutNamespaces()
	if _, err := Start(f.spec, nil); err == nil {
		t.Error("without namespaces it starts")
	}
}

// A path can lead through symbolic links.
func TestSandboxSymbolicLinks(t *testing.T) {
	for _, namespaces := range []bool{true, false} {
		needSupport(t, namespaces)
		f := newFixture(t, `cat "$SECRET/key" ../link/key; echo x >../link/key || echo denied`)
		if !namespaces {
			f.withoutNamespaces()
		}
		must.Succeed(t, os.Symlink("secret", f.path("link")))
		f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, f.path("link"))
		f.spec.Stderr = nil
		if _, out := f.run(t); out != "canary\ncanary\ndenied\n" {
			t.Errorf("namespaces %v: output %q", namespaces, out)
		}
	}
}

// A link into /proc, such as /etc/mtab, leads to the program's own files there.
func TestSandboxLinkToProc(t *testing.T) {
	for _, namespaces := range []bool{true, false} {
		needSupport(t, namespaces)
		f := newFixture(t, `cmp -s ../link /proc/$$/comm || cat ../link`)
		if !namespaces {
			f.withoutNamespaces()
		}
		must.Succeed(t, os.Symlink("/proc/self/comm", f.path("link")))
		f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, f.path("link"))
		if exit, out := f.run(t); exit.Code != 0 || out != "cat\n" {
			t.Errorf("namespaces %v: %+v, output %q", namespaces, exit, out)
		}
	}
}

func TestSandboxNetwork(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer server.Close()
	port := server.Addr().(*net.TCPAddr).Port
	for name, tt := range map[string]struct {
		network sandbox.Network
		want    string
	}{
		"on":          {sandbox.Network{}, "connected\n"},
		"this port":   {sandbox.Network{Ports: []uint16{uint16(port)}}, "connected\n"},
		"other ports": {sandbox.Network{Ports: []uint16{1}}, "denied\n"},
		"none":        {sandbox.Network{Off: true}, "denied\n"},
	} {
		for _, namespaces := range []bool{true, false} {
			needSupport(t, namespaces)
			f := newFixture(t, `bash -c 'exec 3<>/dev/tcp/127.0.0.1/`+strconv.Itoa(port)+
				`' && echo connected || echo denied`)
			f.spec.Sandbox.Network, f.spec.Stderr = tt.network, nil
			if !namespaces {
				f.withoutNamespaces()
			}
			if _, out := f.run(t); out != tt.want {
				t.Errorf("%s, namespaces %v: %q, want %q", name, namespaces, out, tt.want)
			}
		}
	}
}

// Every version of Landlock that is enough enforces the policy, with the rights that this version
// knows.
func TestSandboxOlderLandlock(t *testing.T) {
	needSupport(t, true)
	newest := Support()
	for version := 3; version <= newest.Landlock; version++ {
		modes := []sandbox.Network{{}, {Off: true}, {Ports: []uint16{443}}}
		if version > 4 && version < newest.Landlock { // no new rights for the network
			modes = modes[:1]
		}
		for _, mode := range modes {
			f := newFixture(t, `cat "$SECRET/key" || echo x >"$SECRET/new" || mkdir a b && echo one >a/c && ln a/c b/d && mv a/c b/c && : >b/c && ls b`)
			support := newest
			support.Landlock = version
			f.spec.simulated, f.spec.Sandbox.Network, f.spec.Stderr = &support, mode, nil
			if support.Check(f.spec.Sandbox) != nil {
				continue // ports need version 4
			}
			if exit, out := f.run(t); out != "c\nd\n" || exit.Code != 0 {
				t.Errorf("Landlock %d, network %v: %+v, output %q", version, mode, exit, out)
			}
		}
	}
}

// A system that cannot enforce the policy starts nothing, unless that is allowed.
func TestSandboxMissing(t *testing.T) {
	for name, support := range map[string]sandbox.Support{
		"no Landlock": {System: "linux", Seccomp: true, Namespaces: true},
		"old Landlock": {System: "linux", Landlock: 2, Seccomp: true,
			Namespaces: true},
		"old Landlock, no namespaces": {System: "linux", Landlock: 5, Seccomp: true},
		"no seccomp":                  {System: "linux", Landlock: 7, Namespaces: true},
	} {
		f := newFixture(t, "echo ran")
		f.spec.simulated = &support
		if _, err := Start(f.spec, nil); signalbox.CodeOf(err) != signalbox.CodeFailed {
			t.Errorf("%s: %v", name, err)
		}
		f.spec.Sandbox.Mode = sandbox.Warn
		if _, out := f.run(t); out != "ran\n" {
			t.Errorf("%s, warn: %q", name, out)
		}
	}
}

// A program that cannot be executed is an error of Start, with the reason.
func TestSandboxProgramOutside(t *testing.T) {
	needSupport(t, true)
	for _, namespaces := range []bool{true, false} {
		f := newFixture(t, "true")
		if !namespaces {
			f.withoutNamespaces()
		}
		program := f.path("secret/program")
		must.Succeed(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
		f.spec.Argv = []string{program}
		if _, err := Start(f.spec, nil); err == nil {
			t.Errorf("namespaces %v: it started", namespaces)
		} else {
			t.Log(err)
		}
	}
}

// Limits hold for a program and everything that it starts, whether the system enforces them or the
// keeper watches.
func TestSandboxLimits(t *testing.T) {
	const megabyte = 1 << 20
	for name, tt := range map[string]struct {
		enforced, watched string // scripts
		limits            sandbox.Limits
	}{
		"memory": {`head -c 120M /dev/zero | tail -c 120M >/dev/null`,
			`head -c 120M /dev/zero | tail -c 120M | sleep 1000`,
			sandbox.Limits{Memory: 40 * megabyte}},
		"processes": {`for i in $(seq 100); do sleep 1000 & done`,
			`for i in $(seq 100); do sleep 1000 & done; wait`, sandbox.Limits{Processes: 20}},
	} {
		for _, script := range []string{tt.enforced, tt.watched} {
			watch := script == tt.watched
			if !watch && !hasGroups(t, tt.limits) {
				continue
			}
			f := newFixture(t, script)
			f.spec.Sandbox.Limits, f.spec.noGroups, f.spec.Grace = tt.limits, watch, soon
			exit, out := f.run(t)
			if exit.Exceeded != name {
				t.Errorf("%s, watched %v: exit %+v, output %q", name, watch, exit, out)
			}
		}
		f := newFixture(t, `echo small`)
		f.spec.Sandbox.Limits = tt.limits
		if exit, out := f.run(t); exit.Exceeded != "" || out != "small\n" {
			t.Errorf("%s: a small program: %+v, %q", name, exit, out)
		}
	}
}

// hasGroups reports whether the system grants control groups.
func hasGroups(t *testing.T, limits sandbox.Limits) bool {
	group, err := sandbox.NewGroup(limits, sandbox.AllGroups)
	if err != nil {
		t.Logf("no control groups: %v", err)
		return false
	}
	group.Remove()
	return true
}

// A program does not inherit descriptors of this process, nor ignored signals.
func TestProgramInheritsNothing(t *testing.T) {
	// without O_CLOEXEC, like what a shell leaves open
	folder, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must.Succeed(t, err)
	defer unix.Close(folder)
	// the shell itself opens the folder
	const script = `set -- /proc/self/fd/*; echo $(($# - 1)); grep SigIgn /proc/self/status`
	_, out := run(t, shell(script))
	var files int
	var ignored uint64
	if _, err := fmt.Sscanf(out, "%d\nSigIgn:\t%x\n", &files, &ignored); err != nil || files != 3 {
		t.Errorf("output %q: %v", out, err)
	}
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE} {
		if ignored&(1<<(sig-1)) != 0 {
			t.Errorf("it ignores %v", sig)
		}
	}
}

// A .git that does not exist cannot be created, and its placeholder is removed.
func TestSandboxMissingFixedFile(t *testing.T) {
	needSupport(t, true)
	f := newFixture(t, `rmdir .git; mv .git x; mkdir -p .git && echo x >.git/config && echo made || echo none`)
	must.Succeed(t, os.Remove(f.path("tree/.git")))
	f.spec.Stderr = nil
	if _, out := f.run(t); out != "none\n" {
		t.Errorf("output %q", out)
	}
	if _, err := os.Lstat(f.path("tree/.git")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("afterwards: %v", err)
	}
}

// Programs that run at the same time share what takes the place of a .git, and only the last
// one removes it.
func TestSandboxSharedFixedFile(t *testing.T) {
	needSupport(t, true)
	f := newFixture(t, `mkdir .git/x && echo made || echo none`)
	f.spec.Stderr = nil
	git := f.path("tree/.git")
	must.Succeed(t, os.Remove(git))
	var programs sync.WaitGroup
	for range 4 {
		programs.Go(func() {
			for range 3 {
				spec, out := f.spec, bytes.Buffer{}
				spec.Stdout = &out
				p, err := Start(spec, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if p.Wait(); out.String() != "none\n" {
					t.Errorf("output %q", out.String())
				}
			}
		})
	}
	programs.Wait()
	if _, err := os.Lstat(git); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("afterwards: %v", err)
	}
}

// A placeholder stays while another program needs it. One that a killed process left is used and
// removed.
func TestPlaceholder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".git")
	if err := os.Mkdir(name, 0o700); err != nil { // left
		t.Fatal(err)
	}
	hold := func() *placeholder {
		t.Helper()
		p, err := holdPlace(name)
		if p == nil || err != nil {
			t.Fatalf("got %v, %v", p, err)
		}
		return p
	}
	first, second := hold(), hold()
	first.release()
	if _, err := os.Lstat(name); err != nil {
		t.Errorf("it is gone while it is needed: %v", err)
	}
	second.release()
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}

// What is not a placeholder is left alone.
func TestNoPlaceholder(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(name string) error{
		"file":   func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"link":   func(name string) error { return os.Symlink(dir, name) },
		"folder": func(name string) error { return os.MkdirAll(filepath.Join(name, "refs"), 0o700) },
		"locked": func(name string) error {
			if err := os.Mkdir(name, 0o700); err != nil {
				return err
			}
			folder, err := os.Open(name)
			if err != nil {
				return err
			}
			t.Cleanup(func() { folder.Close() })
			return unix.Flock(int(folder.Fd()), unix.LOCK_EX)
		},
	} {
		name = filepath.Join(dir, name)
		must.Succeed(t, make(name))
		if p, err := holdPlace(name); p != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := holdPlace(filepath.Join(dir, "none", ".git")); p != nil || err != nil {
		t.Errorf("without a folder: got %v, %v", p, err)
	}
}

// A program without a network can talk to itself.
func TestSandboxOwnLoopback(t *testing.T) {
	needSupport(t, true)
	f := newFixture(t, `bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>&1 | grep -o -m1 refused`)
	f.spec.Sandbox.Network.Off, f.spec.Stderr = true, nil
	if _, out := f.run(t); !strings.HasSuffix(out, "refused\n") { // and not unreachable
		t.Errorf("output %q", out)
	}
}

// Of a folder, many files may be read, and one not.
func TestSandboxManyFiles(t *testing.T) {
	for _, namespaces := range []bool{true, false} {
		needSupport(t, namespaces)
		f := newFixture(t, `cat "$SECRET"/file-*; cat "$SECRET/key"; cat "$SECRET/folder/key"; ls "$SECRET/folder"; echo x >>"$SECRET/file-1" || echo denied`)
		f.spec.Stderr = nil
		must.Succeed(t, os.Mkdir(f.path("secret/folder"), 0o700))
		must.Succeed(t, os.WriteFile(f.path("secret/folder/key"), []byte("canary\n"), 0o600))
		for i := range 30 {
			name := f.path("secret/file-" + strconv.Itoa(i))
			must.Succeed(t, os.WriteFile(name, []byte("x"), 0o600))
			f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, name)
		}
		f.spec.Argv[2] = strings.ReplaceAll(f.spec.Argv[2], `"$SECRET"/file-*`,
			strings.Join(f.spec.Sandbox.Read[len(f.spec.Sandbox.Read)-30:], " "))
		if !namespaces {
			f.withoutNamespaces()
		}
		if _, out := f.run(t); out != strings.Repeat("x", 30)+"denied\n" {
			t.Errorf("namespaces %v: output %q", namespaces, out)
		}
	}
}

// A program in a sandbox that holds a key, and starts tools in the same sandbox, can keep them from
// reading it.
func TestConceal(t *testing.T) {
	for _, namespaces := range []bool{true, false} {
		for concealed, want := range map[string]string{"false": "TOOL_TEST_KEY=canary\nend\n",
			"true": "end\n"} {
			t.Run(fmt.Sprint("namespaces ", namespaces, ", concealed ", concealed),
				func(t *testing.T) {
					t.Parallel()
					needSupport(t, namespaces)
					f := newFixture(t, "")
					if !namespaces {
						f.withoutNamespaces()
					}
					if scope, err := os.ReadFile(
						"/proc/sys/kernel/yama/ptrace_scope"); err == nil &&
						string(scope) > "1" && concealed == "false" {
						t.Skip("this system protects all processes")
					}
					self, err := os.Executable()
					must.Succeed(t, err)
					f.spec.Argv = []string{self, concealed}
					f.spec.Env = append(f.spec.Env, childVariable+"=conceal",
						"TOOL_TEST_KEY=canary")
					f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, self)
					if _, out := f.run(t); out != want {
						t.Errorf("output %q, want %q", out, want)
					}
				})
		}
	}
}

// A keeper that does not start its program in time is killed, and Start returns.
func TestKeeperIsNotReady(t *testing.T) {
	var keeper ID
	spec := shell("echo ran")
	var out bytes.Buffer
	spec.Stdout, spec.startLimit = &out, time.Millisecond
	_, err := Start(spec, func(id ID) error {
		keeper = id
		return unix.Kill(id.PID, unix.SIGSTOP)
	})
	if !errors.Is(err, errNotReady) || signalbox.CodeOf(err) != signalbox.CodeFailed ||
		signalbox.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	if left := waitUntilNone(func() (left []member) {
		if keeper.Alive() {
			left = append(left, member{})
		}
		return left
	}, time.Minute, nil); len(left) > 0 || out.Len() > 0 {
		t.Errorf("the keeper is left: %v, output %q", left, out.String())
	}
	// Another program starts, however long it then runs.
	spec.startLimit = 0
	if exit, out := run(t, spec); exit.Code != 0 || out != "ran\n" {
		t.Errorf("exit %+v, output %q", exit, out)
	}
}

// Limits that the system does not enforce are named.
func TestMissingLimits(t *testing.T) {
	all := sandbox.Limits{Memory: 1 << 30, Processes: 10, CPU: 1000}
	for name, tt := range map[string]struct {
		limits  sandbox.Limits
		granted func(sandbox.Limits) bool
		want    []string // the beginnings
	}{
		"everything": {all, func(sandbox.Limits) bool { return true }, nil},
		"nothing": {all, func(sandbox.Limits) bool { return false },
			[]string{"limits.cpu has no effect", "limits.memory is only looked at",
				"limits.processes is only looked at"}},
		"no processor": {all, func(l sandbox.Limits) bool { return l.CPU == 0 },
			[]string{"limits.cpu has no effect"}},
		"only processor": {sandbox.Limits{CPU: 1}, func(sandbox.Limits) bool { return false },
			[]string{"limits.cpu has no effect"}},
		"only memory": {sandbox.Limits{Memory: 1}, func(sandbox.Limits) bool { return false },
			[]string{"limits.memory is only looked at"}},
		"the default": {sandbox.Limits{Processes: sandbox.DefaultProcesses},
			func(sandbox.Limits) bool { return false }, nil},
		"none": {sandbox.Limits{}, func(sandbox.Limits) bool { return false }, nil},
	} {
		got := missingLimits(tt.limits, func(l sandbox.Limits) error {
			if tt.granted(l) {
				return nil
			}
			return errors.New("reason")
		})
		same := slices.EqualFunc(got, tt.want,
			func(got, want string) bool { return strings.HasPrefix(got, want) && strings.HasSuffix(got, "(reason)") })
		if !same {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := MissingLimits(all); (len(got) == 0) != hasGroups(t, all) {
		t.Errorf("this system: %q", got)
	}
}

// A program cannot fill the memory with files.
func TestSandboxSharedMemory(t *testing.T) {
	needSupport(t, true)
	for limit, want := range map[int64]string{0: "1048576", 100 << 20: "102400",
		4 << 30: "1048576"} {
		f := newFixture(t, `df -k /dev/shm /tmp | sed 1d | while read -r _ size _; do echo $size; done`)
		f.spec.Sandbox.Limits.Memory, f.spec.Sandbox.Temp = limit, ""
		if _, out := f.run(t); out != want+"\n"+want+"\n" {
			t.Errorf("limit %d: output %q, want %s", limit, out, want)
		}
	}
}
