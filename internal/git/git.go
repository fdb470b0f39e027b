// Package git runs the git program on a repository that agents can write to.
//
// Git runs commands that its configuration names: filters, hooks, helpers, drivers. An agent that
// can write to a worktree and to the repository's git folder can name commands in many places, and
// there are more in each release of git. So git must not read any of them:
//
//   - Git is not started with the repository's git folder as the common folder of its worktrees,
//     but with a view of it: a folder with
//     a configuration of our own and symbolic links to the objects, the refs and the list of worktrees (see UseView). The
//     repository's config, config.worktree, hooks, info, modules and whatever else is there has no effect.
//   - From the user's configuration git gets only the few settings that Locate selects. None of
//     them names a command.
//   - Git gets the git folder of a worktree from the caller, and does not look for one. So a file
//     .git that an agent replaced, and a
//     bare repository in a worktree, have no effect.
//   - Git does not write through links in the git folders, with which an agent could make it write
//     to files elsewhere.
//   - Git does not wait for the other end of a pipe in place of a file that it reads, and is ended
//     if it takes too long.
//   - Git cannot start another program by name. In particular it cannot start another git in a
//     nested repository or a submodule,
//     which would read the configuration there. See Call.Helpers and Call.Network for the exceptions.
//
// Attributes come from files in the worktree or in the commit. They can name a filter or a driver,
// but nothing defines one.
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Repository is a git repository on this machine.
type Repository struct {
	// Root is the worktree that contains the folder given to Locate, and Dir is its git folder.
	Root, Dir string
	// Common is the git folder that all worktrees of the repository share.
	Common string
	// Identity reports whether the user has configured a name and an address.
	Identity bool
	// Filters are the names of the filters that the configuration defines, and that are not run.
	Filters []string
	// Remotes are the addresses of the remote repositories that the configuration names.
	Remotes map[string]string
	// Settings are additional settings for every git, such as user.name=x.
	Settings []string
	// Limit is how long one git may run; zero means ten minutes.
	Limit time.Duration

	program      string
	ownSSH       bool // the user's configuration has a command for ssh
	objectFormat string
	refFormat    string
	sparse       []string // settings for a person's own worktrees
	view         string
	config       string // the content of the view's config
}

// Errors of Locate.
var (
	ErrNotInstalled  = errors.New("git is not installed")
	ErrNotRepository = errors.New("not in a git repository")
	ErrBare          = errors.New("a bare git repository")
	ErrInside        = errors.New("inside git's own folder")
	ErrOwner         = errors.New("the git repository belongs to another user")
)

// Errors of Run that a file in a worktree can cause.
var (
	ErrSpecialFile = errors.New("not a regular file")
	ErrTooLong     = errors.New("git took too long")
)

// defaultLimit is how long git may run. A checkout of a million files takes a few minutes.
const defaultLimit = 10 * time.Minute

// Locate finds the repository around a folder. The caller must call UseView before Run.
func Locate(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{}
	if err := r.findProgram(ctx); err != nil {
		return nil, err
	}
	// This git and readSettings read the repository's configuration, because nothing else knows
	// where the repository is. rev-parse and config run no commands that it names.
	out, stderr, err := r.inspect(ctx, dir, "rev-parse", "--is-bare-repository",
		"--absolute-git-dir", "--git-common-dir", "--show-object-format", "--show-toplevel")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil && len(lines) == 5:
	case strings.Contains(stderr, "dubious ownership"):
		return nil, ErrOwner
	case lines[0] == "true":
		return nil, ErrBare
	case errors.As(err, &exit) && exit.ExitCode() == 128 && lines[0] == "":
		return nil, ErrNotRepository
	case errors.As(err, &exit) && exit.ExitCode() == 128:
		return nil, ErrInside
	case err == nil:
		return nil, fmt.Errorf("git rev-parse: unexpected %q", out)
	default:
		return nil, fmt.Errorf("git rev-parse: %w: %s", err, strings.TrimSpace(stderr))
	}
	r.Dir, r.Common, r.objectFormat, r.Root = filepath.FromSlash(lines[1]),
		filepath.FromSlash(lines[2]), lines[3], filepath.FromSlash(lines[4])
	if !filepath.IsAbs(r.Common) {
		r.Common = filepath.Join(dir, r.Common)
	}
	// as git writes it in the worktrees
	if r.Common, err = filepath.EvalSymlinks(r.Common); err == nil {
		r.Common, err = filepath.Abs(r.Common)
	}
	if err != nil {
		return nil, err
	}
	if err := r.checkLinks(); err != nil {
		return nil, err
	}
	return r, r.readSettings(ctx, dir)
}

// checkLinks checks that the worktree, its git folder and the common folder belong together. An
// agent could have set core.worktree, or written a file commondir, to make us write files
// elsewhere.
func (r *Repository) checkLinks() error {
	dir, err := r.DirOf(r.Root)
	if err == nil && !sameFile(dir, r.Dir) {
		err = fmt.Errorf("its git folder is %s", dir)
	}
	if err != nil {
		return fmt.Errorf("the git folder %s names the worktree %s, which is not its own (see core.worktree in its config): %w", r.Dir, r.Root, err)
	}
	return nil
}

