package contain

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/durable"
	"signalbox/internal/process"
)

// readSystem allows reading the system, the folders on PATH, and certificates.
func (b *builder) readSystem() {
	folders := slices.Clone(systemFolders)
	if runtime.GOOS == "darwin" {
		folders = append(folders, "/System", "/Library", "/Applications", "/private/etc",
			"/private/var/db/timezone")
	}
	if b.Root {
		folders = append(folders, publicEtc()...)
	} else {
		folders = append(folders, "/etc")
	}
	if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		folders = append(folders, target)
	}
	b.grant("the system", false, folders) // a home folder in one of them is hidden
	onPath := slices.DeleteFunc(b.pathFolders(), func(folder string) bool {
		return slices.ContainsFunc(folders,
			func(system string) bool { return within(folder, system) })
	})
	for _, folder := range onPath {
		if prefixMarks[filepath.Base(folder)] != nil { // it has programs only
			b.read("folders on PATH", folder)
		} else {
			b.read("folders on PATH", withoutLogins(folder)...)
		}
		b.read("toolchains", b.prefixes(folder)...)
	}
	for _, name := range certificates {
		b.read("certificates", process.Getenv(b.Environ, name))
	}
}

// publicEtc returns the parts of /etc that every user may read. Root owns the others, such as
// shadow, and could read them even without its capabilities.
var publicEtc = sync.OnceValue(func() []string { return publicParts("/etc") })

// publicParts returns the folder if every user may read all of it, and otherwise the parts of it
// that every user may read.
func publicParts(folder string) []string {
	paths, all := publicIn(folder, 0)
	if all {
		return []string{folder}
	}
	return paths
}

// maxPublicDepth bounds how deep publicIn looks. What is deeper is left out.
const maxPublicDepth = 8

func publicIn(folder string, depth int) (paths []string, all bool) {
	entries, err := os.ReadDir(folder)
	if err != nil || depth > maxPublicDepth {
		return nil, false
	}
	all = true
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		info, err := entry.Info()
		if err != nil {
			all = false
			continue
		}
		switch mode := info.Mode(); {
		case mode.Type() == fs.ModeSymlink: // a policy allows what a link leads to
			if isPublicLink(name) {
				paths = append(paths, name)
			}
		case mode.IsDir() && mode.Perm()&0o005 == 0o005:
			inner, whole := publicIn(name, depth+1)
			if whole {
				inner = []string{name}
			}
			paths, all = append(paths, inner...), all && whole
		case mode.IsRegular() && mode.Perm()&0o004 != 0:
			paths = append(paths, name)
		default:
			all = false
		}
	}
	return paths, all
}

// isPublicLink reports whether a link leads to a part of the system that may be read as a whole, or
// to a file that every user may read.
func isPublicLink(name string) bool {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	info, err := os.Stat(target)
	if err != nil || within(target, "/proc") || info.Mode().Perm()&0o004 == 0 {
		return false
	}
	return info.Mode().IsRegular() ||
		slices.ContainsFunc(systemFolders,
			func(folder string) bool { return within(target, folder) })
}

// systemFolders are folders of the system that may be read as a whole.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
	"/nix", "/gnu", "/sys", "/var/lib/ca-certificates"}

// readProgram allows reading the installation of a program, and files that its arguments name.
func (b *builder) readProgram(argv []string, dir string, environ []string) {
	if len(argv) == 0 {
		return
	}
	// A link in the working copy is not followed: an agent may have made it.
	if file, err := process.Find(argv[0], dir, environ); err == nil && !within(file, dir) {
		b.read("the program", b.installation(file, environ, 0)...)
	}
	for _, argument := range argv[1:] {
		_, value, assigned := strings.Cut(argument, "=")
		if strings.HasPrefix(argument, "-") && assigned {
			argument = value
		}
		if !filepath.IsAbs(argument) && strings.HasPrefix(argument, "..") {
			argument = filepath.Join(dir, argument)
		}
		if filepath.IsAbs(argument) && !within(argument, dir) {
			b.read("files that its command names", argument)
		}
	}
}

// maxInterpreters bounds how many interpreters of interpreters are looked at.
const maxInterpreters = 4

// installation returns the folders that a program needs to run: those of the file and of what it
// links to, the packages around it, and the same for the interpreter of a script.
func (b *builder) installation(file string, environ []string, depth int) []string {
	paths := []string{file}
	resolved, err := filepath.EvalSymlinks(file)
	if err != nil {
		return paths
	}
	paths = append(paths, withoutLogins(b.installationFolder(resolved))...)
	if depth == maxInterpreters {
		return paths
	}
	if interpreter, err := process.Find(interpreterOf(resolved), "/", environ); err == nil {
		paths = append(paths, b.installation(interpreter, environ, depth+1)...)
	}
	return paths
}

// installationFolder returns the folder that a program was installed in. If that is not clear, it
// is the program itself.
func (b *builder) installationFolder(file string) string {
	const packages = "/node_modules/"
	if root, _, found := strings.Cut(file, packages); found {
		return root + strings.TrimSuffix(packages, "/")
	}
	folder := filepath.Dir(file)
	if prefix := filepath.Dir(folder); filepath.Base(folder) == "bin" && !b.isShared(prefix) &&
		!b.isShared(folder) && !b.isParted(prefix) {
		return prefix
	}
	if b.isShared(folder) {
		return file
	}
	return folder
}

// isShared reports whether a folder has more in it than one program needs.
func (b *builder) isShared(folder string) bool {
	return b.containsPrivate(folder) || within(b.Project, folder) ||
		folder == filepath.Clean(os.TempDir()) ||
		slices.Contains([]string{".local", ".config", ".cache"}, filepath.Base(folder))
}

// interpreterOf returns the interpreter of a file, "" if the file is not a script.
func interpreterOf(file string) string {
	f, err := durable.OpenRegular(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	return Interpreter(f)
}

// Interpreter returns the program that the first line of a script names, "" if it names none.
func Interpreter(script io.Reader) string {
	line, _ := bufio.NewReaderSize(script, 512).ReadSlice('\n')
	command, ok := bytes.CutPrefix(line, []byte("#!"))
	words := strings.Fields(string(command))
	if ok && len(words) > 0 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:],
			func(word string) bool { return strings.HasPrefix(word, "-") || strings.Contains(word, "=") })
	}
	if !ok || len(words) == 0 {
		return ""
	}
	return words[0]
}
