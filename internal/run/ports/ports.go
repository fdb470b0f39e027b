// Package ports reserves TCP ports: each worktree gets a range of its own on this machine.
package ports

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"signalbox/internal/durable"
)

// Ports are reserved in a register that all boxes of a user share. A range belongs to a folder as
// long as the folder exists.

// The ports that worktrees get. Systems do not choose them for connections, and well-known services
// are below.
const (
	firstPort = 20000
	lastPort  = 32000
)

// Register returns the file in which the ports of the user's worktrees are registered.
func Register() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" || !filepath.IsAbs(dir) {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("find a folder for the register of ports: %w", err)
		}
	}
	return filepath.Join(dir, "signalbox", "ports.json"), nil
}

// portRange is a range of ports that belongs to a folder.
type portRange struct {
	Folder string `json:"folder"`
	First  int    `json:"first"`
	Count  int    `json:"count"`
}

func (r portRange) overlaps(first, count int) bool {
	return first < r.First+r.Count && r.First < first+count
}

// ErrNoPorts means that there is no free range of ports.
var ErrNoPorts = errors.New("there are not enough free TCP ports in a row")

// Reserve returns the first of count ports that are free, and reserves them for a folder. As
// long as the folder exists it gets the same ones. No other folder in the register gets them, and
// no other program on this machine used them when they were reserved.
func Reserve(register, folder string, count int) (first int, err error) {
	err = withRegister(register, func(ranges []portRange) ([]portRange, error) {
		ranges = slices.DeleteFunc(ranges, func(r portRange) bool {
			_, err := os.Lstat(r.Folder)
			return errors.Is(err, fs.ErrNotExist) || r.Folder == folder && r.Count != count
		})
		if i := slices.IndexFunc(ranges,
			func(r portRange) bool { return r.Folder == folder }); i >= 0 {
			first = ranges[i].First
			return ranges, nil
		}
		if first = findPorts(ranges, folder, count); first == 0 {
			return nil, fmt.Errorf("%w: %d between %d and %d", ErrNoPorts, count, firstPort,
				lastPort)
		}
		return append(ranges, portRange{folder, first, count}), nil
	})
	return first, err
}

// Free reports whether a range of ports could be reserved.
func Free(register string, count int) bool {
	ranges, err := readRegister(register)
	return err == nil && findPorts(ranges, "", count) > 0
}

// findPorts returns the first of count free ports, 0 if there are none. It begins at another place
// for each folder, so that two machines that share their ports, such as containers, seldom choose
// the same ones.
func findPorts(ranges []portRange, folder string, count int) int {
	places := (lastPort - firstPort) / count
	hash := fnv.New32a()
	hash.Write([]byte(folder))
	begin := int(hash.Sum32() % uint32(places))
	for i := range places {
		first := firstPort + (begin+i)%places*count
		if !slices.ContainsFunc(ranges,
			func(r portRange) bool { return r.overlaps(first, count) }) && allFree(first, count) {
			return first
		}
	}
	return 0
}

// allFree reports whether a program could listen on all of the ports.
func allFree(first, count int) bool {
	for port := first; port < first+count; port++ {
		// some systems let two programs listen on these at the same time
		for _, host := range []string{"", "127.0.0.1"} {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return false
			}
			l.Close()
		}
	}
	return true
}

// withRegister changes the register while no other process does.
func withRegister(register string, change func([]portRange) ([]portRange, error)) error {
	if err := os.MkdirAll(filepath.Dir(register), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(register+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of the register of ports: %w", err)
	}
	defer f.Close()
	if err := durable.LockFile(f); err != nil {
		return fmt.Errorf("lock the register of ports: %w", err)
	}
	defer durable.UnlockFile(f)
	before, err := readRegister(register)
	if err != nil {
		return err
	}
	after, err := change(slices.Clone(before))
	if err != nil || slices.Equal(before, after) {
		return err
	}
	text, err := json.Marshal(after)
	if err != nil {
		return err
	}
	return durable.Replace(register, text, 0o600)
}

// readRegister returns the registered ranges. One that cannot be decoded is an error: worktrees
// that exist would lose their ports to others.
func readRegister(register string) (ranges []portRange, err error) {
	text, err := os.ReadFile(register)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the register of ports: %w", err)
	}
	if err := json.Unmarshal(text, &ranges); err != nil {
		return nil, fmt.Errorf(
			"the register of ports %s is damaged (%w): remove it when no run is active", register,
			err)
	}
	return ranges, nil
}