// DirOf returns the git folder of a worktree of this repository, or an error if the worktree
// belongs to another. It trusts neither the file .git in the worktree nor the file in the git
// folder that names the worktree: they must name each other.
func (r *Repository) DirOf(worktree string) (string, error) {
	dir, err := DirOf(worktree)
	if err != nil {
		return "", err
	}
	if sameFile(dir, r.Common) {
		return dir, nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	if !info.IsDir() || parent != filepath.Join(r.Common, "worktrees") ||
		WorktreeOf(dir) != worktree && !sameFile(WorktreeOf(dir), worktree) {
		return "", fmt.Errorf("%s is not a worktree of %s", worktree, r.Common)
	}
	return dir, nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// DirOf returns the git folder that the .git in a worktree names.
func DirOf(worktree string) (string, error) {
	if worktree == "" {
		return "", os.ErrNotExist
	}
	name := filepath.Join(worktree, ".git")
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return name, nil
	}
	text, err := readSmall(name)
	if err != nil {
		return "", err
	}
	target, found := strings.CutPrefix(strings.TrimSpace(text), "gitdir: ")
	if !found {
		return "", fmt.Errorf("%s does not name a git folder", name)
	}
	target = filepath.FromSlash(target)
	if !filepath.IsAbs(target) {
		target = filepath.Join(worktree, target)
	}
	return target, nil
}

// WorktreeOf returns the worktree that a git folder names in its file gitdir, or "" if that cannot
// be read.
func WorktreeOf(dir string) string {
	text, err := readSmall(filepath.Join(dir, "gitdir"))
	if err != nil {
		return ""
	}
	link := filepath.FromSlash(strings.TrimSpace(text))
	if !filepath.IsAbs(link) {
		link = filepath.Join(dir, link)
	}
	return filepath.Dir(link)
}

// Worktree translates the path of a worktree that git printed. Git takes the view for the main
// worktree.
func (r *Repository) Worktree(name string) string {
	name = filepath.FromSlash(name)
	switch {
	case name != r.view:
		return name
	case sameFile(r.Dir, r.Common):
		return r.Root
	case filepath.Base(r.Common) == ".git":
		return filepath.Dir(r.Common)
	}
	return r.Common
}

// findProgram finds the git binary. The one in PATH may be a script, which would need PATH itself.
func (r *Repository) findProgram(ctx context.Context) error {
	program, err := exec.LookPath("git")
	if err != nil {
		return ErrNotInstalled
	}
	r.program = program
	if runtime.GOOS == "windows" {
		return nil
	}
	var out bytes.Buffer
	if err := r.run(ctx, &exec.Cmd{Args: []string{program, "--exec-path"}, Env: environment(),
		Stdout: &out}); err != nil {
		return fmt.Errorf("git --exec-path: %w", err)
	}
	binary := filepath.Join(filepath.FromSlash(strings.TrimSpace(out.String())),
		filepath.Base(program))
	if info, err := os.Stat(binary); err == nil && info.Mode().IsRegular() {
		r.program = binary
	}
	return nil
}

// waitDelay is how long to wait for the output of a git that was ended.
const waitDelay = 5 * time.Second

// inspect runs git on the repository itself, not on the view.
func (r *Repository) inspect(ctx context.Context, dir string,
	args ...string) (out, stderr string, err error) {
	var outText, errText bytes.Buffer
	err = r.run(ctx, &exec.Cmd{Args: slices.Concat([]string{r.program}, options(nil), args),
		Dir: dir,
		Env: append(environment(), withoutHelpers()...), Stdout: &outText, Stderr: &errText})
	return outText.String(), errText.String(), err
}

// run runs a command within the limit.
func (r *Repository) run(ctx context.Context, c *exec.Cmd) error {
	limit := cmp.Or(r.Limit, defaultLimit)
	within, cancel := context.WithTimeoutCause(ctx, limit, ErrTooLong)
	defer cancel()
	cmd := exec.CommandContext(within, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = c.Dir, c.Env, c.Stdin,
		c.Stdout, c.Stderr, c.ExtraFiles
	cmd.WaitDelay = waitDelay
	if runtime.GOOS != "windows" { // which has no signals
		// so that git removes its locks
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	}
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return fmt.Errorf("%w: it was ended after %s", ErrTooLong, limit)
	}
	return err
}

// fixed are settings for every git: no hooks, signatures, prompts and programs, no background work
// that outlives the call, and no caches in the repository that an agent could have written. The
// configuration of the view has none of these commands anyway.
var fixed = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.pager=cat", "core.editor=true",
	"core.askPass=true",
	"core.untrackedCache=false", "core.commitGraph=false", "core.multiPackIndex=false",
	"core.quotePath=false",
	"commit.gpgSign=false", "tag.gpgSign=false", "log.showSignature=false", "gc.auto=0",
	"maintenance.auto=false",
	"submodule.recurse=false", "diff.ignoreSubmodules=dirty", "status.submoduleSummary=false",
	"fetch.recurseSubmodules=false",
	"protocol.allow=never", "advice.detachedHead=false",
}

