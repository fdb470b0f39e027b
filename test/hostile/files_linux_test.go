package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// secretFiles are files in the home folder that the test fills with the secret.
var secretFiles = []string{
	".ssh/id_ed25519",
	".aws/credentials",
	".gnupg/private-keys-v1.d/key",
	".mozilla/firefox/a.default/logins.json",
	".config/google-chrome/Default/Cookies",
	".config/gh/hosts.yml",
	".netrc",
	".npmrc",
	".cargo/credentials.toml",
	".docker/config.json",
	".kube/config",
	".git-credentials",
	".bash_history",
	".local/share/keyrings/login.keyring",
	"Documents/diary.txt",
}

// readAttempts are attempts to get the secret out of files, and to learn about them.
func readAttempts() (all []attempt) {
	for _, name := range secretFiles {
		all = append(all, reads("~/"+name, in(home, name)))
	}
	key := func(a *attacker) string { return a.Key }
	opensKey := func(name string, open func(a *attacker) (int, error)) attempt {
		return attempt{name: name, effect: readsKey, try: func(a *attacker) (string, error) {
			fd, err := open(a)
			if err != nil {
				return "", err
			}
			return readFD(fd)
		}}
	}
	return append(all,
		attempt{name: "read the signing key", effect: readsKey,
			try: func(a *attacker) (string, error) { return readFile(a.Key) }},
		attempt{name: "read the ledger",
			try: func(a *attacker) (string,
				error) {
				return readFile(filepath.Join(a.Box, "ledger.db"))
			},
			effect: func(_ *stage, _ *attacker, evidence string) bool {
				return strings.HasPrefix(evidence, "SQLite format 3")
			}},
		reads("the configuration of the box", in(box, "signalbox.yaml")),
		reads("another project",
			func(a *attacker) string { return filepath.Join(filepath.Dir(a.Project), "other", "notes.txt") }),
		reads("another task's tree",
			func(a *attacker) string { return filepath.Join(a.Victim.Tree, victimFile(a.Tag)) }),
		reads("another session's home",
			func(a *attacker) string { return filepath.Join(a.Victim.Home, victimFile(a.Tag)) }),
		reads("another session's temporary files",
			func(a *attacker) string { return filepath.Join(a.Victim.Temp, victimFile(a.Tag)) }),
		reads("shared memory of the user",
			func(a *attacker) string { return filepath.Join(a.Shared, "canary") }),
		opensKey("open the key by a path without following links", func(a *attacker) (int, error) {
			return unix.Openat2(unix.AT_FDCWD, a.Key,
				&unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_NO_SYMLINKS})
		}),
		opensKey("open the key through a descriptor without rights",
			func(a *attacker) (int, error) {
				fd, err := unix.Open(a.Key, unix.O_PATH, 0)
				if err != nil {
					return -1, err
				}
				return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY, 0)
			}),
		func() attempt {
			t := opensKey("open the key by its handle", func(a *attacker) (int, error) {
				mount, err := unix.Open(a.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
				if err != nil {
					return -1, err
				}
				return unix.OpenByHandleAt(mount, unix.NewFileHandle(a.KeyHandleType, a.KeyHandle),
					unix.O_RDONLY)
			})
			t.root = true
			return t
		}(),
		attempt{name: "execute a program in the home folder", effect: leaked,
			try: func(a *attacker) (string,
				error) {
				return run(a.dir, filepath.Join(a.Home, "Documents", "tool"))
			}},
		attempt{name: "copy the key with another program", effect: readsKey,
			try: func(a *attacker) (string, error) { return run(a.dir, "cat", a.Key) }},
		attempt{name: "read the passwords of the system", root: true,
			try: func(*attacker) (string, error) {
				text, err := readFile("/etc/shadow")
				return strconv.Itoa(strings.Count(text, ":")), err
			}},
		attempt{name: "learn the size of the key", open: "names and sizes",
			try: func(a *attacker) (string, error) {
				info, err := os.Stat(a.Key)
				if err != nil {
					return "", err
				}
				return strconv.FormatInt(info.Size(), 10), nil
			},
			effect: func(s *stage, a *attacker, evidence string) bool {
				info, err := os.Stat(key(a))
				return err == nil && evidence == strconv.FormatInt(info.Size(), 10)
			}},
		attempt{name: "list the keys of ssh", try: func(a *attacker) (string, error) {
			entries, err := os.ReadDir(filepath.Join(a.Home, ".ssh"))
			return fmt.Sprint(entries), err
		}},
		attempt{name: "watch the folder of ssh", open: "names and sizes",
			try: func(a *attacker) (string, error) {
				fd, err := unix.InotifyInit1(0)
				if err != nil {
					return "", err
				}
				_, err = unix.InotifyAddWatch(fd, filepath.Join(a.Home, ".ssh"), unix.IN_ALL_EVENTS)
				return "watching", err
			}},
		attempt{name: "watch all files of the file system", root: true,
			try: func(a *attacker) (string, error) {
				fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY)
				if err != nil {
					return "", err
				}
				return "watching", unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT,
					unix.FAN_OPEN, unix.AT_FDCWD, a.dir)
			}},
		attempt{name: "read the environment of signalbox", effect: leaked,
			prevented: "the environment of an agent and of a check is an allow-list",
			try: func(*attacker) (string, error) {
				if value := os.Getenv(secretVariable); value != "" {
					return value, nil
				}
				return "", errors.New("the variable is not set")
			}},
		attempt{name: "use an inherited descriptor",
			prevented: "no descriptor of a file is inherited", try: inheritedFile},
	)
}

