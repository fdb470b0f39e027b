package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The new root is built at newRoot while the old one is still at oldRoot.
const (
	oldRoot = "/old"
	newRoot = "/new"
)

// maxLinks bounds how many symbolic links a path may have.
const maxLinks = 40

// Namespaces are those that BuildRoot needs, and that a program without a network, or with only
// one server, has in addition.
func Namespaces(p *Policy) uintptr {
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC)
	if p.Network.Off || p.Network.Server != nil {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// StartLoopback gives a program without a network one that consists of itself, for servers that
// only it uses.
func StartLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("start the loopback network: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("start the loopback network: %w", err)
	}
	return nil
}

// BuildRoot gives this process, which must be the first one of new Namespaces, a root folder that
// contains only what the policy allows, at the usual places. Folders that may be read are mounted
// read-only. /proc shows the processes of this namespace only, and /dev has few devices.
//
// Landlock decides much of this once more. But only what does not exist at all cannot be connected
// to, and only a read-only mount keeps the mode and the owner of files.
func BuildRoot(p *Policy) error {
	if err := enterEmptyRoot(); err != nil {
		return fmt.Errorf("prepare a root folder: %w", err)
	}
	places, err := placesOf(p)
	if err != nil {
		return err
	}
	if err := mountSystem(p); err != nil {
		return err
	}
	for _, place := range places {
		if err := place.mount(); err != nil {
			return fmt.Errorf("show %s: %w", place.path, err)
		}
	}
	for _, layer := range p.Layers {
		if err := layer.mount(); err != nil {
			return fmt.Errorf("show other folders in %s: %w", layer.Path, err)
		}
	}
	for _, link := range p.Links {
		if err := link.make(); err != nil {
			return fmt.Errorf("make the link %s: %w", link.Path, err)
		}
	}
	for _, place := range places { // now that everything in them has a place
		if place.kind == hiddenPlace {
			if err := protect(newRoot+place.path, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
				return fmt.Errorf("hide %s: %w", place.path, err)
			}
		}
	}
	if p.Network.Server != nil {
		if err := mountHosts(p.Network.Server); err != nil {
			return fmt.Errorf("show %s: %w", hostsFile, err)
		}
	}
	if err := leaveOldRoot(); err != nil {
		return fmt.Errorf("change the root folder: %w", err)
	}
	return nil
}

// enterEmptyRoot makes an empty file system the root, with the old root in oldRoot and a second
// empty one in newRoot.
func enterEmptyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	const above = "/tmp" // any folder will do: it is covered for a moment only
	if err := mountNew("tmpfs", above, "mode=0755"); err != nil {
		return err
	}
	if err := os.Mkdir(above+oldRoot, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(above+newRoot, 0o755); err != nil {
		return err
	}
	if err := unix.PivotRoot(above, above+oldRoot); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return mountNew("tmpfs", newRoot, "mode=0755")
}

// leaveOldRoot makes newRoot the root and forgets the old one.
func leaveOldRoot() error {
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now mounted over the new one
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return protect("/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, 0)
}

func mountNew(kind, target, options string) error {
	if err := unix.Mount(kind, target, kind, unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount %s: %w", kind, err)
	}
	return nil
}

// bind mounts a file or folder of the old root in the new one.
func bind(from, to string) error {
	if err := makeMountPoint(oldRoot+from, newRoot+to); err != nil {
		return err
	}
	return unix.Mount(oldRoot+from, newRoot+to, "", unix.MS_BIND|unix.MS_REC, "")
}

// makeMountPoint makes an empty file or folder like the one that is to be mounted there, unless
// there is one.
func makeMountPoint(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if info.IsDir() {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, nil, 0o600)
}

// protect adds flags to a mount.
func protect(path string, flags uint64, how uint) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, how, &unix.MountAttr{Attr_set: flags})
}

// makeReadOnly makes a part of a mounted file system read-only, if it exists.
func makeReadOnly(path string) error {
	err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return protect(path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		unix.AT_RECURSIVE)
}

