// Package pgserver starts PostgreSQL servers for tests.
package pgserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Need ends the test if PostgreSQL is not installed and cannot be installed without a password: the
// test is skipped, but in CI, where that would go unnoticed, it fails.
func Need(t testing.TB) {
	t.Helper()
	if !Available(t) {
		_, err := programs()
		t.Skip(err)
	}
}

// Available reports whether PostgreSQL is installed or could be installed. In CI it must be.
func Available(t testing.TB) bool {
	t.Helper()
	_, err := programs()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: %v", err)
	}
	return err == nil
}

// programs returns the folder with the programs of PostgreSQL, and installs them if necessary.
var programs = sync.OnceValues(func() (string, error) {
	if runtime.GOOS == "windows" {
		return "", errors.New("the tests run PostgreSQL only on Unix")
	}
	if bin := find(); bin != "" {
		return bin, nil
	}
	dir, err := os.Getwd() // the folder of the package under test
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("PostgreSQL is not installed")
		}
		dir = filepath.Dir(dir)
	}
	if output, err := exec.Command(filepath.Join(dir, "scripts", "need"),
		"initdb").CombinedOutput(); err != nil {
		return "", fmt.Errorf(
			"PostgreSQL is needed (https://www.postgresql.org, or apt-get install postgresql): %s",
			output)
	}
	if bin := find(); bin != "" {
		return bin, nil
	}
	return "", errors.New("PostgreSQL was installed, but its program initdb is not found")
})

// Shared is a server that the tests of a package share. It starts when the first test needs it. The
// zero value is ready to use.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Need returns the server. Without PostgreSQL the test ends, as Need says.
func (s *Shared) Need(t testing.TB) *Server {
	t.Helper()
	Need(t)
	server, err := s.Get()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Get returns the server.
func (s *Shared) Get() (*Server, error) {
	s.once.Do(func() {
		if s.server, s.err = Start(); s.err == nil {
			// it always answers, but a busy machine may stand still for some seconds
			s.server.Address += "&connect_timeout=60"
		}
	})
	return s.server, s.err
}

// Stop stops the server. Call it when the tests have ended.
func (s *Shared) Stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}

// Options are options for StartWith.
type Options struct {
	// Settings are lines of postgresql.conf.
	Settings []string
	// Access are lines of pg_hba.conf, which take precedence. Otherwise everybody is trusted.
	Access []string
	// Dir is where a new folder for all files of the server is made; "" means the folder for
	// temporary files.
	Dir string
}

// Server is a running server with an empty database.
type Server struct {
	// Address is the URL of the database.
	Address string
	// Dir is the folder with all files of the server, and with its socket.
	Dir string
	// Port is that of the socket, and of TCP if Settings say listen_addresses = '127.0.0.1'.
	Port int

	data  string
	bin   string
	pid   int           // of the first process; 0 before the start
	ended chan struct{} // closed when that has ended
}

// Start starts a server that listens on a socket in a temporary folder, and that does not wait for
// the disk. Stop removes it.
func Start() (*Server, error) { return StartWith(Options{}) }

// StartDurable starts a server that waits for the disk, in a new folder in dir; "" means the folder
// for temporary files. The settings are lines of postgresql.conf.
func StartDurable(dir string, settings ...string) (*Server, error) {
	return StartWith(Options{Dir: dir, Settings: append([]string{"fsync = on"}, settings...)})
}

// StartWith starts a server with options.
func StartWith(opts Options) (*Server, error) {
	s, err := newServer(opts.Dir)
	if err != nil {
		return nil, err
	}
	err = s.run("initdb", "-D", s.data, "-U", "signalbox", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync")
	if err == nil {
		// What is synced survives a power failure, but not more kills of processes: tests need not
		// wait for it.
		err = s.Configure(append([]string{"listen_addresses = ''", "max_connections = 200",
			"fsync = off", "logging_collector = off"}, opts.Settings...)...)
	}
	access := filepath.Join(s.data, "pg_hba.conf")
	if err == nil && len(opts.Access) > 0 {
		var rest []byte
		if rest, err = os.ReadFile(access); err == nil {
			err = os.WriteFile(access, append([]byte(strings.Join(opts.Access, "\n")+"\n"),
				rest...), 0)
		}
	}
	if err == nil {
		err = s.Restart()
	}
	for range 5 {
		// another program took the port in the meantime
		if err == nil || !strings.Contains(err.Error(), "Address already in use") {
			break
		}
		if err = s.choosePort(); err == nil {
			err = s.Configure()
		}
		if err == nil {
			err = s.Restart()
		}
	}
	if err != nil {
		os.RemoveAll(s.Dir)
		return nil, err
	}
	return s, nil
}

// newServer returns a server that has no files yet.
func newServer(parent string) (*Server, error) {
	bin, err := programs()
	var dir string
	if err == nil {
		dir, err = os.MkdirTemp(parent, "signalbox-pg-")
	}
	s := &Server{Dir: dir, data: filepath.Join(dir, "data"), bin: bin}
	if err == nil {
		err = s.choosePort()
	}
	if err == nil {
		err = giveAway(dir)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// choosePort makes the port of the server one that no server uses now. The name of the socket has
// the port too.
func (s *Server) choosePort() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Port = l.Addr().(*net.TCPAddr).Port
	s.Address = fmt.Sprintf("postgres:///postgres?user=signalbox&host=%s&port=%d", s.Dir, s.Port)
	return l.Close()
}

// Give makes a file that of the user who runs the servers.
func Give(path string) error { return giveAway(path) }

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, fmt.Sprintf(".s.PGSQL.%d", s.Port)) }