// readsKey is the effect of an attempt that gets the signing key.
func readsKey(s *stage, _ *attacker, evidence string) bool {
	key, err := os.ReadFile(s.Key)
	return err == nil && strings.HasPrefix(evidence, string(key[:32]))
}

func readFD(fd int) (string, error) {
	buffer := make([]byte, 4096)
	n, err := unix.Read(fd, buffer)
	return string(buffer[:max(n, 0)]), err
}

// inheritedFile looks for an open file or folder that was passed on by mistake. Go itself opens
// files in /sys.
func inheritedFile(a *attacker) (string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		target, _ := os.Readlink("/proc/self/fd/" + entry.Name())
		if info, err := os.Stat(target); err == nil && info.Mode()&os.ModeDevice == 0 &&
			!slices.ContainsFunc([]string{"/proc/", "/sys/", a.dir},
				func(own string) bool { return strings.HasPrefix(target, own) }) {
			return target, nil
		}
	}
	return "", errors.New("there is none")
}

// writeAttempts are attempts to change files outside the tree.
func writeAttempts() []attempt {
	metadata := in(home, ".ssh", "known_hosts")
	all := []attempt{
		{name: "write the ledger",
			try: func(a *attacker) (string,
				error) {
				return rewriteByte(filepath.Join(a.Box, "ledger.db"))
			},
			effect: func(_ *stage, a *attacker, evidence string) bool {
				return evidence == inode(filepath.Join(a.Box, "ledger.db"))
			}},
		creates("the box", box),
		appends("the configuration of the box", in(box, "signalbox.yaml")),
		creates("the build cache", in(box, "cache")),
		appends("a file of the build cache", in(box, "cache", "canary")),
		{name: "open work with the program", try: func(a *attacker) (string, error) {
			cmd := exec.Command(a.Program, "work", "open", a.mark())
			cmd.Dir, cmd.Env = a.Project, []string{"HOME=" + a.Home, "PATH=" + os.Getenv("PATH"),
				"USER=tester"}
			out, err := cmd.CombinedOutput()
			return string(out), err
		}, effect: func(s *stage, a *attacker, _ string) bool {
			return strings.Contains(s.must(s.Program, "work", "list"), a.mark())
		}},
		creates("the folder of trees",
			func(a *attacker) string { return filepath.Dir(a.Victim.Tree) }),
		creates("the user's checkout", project),
		creates("another task's tree", func(a *attacker) string { return a.Victim.Tree }),
		creates("another session's home", func(a *attacker) string { return a.Victim.Home }),
		creates("another project",
			func(a *attacker) string { return filepath.Join(filepath.Dir(a.Project), "other") }),
		creates("~/.ssh", in(home, ".ssh")),
		creates("~/.config/autostart", in(home, ".config", "autostart")),
		creates("~/.claude", in(home, ".claude")),
		creates("the folder of sockets", func(a *attacker) string { return a.Run }),
		appends("~/.bashrc", in(home, ".bashrc")),
		appends("~/.gitconfig", in(home, ".gitconfig")),
		appends("the settings of claude", in(home, ".claude", "settings.json")),
		appends("a program on the PATH",
			func(a *attacker) string { return filepath.Join(a.Bin, "tool") }),
		{name: "replace a program on the PATH", try: func(a *attacker) (string, error) {
			mine := filepath.Join(a.dir, a.mark())
			if err := os.WriteFile(mine, []byte(a.mark()), 0o755); err != nil {
				return "", err
			}
			defer os.Remove(mine)
			return "replaced", os.Rename(mine, filepath.Join(a.Bin, "replaced-by-"+a.by))
		}, effect: func(_ *stage, a *attacker, _ string) bool {
			return contains(filepath.Join(a.Bin, "replaced-by-"+a.by), a.mark())
		}},
		{name: "empty a file",
			try: func(a *attacker) (string, error) { return "emptied", os.Truncate(emptied(a), 0) },
			effect: func(_ *stage, a *attacker, _ string) bool {
				info, err := os.Stat(emptied(a))
				return err == nil && info.Size() == 0
			}},
		{name: "empty a file by opening it", try: func(a *attacker) (string, error) {
			f, err := os.OpenFile(filepath.Join(a.Bin, "emptied-by-"+a.by), os.O_RDONLY|os.O_TRUNC,
				0)
			if err != nil {
				return "", err
			}
			return "emptied", f.Close()
		}, effect: func(_ *stage, a *attacker, _ string) bool {
			info, err := os.Stat(filepath.Join(a.Bin, "emptied-by-"+a.by))
			return err == nil && info.Size() == 0
		}},
		{name: "remove a file",
			try:    func(a *attacker) (string, error) { return "removed", os.Remove(removed(a)) },
			effect: func(_ *stage, a *attacker, _ string) bool { return !exists(removed(a)) }},
		{name: "change the mode of a file", open: "mode, owner, times",
			try: func(a *attacker) (string, error) {
				return "changed", os.Chmod(metadata(a), os.FileMode(a.number(0o641)))
			},
			effect: func(_ *stage, a *attacker, _ string) bool { return had(a, metadata, "mode") }},
		{name: "change the owner of a file", root: true,
			try: func(a *attacker) (string,
				error) {
				return "changed", os.Chown(metadata(a), a.number(70001), -1)
			},
			effect: func(_ *stage, a *attacker,
				_ string) bool {
				return had(a, metadata, "owner")
			}},
		{name: "change the time of a file", open: "mode, owner, times",
			try: func(a *attacker) (string, error) {
				long := time.Unix(int64(a.number(1000000)), 0)
				return "changed", os.Chtimes(metadata(a), long, long)
			}, effect: func(_ *stage, a *attacker, _ string) bool { return had(a, metadata, "time") }},
		{name: "change an attribute of a file", open: "mode, owner, times",
			try: func(a *attacker) (string, error) {
				return "changed", unix.Setxattr(metadata(a), "user."+a.mark(), []byte("x"), 0)
			},
			effect: func(_ *stage, a *attacker, _ string) bool {
				_, err := unix.Getxattr(metadata(a), "user."+a.mark(), nil)
				return err == nil
			}},
		creates("shared memory", func(a *attacker) string { return a.Shared }),
		creates("/var/tmp", func(*attacker) string { return "/var/tmp" }),
		creates("/tmp", func(*attacker) string { return "/tmp" }),
	}
	return all
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// emptied and removed are files that the test made for each program.
func emptied(a *attacker) string { return filepath.Join(a.Home, "Documents", a.by+"-emptied") }
func removed(a *attacker) string { return filepath.Join(a.Home, "Documents", a.by+"-removed") }

// had reports whether a program once gave a file the metadata that carries its number: the next
// program changes it again.
func had(a *attacker, path func(*attacker) string, what string) bool {
	info, err := os.Stat(path(a))
	if err != nil {
		return false
	}
	switch first := func(n int) bool { return n >= a.number(0) && n <= 2 }; what {
	case "mode":
		return first(int(info.Mode().Perm()) - 0o641)
	case "owner":
		return first(int(info.Sys().(*syscall.Stat_t).Uid) - 70001)
	default:
		return first(int(info.ModTime().Unix()) - 1000000)
	}
}

// inode identifies a file.
func inode(path string) string {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return "none"
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}

// rewriteByte writes a file without changing it, and returns its identity.
func rewriteByte(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, 0); err != nil {
		return "", err
	}
	if _, err := f.WriteAt(one, 0); err != nil {
		return "", err
	}
	return inode(path), nil
}