// mountSystem mounts /proc, /sys, /dev and /tmp.
func mountSystem(p *Policy) error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/var"} {
		if err := os.Mkdir(newRoot+dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountNew("proc", newRoot+"/proc", ""); err != nil {
		return err
	}
	// Settings of the whole machine, which belong to root also if it has no capabilities.
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		if err := makeReadOnly(newRoot + "/proc/" + name); err != nil {
			return fmt.Errorf("protect /proc/%s: %w", name, err)
		}
	}
	if err := bind("/sys", "/sys"); err != nil {
		return fmt.Errorf("show /sys: %w", err)
	}
	if err := protect(newRoot+"/sys",
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		unix.AT_RECURSIVE); err != nil {
		return fmt.Errorf("show /sys: %w", err)
	}
	if err := mountDevices(p); err != nil {
		return fmt.Errorf("show /dev: %w", err)
	}
	if p.Temp == "" {
		return mountNew("tmpfs", newRoot+"/tmp", sharedOptions(p))
	}
	if err := bind(p.Temp, "/tmp"); err != nil {
		return fmt.Errorf("show %s as /tmp: %w", p.Temp, err)
	}
	if err := protect(newRoot+"/tmp", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		unix.AT_RECURSIVE); err != nil {
		return fmt.Errorf("show %s as /tmp: %w", p.Temp, err)
	}
	return os.Symlink("/tmp", newRoot+"/var/tmp")
}

// maxShared bounds a file system in memory that a program can write to. Otherwise the system would
// give it half of the memory.
const maxShared = 1 << 30

// sharedOptions are the options of such a file system.
func sharedOptions(p *Policy) string {
	size := int64(maxShared)
	if p.Limits.Memory > 0 {
		size = min(size, p.Limits.Memory)
	}
	return fmt.Sprint("mode=1777,size=", size)
}

func mountDevices(p *Policy) error {
	const dev = newRoot + "/dev"
	if err := mountNew("tmpfs", dev, "mode=0755"); err != nil {
		return err
	}
	for _, name := range devices {
		if err := bind("/dev/"+name, "/dev/"+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, dev+"/"+name); err != nil {
			return err
		}
	}
	for name, options := range map[string]string{"pts": "newinstance,ptmxmode=0666,mode=0620",
		"shm": sharedOptions(p)} {
		if err := os.Mkdir(dev+"/"+name, 0o755); err != nil {
			return err
		}
		kind := map[string]string{"pts": "devpts", "shm": "tmpfs"}[name]
		if err := mountNew(kind, dev+"/"+name, options); err != nil {
			return err
		}
	}
	return protect(dev, unix.MOUNT_ATTR_RDONLY, 0)
}

// place is something that the new root shows.
type place struct {
	path string // without symbolic links
	kind placeKind
}

type placeKind int

const (
	linkPlace   placeKind = iota // a symbolic link, as in the old root
	readPlace                    // can be read
	writePlace                   // can be changed
	fixedPlace                   // cannot be changed, in a folder that can
	hiddenPlace                  // is empty, except for other places in it
)

// placesOf returns the places of a policy, parents first. Paths that do not exist are omitted.
func placesOf(p *Policy) (places []place, err error) {
	seen := map[place]bool{}
	add := func(at place) {
		if !seen[at] {
			seen[at] = true
			places = append(places, at)
		}
	}
	for kind, paths := range map[placeKind][]string{readPlace: p.Read, writePlace: p.writable(),
		fixedPlace: p.Fixed, hiddenPlace: p.Hidden} {
		for _, path := range paths {
			real, links, err := resolve(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
				errors.Is(err, unix.ENOTDIR) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look at %s: %w", path, err)
			}
			for _, link := range links {
				add(place{link, linkPlace})
			}
			if strings.HasPrefix(real, "/proc/") {
				// the new root has its own: /etc/mtab, for example, is a link to a file of the
				// process that reads it
				continue
			}
			add(place{real, kind})
		}
	}
	if places, err = showWholeFolders(places); err != nil {
		return nil, err
	}
	slices.SortFunc(places, func(a, b place) int {
		if n := strings.Compare(a.path+"/", b.path+"/"); n != 0 {
			return n
		}
		return int(a.kind) - int(b.kind)
	})
	return slices.DeleteFunc(slices.Clone(places), func(at place) bool {
		above, found := nearest(places, at)
		return found && above.kind == at.kind // it is there already
	}), nil
}

// manyEntries is how many entries of a folder are mounted one by one at most.
const manyEntries = 16

// showWholeFolders replaces many entries of a folder by the folder and what must be hidden in it,
// if that is less: a mount takes time. Only folders that hold the settings of the system have so
// many.
func showWholeFolders(places []place) ([]place, error) {
	shown := map[string]map[string]bool{} // names of entries, by folder
	for _, at := range places {
		if folder, name := filepath.Split(at.path); at.kind == readPlace || at.kind == linkPlace {
			folder = filepath.Clean(folder)
			if shown[folder] == nil {
				shown[folder] = map[string]bool{}
			}
			shown[folder][name] = true
		}
	}
	for folder, names := range shown {
		if len(names) <= manyEntries || folder == "/" {
			continue
		}
		entries, err := os.ReadDir(oldRoot + folder)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", folder, err)
		}
		var hidden []place
		for _, entry := range entries {
			// A link shows only what its target shows.
			if !names[entry.Name()] && entry.Type() != fs.ModeSymlink {
				hidden = append(hidden, place{filepath.Join(folder, entry.Name()), hiddenPlace})
			}
		}
		if len(hidden) >= len(names) {
			continue
		}
		places = slices.DeleteFunc(places, func(at place) bool {
			return (at.kind == readPlace || at.kind == linkPlace) && filepath.Dir(at.path) == folder
		})
		places = append(append(places, place{folder, readPlace}), hidden...)
	}
	return places, nil
}