// Configure adds lines to postgresql.conf. They take effect when the server starts, or after
// Reload.
func (s *Server) Configure(settings ...string) error {
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "unix_socket_directories = '%s'\nport = %d\n%s\n", s.Dir, s.Port,
		strings.Join(settings, "\n"))
	return errors.Join(err, f.Close())
}

// Reload makes the server read its configuration again.
func (s *Server) Reload() error { return s.run("pg_ctl", "-D", s.data, "reload") }

// Restart starts the server, after it was shut down or killed, and waits until it answers.
func (s *Server) Restart() error {
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := s.startOnce()
		// by killed processes, which are not gone at once
		if err == nil || time.Now().After(end) || !strings.Contains(err.Error(), "still in use") {
			return err
		}
	}
}

func (s *Server) startOnce() error {
	output, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	// The server is a child of this process, which waits for it: otherwise a killed server would be
	// a zombie, and seem to run.
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, output, output
	asAnotherUser(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	stop, err := s.watch(cmd.Process.Pid)
	if err != nil {
		cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		stop()
		close(ended)
	}()
	s.pid, s.ended = cmd.Process.Pid, ended
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if s.run("pg_isready", "-q", "-h", s.Dir, "-p", fmt.Sprint(s.Port)) == nil {
			return nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(output.Name())
			return fmt.Errorf("the server does not start:\n%s", text[max(0, len(text)-2000):])
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("the server does not answer within two minutes")
}

// watch starts a process that kills the server and removes its files when this process ends without
// stopping it, for example because it is killed.
func (s *Server) watch(pid int) (stop func(), err error) {
	cmd := exec.Command("sh", "-c",
		`read line; kill -9 "$1"; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; rm -rf "$2" && exit; done`, "sh", fmt.Sprint(pid), s.Dir)
	if _, err := cmd.StdinPipe(); err != nil { // it is closed when this process ends
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
	}, nil
}

// ShutDown stops the server in order: it ends its connections and writes everything to its files.
func (s *Server) ShutDown() error {
	return s.run("pg_ctl", "-D", s.data, "-m", "fast", "-w", "stop")
}

// Stop kills the server, if it runs, and removes its files.
func (s *Server) Stop() error { return errors.Join(s.Kill(), os.RemoveAll(s.Dir)) }

// Standby starts a replica of the server, and makes the server wait for it with every commit.
func (s *Server) Standby() (*Server, error) {
	r, err := newServer("")
	if err != nil {
		return nil, err
	}
	err = r.run("pg_basebackup", "-h", s.Dir, "-p", fmt.Sprint(s.Port), "-U", "signalbox", "-D",
		r.data, "-R", "-X", "stream", "--no-sync", "-c", "fast")
	if err == nil {
		// A replica that was started from another replica's files would not wait for itself.
		err = r.Configure("synchronous_standby_names = ''")
	}
	if err == nil {
		err = r.Restart()
	}
	if err == nil {
		err = s.Configure("synchronous_standby_names = '*'")
	}
	if err == nil {
		err = s.Reload()
	}
	if err == nil {
		err = s.AwaitStandby()
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// AwaitStandby waits until a synchronous replica has everything that the server has.
func (s *Server) AwaitStandby() error {
	const question = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming' AND flush_lsn >= pg_current_wal_flush_lsn()"
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(
		20 * time.Millisecond) {
		answer, err := s.Query(question)
		if err != nil {
			return err
		}
		if answer != "0" {
			return nil
		}
	}
	return errors.New("no synchronous replica within two minutes")
}

// Promote makes a replica a primary server, when its primary is killed.
func (s *Server) Promote() error {
	return s.run("pg_ctl", "-D", s.data, "-w", "-t", "120", "promote")
}

// Query executes statements as the superuser signalbox, and returns the first column of the answer.
func (s *Server) Query(statements string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "psql"), "-X", "-q", "-t", "-A", "-v",
		"ON_ERROR_STOP=1", "-h", s.Dir, "-p", fmt.Sprint(s.Port), "-U", "signalbox", "-d",
		"postgres", "-c", statements)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", statements, err, output)
	}
	return strings.TrimSpace(string(output)), err
}

// run runs a program of PostgreSQL, which refuses to run as root.
func (s *Server) run(program string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.Dir
	asAnotherUser(cmd)
	// a pipe would stay open as long as the server
	output, err := os.CreateTemp("", "signalbox-pg-output-")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(output.Name())
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// find returns the folder with the programs of PostgreSQL, or "". Debian does not put them into
// PATH.
func find() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}