// gitAttempts are attempts to change the repository.
func gitAttempts() []attempt {
	gitFile := in(ownTree, ".git")
	replaceable := "the tree's .git file"
	runsGit := func(name string, effect func(s *stage, a *attacker, _ string) bool,
		args func(*attacker) []string) attempt {
		return attempt{name: name, effect: effect, try: func(a *attacker) (string, error) {
			return run(a.dir, append([]string{"git", "-c", "user.name=h", "-c",
				"user.email=h@localhost"}, args(a)...)...)
		}}
	}
	ref := func(kind string) func(s *stage, a *attacker, _ string) bool {
		return func(_ *stage, a *attacker, _ string) bool {
			return exists(filepath.Join(gitDir(a), "refs", kind, a.mark()))
		}
	}
	return []attempt{
		appends("the configuration of git", in(gitDir, "config")),
		creates("the hooks of git", in(gitDir, "hooks")),
		creates("the branches of git", in(gitDir, "refs", "heads")),
		creates("the objects of git", in(gitDir, "objects")),
		creates("the info folder of git", in(gitDir, "info")),
		creates("its own folder in the git folder", func(a *attacker) string {
			text, _ := os.ReadFile(filepath.Join(a.dir, ".git"))
			return strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir: "))
		}).withEffect(nil), // that folder is gone when the check has ended
		appends("the head of the user's checkout", in(gitDir, "COMMIT_EDITMSG")),
		{name: "replace the base branch", try: func(a *attacker) (string, error) {
			main := filepath.Join(gitDir(a), "refs", "heads", "main")
			text, err := os.ReadFile(main)
			if err != nil {
				return "", err
			}
			// The same commit, so that the run continues; the time is the mark.
			long := time.Unix(int64(a.number(1000000)), 0)
			return "replaced", errors.Join(os.WriteFile(main+".lock", text, 0o644),
				os.Chtimes(main+".lock", long, long), os.Rename(main+".lock", main))
		}, effect: func(_ *stage, a *attacker,
			_ string) bool {
			return had(a, in(gitDir, "refs", "heads", "main"), "time")
		}},
		{name: "write the tree's .git file", open: replaceable,
			try: func(a *attacker) (string, error) { return rewriteByte(gitFile(a)) }},
		{name: "replace the tree's .git file", open: replaceable,
			try: func(a *attacker) (string, error) {
				text, err := os.ReadFile(gitFile(a))
				if err != nil {
					return "", err
				}
				return "replaced", errors.Join(os.WriteFile(gitFile(a)+"2", text, 0o644),
					os.Rename(gitFile(a)+"2", gitFile(a)))
			}},
		{name: "remove the tree's .git file", open: replaceable,
			try: func(a *attacker) (string, error) {
				text, err := os.ReadFile(gitFile(a))
				if err == nil {
					err = os.Remove(gitFile(a))
				}
				if err != nil {
					return "", err
				}
				return "removed", os.WriteFile(gitFile(a), text, 0o644)
			}},
		{name: "exchange the tree's .git file", open: replaceable,
			try: func(a *attacker) (string, error) {
				text, err := os.ReadFile(gitFile(a))
				if err != nil {
					return "", err
				}
				other := gitFile(a) + "3"
				defer os.Remove(other)
				if err := os.WriteFile(other, text, 0o644); err != nil {
					return "", err
				}
				return "exchanged", unix.Renameat2(unix.AT_FDCWD, gitFile(a), unix.AT_FDCWD, other,
					unix.RENAME_EXCHANGE)
			}},
		{name: "move its own tree", try: func(a *attacker) (string, error) {
			return "moved", errors.Join(os.Rename(a.dir, a.dir+"-moved"),
				os.Rename(a.dir+"-moved", a.dir))
		}},
		{name: "commit with git", try: func(a *attacker) (string, error) {
			if out, err := run(a.dir, "git", "-c", "user.name=h", "-c", "user.email=h@localhost",
				"commit", "-q", "--allow-empty", "-m", a.mark()); err != nil {
				return out, err
			}
			return run(a.dir, "git", "rev-parse", "HEAD")
		}, effect: func(s *stage, a *attacker, evidence string) bool {
			subject, _ := s.output("git", "show", "-s", "--format=%s", strings.TrimSpace(evidence))
			return strings.Contains(subject, a.mark())
		}},
		runsGit("create a branch with git", ref("heads"),
			func(a *attacker) []string { return []string{"branch", a.mark()} }),
		runsGit("tag with git", ref("tags"),
			func(a *attacker) []string { return []string{"tag", a.mark()} }),
		runsGit("configure git", func(_ *stage, a *attacker, _ string) bool {
			return contains(filepath.Join(gitDir(a), "config"), a.mark())
		},
			func(a *attacker) []string { return []string{"config", "--add", "hostile.mark", a.mark()} }),
		{name: "register a worktree with git", try: func(a *attacker) (string, error) {
			path := filepath.Join(a.dir, a.mark())
			defer os.RemoveAll(path)
			return run(a.dir, "git", "worktree", "add", "--no-checkout", "--detach", path)
		}, effect: func(_ *stage, a *attacker, _ string) bool {
			return exists(filepath.Join(gitDir(a), "worktrees", a.mark()))
		}},
	}
}

