package hostile

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// allowedAttempts are what every program may do: a sandbox in which nothing works stops everything,
// too.
func allowedAttempts() []attempt {
	works := func(name string, try func(a *attacker) (string, error)) attempt {
		return attempt{name: name, try: try, allowed: true}
	}
	git := func(args ...string) attempt {
		return works("run git "+args[0],
			func(a *attacker) (string,
				error) {
				return run(a.dir, append([]string{"git"}, args...)...)
			})
	}
	return []attempt{
		git("status"),
		git("diff"),
		git("log", "-1"),
		git("show", "HEAD"),
		works("change files in its own tree", func(a *attacker) (string, error) {
			from, to := filepath.Join(a.dir, a.mark(), "from"), filepath.Join(a.dir, a.mark(), "to")
			defer os.RemoveAll(filepath.Dir(from))
			return "changed", errors.Join(os.MkdirAll(from, 0o755), os.MkdirAll(to, 0o755),
				os.WriteFile(filepath.Join(from, "a"), nil, 0o644),
				os.Rename(filepath.Join(from, "a"), filepath.Join(to, "a")),
				os.Link(filepath.Join(to, "a"), filepath.Join(from, "b")),
				os.Symlink("b", filepath.Join(from, "c")),
				os.Truncate(filepath.Join(from, "b"), 10),
				os.Chmod(filepath.Join(from, "b"), 0o600),
				os.Remove(filepath.Join(to, "a")))
		}),
		works("use temporary files", func(a *attacker) (string, error) {
			f, err := os.CreateTemp("", a.mark())
			if err != nil {
				return "", err
			}
			defer os.Remove(f.Name())
			_, err = f.WriteString("text")
			return f.Name(), err
		}),
		works("use its home folder", func(a *attacker) (string, error) {
			name := filepath.Join(os.Getenv("HOME"), a.mark())
			defer os.Remove(name)
			return name, os.WriteFile(name, nil, 0o644)
		}),
		works("run programs of the system", func(a *attacker) (string, error) {
			out, err := run(a.dir, "sh", "-c",
				"echo a b | sed s/a/c/ && head -c 4 /dev/urandom >/dev/null && test -r /proc/self/status")
			if err == nil && strings.TrimSpace(out) != "c b" {
				err = errors.New(out)
			}
			return out, err
		}),
		works("signal its own processes", func(*attacker) (string, error) {
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				return "", err
			}
			defer cmd.Wait()
			return "ended", cmd.Process.Kill()
		}),
		works("use a pair of sockets", func(*attacker) (string, error) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return "", err
			}
			_, err = unix.Write(pair[0], []byte("x"))
			return "written", err
		}),
		{name: "connect to an allowed port", allowed: true, network: true, effect: arrived,
			try: func(a *attacker) (string, error) {
				connection, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(a.AllowedPort))
				if err != nil {
					return "", err
				}
				_, err = connection.Write([]byte(a.mark() + "\n"))
				return "sent", errors.Join(err, connection.Close())
			}},
	}
}