// nearest returns the mounted place that contains another one.
func nearest(sorted []place, at place) (above place, found bool) {
	for _, other := range sorted {
		if other.kind != linkPlace && at.kind != linkPlace &&
			strings.HasPrefix(at.path, strings.TrimSuffix(other.path, "/")+"/") {
			above, found = other, true // the last one is the deepest
		}
	}
	return above, found
}

// resolve follows the symbolic links of a path in the old root, and returns those it found.
func resolve(path string) (real string, links []string, err error) {
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	real = "/"
	for len(rest) > 0 {
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(oldRoot + next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxLinks {
			return "", nil, unix.ELOOP
		}
		target, err := os.Readlink(oldRoot + next)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(real, target)
		}
		target = strings.Trim(filepath.Clean(target), "/")
		rest = append(strings.Split(target, "/"), rest...)
		real = "/"
	}
	return real, links, nil
}

// mount shows a place in the new root. What is in the place already, because it is in a folder that
// was mounted before, is left alone if it is right.
func (p place) mount() error {
	here := newRoot + p.path
	switch p.kind {
	case linkPlace:
		if _, err := os.Lstat(here); err == nil {
			return nil
		}
		target, err := os.Readlink(oldRoot + p.path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(here), 0o755); err != nil {
			return err
		}
		return os.Symlink(target, here)
	case hiddenPlace:
		if info, err := os.Stat(here); err == nil && !info.IsDir() {
			return unix.Mount(oldRoot+os.DevNull, here, "", unix.MS_BIND, "")
		}
		return mountNew("tmpfs", here, "mode=0755")
	}
	if err := bind(p.path, p.path); err != nil {
		return err
	}
	flags := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if p.kind != writePlace {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	return protect(here, flags, unix.AT_RECURSIVE)
}

// mount shows a layer in the new root, in which its folder is already. The attributes with which
// the system marks what was removed are those of users, because others need rights on the whole
// machine. With these, the system follows none that lead elsewhere.
func (l Layer) mount() error {
	paths := append([]string{l.Path, l.Work}, l.Below...)
	for i, path := range paths {
		real, _, err := resolve(path)
		if err != nil {
			return err
		}
		paths[i] = real
	}
	// The system marks its folder, and does not use it again.
	work, err := os.MkdirTemp(oldRoot+paths[1], "")
	if err != nil {
		return err
	}
	paths[1] = strings.TrimPrefix(work, oldRoot)
	// The names are relative to a folder that contains all of them, because together they must be
	// shorter than a page.
	common := filepath.Dir(paths[0])
	for _, path := range paths {
		for path != common && !strings.HasPrefix(path, strings.TrimSuffix(common, "/")+"/") {
			common = filepath.Dir(common)
		}
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		rel, err := filepath.Rel(common, path)
		if err != nil {
			return err
		}
		names[i] = "./" + strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(rel)
	}
	if err := os.Chdir(oldRoot + common); err != nil {
		return err
	}
	// volatile: what is copied is not synced first, file by file. The folder need not survive a
	// power failure.
	options := "userxattr,volatile,upperdir=" + names[0] + ",workdir=" + names[1] + ",lowerdir=" +
		strings.Join(names[2:], ":")
	at := newRoot + paths[0]
	if len(l.Only) > 0 {
		at = "/layer"
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV,
		options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	// One overlay for all of them: the system takes milliseconds to end each.
	for _, name := range l.Only {
		if err := unix.Mount(filepath.Join(at, name), filepath.Join(newRoot+paths[0], name), "",
			unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	if err := os.Chdir("/"); err != nil || len(l.Only) == 0 {
		return err
	}
	return unix.Unmount(at, unix.MNT_DETACH)
}

// make makes the link in the new root, where its folder is an empty one or not there yet.
func (l Link) make() error {
	folder, _, err := resolve(filepath.Dir(l.Path))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(newRoot+folder, 0o755); err != nil {
		return err
	}
	at := filepath.Join(newRoot+folder, filepath.Base(l.Path))
	if target, err := os.Readlink(at); err == nil && target == l.Target {
		return nil // below /tmp, the folder for temporary files still has it from an earlier start
	}
	return os.Symlink(l.Target, at)
}