// withEffect returns the attempt with another effect.
func (t attempt) withEffect(effect func(s *stage, a *attacker, evidence string) bool) attempt {
	t.effect = effect
	return t
}

// linkAttempts are attempts to get at files by links, renames and mounts.
func linkAttempts() []attempt {
	secret := in(home, ".ssh", "id_ed25519")
	mine := func(a *attacker) string { return filepath.Join(a.dir, a.mark()) }
	return []attempt{
		{name: "read through a symbolic link", effect: leaked,
			try: func(a *attacker) (string, error) {
				if err := os.Symlink(secret(a), mine(a)); err != nil {
					return "", err
				}
				defer os.Remove(mine(a))
				return readFile(mine(a))
			}},
		{name: "read through a link to a folder", effect: leaked,
			try: func(a *attacker) (string, error) {
				if err := os.Symlink(filepath.Dir(secret(a)), mine(a)); err != nil {
					return "", err
				}
				defer os.Remove(mine(a))
				return readFile(filepath.Join(mine(a), filepath.Base(secret(a))))
			}},
		{name: "read through a hard link", effect: leaked, try: func(a *attacker) (string, error) {
			if err := os.Link(secret(a), mine(a)); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			return readFile(mine(a))
		}},
		{name: "move a secret into the tree", effect: leaked,
			try: func(a *attacker) (string, error) {
				if err := os.Rename(secret(a), mine(a)); err != nil {
					return "", err
				}
				defer os.Rename(mine(a), secret(a))
				return readFile(mine(a))
			}},
		{name: "move a file to the hooks of git", try: func(a *attacker) (string, error) {
			if err := os.WriteFile(mine(a), []byte(a.mark()), 0o755); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			return "moved", os.Rename(mine(a), filepath.Join(gitDir(a), "hooks", a.mark()))
		}, effect: func(_ *stage, a *attacker,
			_ string) bool {
			return exists(filepath.Join(gitDir(a), "hooks", a.mark()))
		}},
		{name: "link a file into the hooks of git", try: func(a *attacker) (string, error) {
			if err := os.WriteFile(mine(a), []byte(a.mark()), 0o755); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			return "linked", os.Link(mine(a), filepath.Join(gitDir(a), "hooks", a.mark()))
		}, effect: func(_ *stage, a *attacker,
			_ string) bool {
			return exists(filepath.Join(gitDir(a), "hooks", a.mark()))
		}},
		{name: "write through a symbolic link", try: func(a *attacker) (string, error) {
			if err := os.Symlink(filepath.Join(a.Home, ".ssh", a.mark()), mine(a)); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			return "written", os.WriteFile(mine(a), []byte(a.mark()), 0o644)
		}, effect: func(_ *stage, a *attacker,
			_ string) bool {
			return exists(filepath.Join(a.Home, ".ssh", a.mark()))
		}},
		{name: "leave the tree through a folder that moves", effect: leaked,
			try: func(a *attacker) (string, error) {
				// A descriptor of a folder that is moved up resolves .. from its new place.
				deep := filepath.Join(mine(a), "a", "b", "c")
				if err := os.MkdirAll(deep, 0o755); err != nil {
					return "", err
				}
				defer os.RemoveAll(mine(a))
				fd, err := unix.Open(deep, unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return "", err
				}
				defer os.RemoveAll(mine(a) + "-up")
				if err := os.Rename(deep, mine(a)+"-up"); err != nil {
					return "", err
				}
				relative, err := filepath.Rel(mine(a)+"-up", secret(a))
				if err != nil {
					return "", err
				}
				file, err := unix.Openat(fd, relative, unix.O_RDONLY, 0)
				if err != nil {
					return "", err
				}
				return readFD(file)
			}},
		{name: "mount a secret into the tree", root: true, effect: leaked,
			try: func(a *attacker) (string, error) {
				if err := os.WriteFile(mine(a), nil, 0o644); err != nil {
					return "", err
				}
				defer os.Remove(mine(a))
				if err := unix.Mount(secret(a), mine(a), "", unix.MS_BIND, ""); err != nil {
					return "", err
				}
				defer unix.Unmount(mine(a), unix.MNT_DETACH)
				return readFile(mine(a))
			}},
		{name: "mount a file system", root: true, try: func(a *attacker) (string, error) {
			if err := os.Mkdir(mine(a), 0o755); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			err := unix.Mount("none", mine(a), "tmpfs", 0, "")
			if err == nil {
				unix.Unmount(mine(a), unix.MNT_DETACH)
			}
			return "mounted", err
		}},
		{name: "mount with the new calls", root: true, try: func(*attacker) (string, error) {
			fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
			if err == nil {
				unix.Close(fd)
			}
			return "opened", err
		}},
		{name: "copy a mount", root: true, effect: leaked, try: func(a *attacker) (string, error) {
			fd, err := unix.OpenTree(unix.AT_FDCWD, a.Home, unix.OPEN_TREE_CLONE)
			if err != nil {
				return "", err
			}
			file, err := unix.Openat(fd, ".ssh/id_ed25519", unix.O_RDONLY, 0)
			if err != nil {
				return "", err
			}
			return readFD(file)
		}},
		{name: "copy a mount with attributes", root: true, effect: leaked,
			try: func(a *attacker) (string, error) {
				path, err := unix.BytePtrFromString(a.Home)
				if err != nil {
					return "", err
				}
				var attributes unix.MountAttr
				at := unix.AT_FDCWD
				fd, _, errno := unix.Syscall6(unix.SYS_OPEN_TREE_ATTR, uintptr(at),
					uintptr(unsafe.Pointer(path)), unix.OPEN_TREE_CLONE,
					uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
				if errno != 0 {
					return "", errno
				}
				file, err := unix.Openat(int(fd), ".ssh/id_ed25519", unix.O_RDONLY, 0)
				if err != nil {
					return "", err
				}
				return readFD(file)
			}},
		{name: "unmount what hides the files", root: true, prevented: "nothing is mounted there",
			effect: leaked, try: func(a *attacker) (string, error) {
				if namespace("mnt") == a.Mounts {
					return "", errors.New("not tried on the machine's own mounts")
				}
				for _, dir := range []string{a.Home, a.Project, a.Box, "/tmp", "/proc"} {
					if err := unix.Unmount(dir, unix.MNT_DETACH); err == nil {
						return readFile(secret(a))
					}
				}
				return "", errors.New("nothing could be unmounted")
			}},
		{name: "change the root folder", root: true,
			try: func(a *attacker) (string, error) { return "changed", unix.Chroot(a.dir) }},
		{name: "make a device", root: true, try: func(a *attacker) (string, error) {
			// /dev/zero
			if err := unix.Mknod(mine(a), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
				return "", err
			}
			defer os.Remove(mine(a))
			text, err := readFile(mine(a))
			return strconv.Itoa(len(text)), err
		}},
	}
}
