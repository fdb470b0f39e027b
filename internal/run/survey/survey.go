// Package survey finds out what a new box can be configured with: which agent programs are
// installed and logged in, and what the checks of the project probably are. It writes that into the
// commented configuration of signalbox init.
//
// It starts no program, and it reads only the few files at the top of the project that are named
// here. Whoever wrote those files decides which of the commands in this package are proposed, and
// nothing else: no text of theirs becomes part of the configuration or of an answer.
package survey

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"signalbox/internal/durable"
	"signalbox/internal/run/agent"
)

// Found is what a survey has found.
type Found struct {
	// Agents are the installed agent programs. Those without a missing login come first.
	Agents []agent.Installation
	// Checks and Setup are commands that the project probably has.
	Checks, Setup []Command
}

// Command is a command of a project.
type Command struct {
	Name    string `json:"name"`
	Command string `json:"command"`
	// File is the file that it follows from, and Part what in there; "" if it is the file itself.
	File string `json:"file"`
	Part string `json:"part,omitempty"`
	// Files are those with which a setup command must run again.
	Files []string `json:"-"`
}

// source says what the command follows from.
func (c Command) source() string {
	if c.Part == "" {
		return c.File
	}
	return c.Part + " of " + c.File
}

// Look surveys this machine and the project in a folder.
func Look(dir string) Found {
	p := readProject(dir)
	return Found{Agents: agent.Installed(), Checks: p.checks(), Setup: p.setup()}
}

// project is the text of the files of a project that say something about its checks. A file that is
// there and cannot be read has no text.
type project map[string]string

// The files that are read.
const (
	goModule      = "go.mod"
	cargo         = "Cargo.toml"
	packageJSON   = "package.json"
	pyproject     = "pyproject.toml"
	mvnw          = "mvnw"
	pom           = "pom.xml"
	gradlew       = "gradlew"
	gradle        = "build.gradle"
	gradleKotlin  = "build.gradle.kts"
	mix           = "mix.exs"
	rspec         = ".rspec"
	tox           = "tox.ini"
	pytestINI     = "pytest.ini"
	conftest      = "conftest.py"
	uvLock        = "uv.lock"
	poetryLock    = "poetry.lock"
	packageLock   = "package-lock.json"
	pnpmLock      = "pnpm-lock.yaml"
	yarnLock      = "yarn.lock"
	bunLock       = "bun.lock"
	bunLockBinary = "bun.lockb"
	preCommit     = ".pre-commit-config.yaml"
)

// makefiles are the names of makefiles, in the order in which make looks for them.
var makefiles = []string{"GNUmakefile", "makefile", "Makefile"}

func fileNames() []string {
	return append([]string{goModule, cargo, packageJSON, pyproject, mvnw, pom, gradlew, gradle,
		gradleKotlin, mix, rspec, tox, pytestINI, conftest, uvLock, poetryLock, packageLock, pnpmLock,
		yarnLock, bunLock, bunLockBinary, preCommit}, makefiles...)
}

// maxFile is how many bytes of a file are read. A larger one counts as a file without text, because
// half of it could mean something else.
const maxFile = 1 << 20

// readProject reads the files of a project. It follows no symbolic link out of the folder, and
// waits for no file that is a pipe.
func readProject(dir string) project {
	p := project{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return p
	}
	defer root.Close()
	// The names as they are written: some systems open Makefile as makefile too.
	there, wanted := map[string]bool{}, fileNames()
	top, err := root.Open(".")
	if err != nil {
		return p
	}
	defer top.Close()
	for err == nil {
		var entries []fs.DirEntry
		entries, err = top.ReadDir(1000)
		for _, entry := range entries {
			if slices.Contains(wanted, entry.Name()) {
				there[entry.Name()] = true
			}
		}
	}
	for _, name := range wanted {
		if !there[name] {
			continue
		}
		text, err := readFile(root, name)
		if err == nil || errors.Is(err, errTooLarge) {
			p[name] = text
		}
	}
	return p
}

var errTooLarge = errors.New("the file is too large")

func readFile(root *os.Root, name string) (string, error) {
	file, err := durable.OpenRegularIn(root, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		return "", errTooLarge
	}
	return string(text), err
}