// network are settings for a git that talks to another repository. An address such as ext::COMMAND
// would run a command.
var network = []string{
	"protocol.https.allow=always", "protocol.http.allow=always", "protocol.ssh.allow=always",
	"protocol.file.allow=always", "protocol.ext.allow=never",
	"push.gpgSign=false", "push.followTags=false", "push.recurseSubmodules=no", "fetch.prune=false",
	"fetch.pruneTags=false", "fetch.writeCommitGraph=false",
}

// networkVariables returns the user's variables with which git logs in. If no variable or setting
// names an ssh program, ssh must not ask on the terminal: no one may be there, and a run shows its
// screen there.
func (r *Repository) networkVariables() (kept []string) {
	_, program := os.LookupEnv("GIT_SSH")
	if _, command := os.LookupEnv("GIT_SSH_COMMAND"); !command && !program && !r.ownSSH {
		kept = append(kept, "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
	}
	for _, name := range []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS",
		"GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY",
		"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"} {
		if value, set := os.LookupEnv(name); set {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// ours are settings for our own worktrees: all files of a commit are checked out, and all changes
// are seen.
var ours = []string{"core.sparseCheckout=false", "core.checkStat=default", "core.ignoreStat=false",
	"core.trustctime=true"}

func options(settings []string) (args []string) {
	for _, setting := range slices.Concat(fixed, settings) {
		args = append(args, "-c", setting)
	}
	return args
}

// environment returns the environment of this process without variables that point git elsewhere or
// change its language. It also disables git replace, with which an agent could substitute one
// commit for another.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		name := strings.ToUpper(variable)
		if !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_ALL=") &&
			!strings.HasPrefix(name, "LANGUAGE=") {
			kept = append(kept, variable)
		}
	}
	return append(kept, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_EDITOR=true", "GIT_PAGER=cat")
}

// withoutHelpers returns variables with which git finds no program to start. The folder that they
// name cannot exist. On Windows, where agents do not run, git finds its own libraries through PATH.
func withoutHelpers() []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	none := filepath.Join(os.DevNull, "none")
	return []string{"PATH=" + none, "GIT_EXEC_PATH=" + none}
}

// Call is one run of git.
type Call struct {
	// Worktree is the folder that git runs in, and Dir is its git folder.
	Worktree, Dir string
	Args          []string
	// Env is added to the environment.
	Env []string
	// Ours reports that no person works in the worktree.
	Ours bool
	// Helpers lets git start other programs: git worktree and git bundle start other gits, in this
	// repository only.
	Helpers bool
	// Network lets git talk to another repository. It starts the programs for that, and reads the
	// configuration of the user and the system, with which git logs in. The repository's own
	// configuration and its hooks have no effect. An address cannot name a command.
	Network bool
	// NoAttributes keeps git from using the attributes of the user and the system. Those of the
	// repository are in Worktree and in its index.
	NoAttributes bool
	// Stdin is git's input, and Stdout and Stderr receive its output; nil discards it.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Inherit are open files that git inherits.
	Inherit []*os.File
}

// Run runs git. It repairs the view if somebody has changed it. An error of git itself is an
// *exec.ExitError. ErrSpecialFile means that git was not run, because it would have waited for a
// file, and ErrTooLong that it was ended.
func (r *Repository) Run(ctx context.Context, c Call) error {
	if err := r.repairView(); err != nil {
		return fmt.Errorf("prepare git: %w", err)
	}
	if err := r.checkFiles(c); err != nil {
		return err
	}
	settings := slices.Concat(r.Settings, r.sparse)
	if c.Ours {
		settings = slices.Concat(r.Settings, ours)
	}
	env := append(environment(), "GIT_DIR="+c.Dir, "GIT_WORK_TREE="+c.Worktree, "GIT_COMMON_DIR="+
		r.view)
	if c.Network {
		settings = slices.Concat(settings, network)
		env = append(env, r.networkVariables()...)
	} else {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	}
	if c.NoAttributes {
		settings = append(settings, "core.attributesFile="+os.DevNull)
		env = append(env, "GIT_ATTR_NOSYSTEM=1")
	}
	if !c.Helpers && !c.Network {
		env = append(env, withoutHelpers()...)
	}
	return r.run(ctx, &exec.Cmd{Args: slices.Concat([]string{r.program}, options(settings), c.Args),
		Dir: c.Worktree, Env: append(env, c.Env...),
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, ExtraFiles: c.Inherit})
}

// Init creates an empty repository in a folder, without anything that a template of the user has.
// sha256 is the format of its commits.
func Init(ctx context.Context, dir string, sha256 bool) error {
	r := &Repository{}
	if err := r.findProgram(ctx); err != nil {
		return err
	}
	format := "sha1"
	if sha256 {
		format = "sha256"
	}
	if _, stderr, err := r.inspect(ctx, dir, "init", "--quiet", "--template=", "--object-format="+
		format); err != nil {
		return fmt.Errorf("git init: %w: %s", err, strings.TrimSpace(stderr))
	}
	return nil
}
