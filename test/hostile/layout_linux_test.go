package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// layout tells the attacker where everything is: the sandbox must hold although it knows all paths
// and processes.
type layout struct {
	Home    string // the user's
	Project string // the user's checkout
	Git     string // the folder of git
	Box     string
	Key     string // the file with the key that signs the ledger
	Bin     string // a folder on PATH
	Run     string // a folder of sockets, like /run/user/1000
	Shared  string // a folder on a memory file system, like /dev/shm
	Program string // signalbox

	// Part is what the agent does: empty means all attempts.
	Part string

	// Chain is a program that is a chain of processes, and ChainPipe a pipe that all processes of
	// chains keep open.
	Chain, ChainPipe string

	// Alone says that no programs but those of the test run as this user, so that all of them may
	// be attacked together.
	Alone bool

	// Tag marks what belongs to this test.
	Tag string

	Mounts string // the mount namespace of the machine

	Coordinator int // process id of signalbox run
	Bystander   bystander
	Victim      victim

	// KeyHandle names the file with the key for open_by_handle_at.
	KeyHandle     []byte
	KeyHandleType int32

	Stream, Datagram, HomeSocket string // sockets with a path
	Abstract                     string // a socket without one
	AllowedPort, ForbiddenPort   int    // TCP, on 127.0.0.1 and ::1
	DatagramPort                 int    // UDP

	Terminal  string // the terminal of the user
	Terminals map[string]string
}

// bystander is what the attacker knows about a process of the same user.
type bystander struct {
	PID     int
	Nice    int     // its nice value at first
	Address uintptr // of the secret in its memory
	FD      int     // of an open file with the secret that has no name any more
	Memory  int     // System V shared memory with the secret
	Queue   int     // System V message queue
	Key     string  // the name of a key with the secret in the user's keyring
}

// victim is what the attacker knows about another session of the run.
type victim struct {
	PID              int
	Tree, Home, Temp string
	Session          string // its id, which is in its environment
	Socket           string // through which it talks to signalbox
}

// What the agent does instead of making all attempts.
const (
	working    = "working"    // what it should
	hiding     = "hiding"     // it leaves processes behind, and waits
	killing    = "killing"    // it kills what started it
	forking    = "forking"    // it starts as many processes as it can
	allocating = "allocating" // it uses more and more memory
	filling    = "filling"    // it writes more and more files
	chaining   = "chaining"   // it leaves chains of processes behind, and so does the check
)

const layoutName = "layout.json"

// finishName is a file that tells the victim and the critic to end.
const finishName = "finish"

func besideProgram(name string) string { return filepath.Join(filepath.Dir(executable()), name) }

// awaitFile waits until a file exists. There is no event to wait for that all sandboxes let
// through. It gives up only when the test must have ended: the victim waits during the whole
// attack, which takes minutes on a slow machine.
func awaitFile(path string) {
	for deadline := time.Now().Add(30 * time.Minute); time.Now().Before(deadline); time.Sleep(
		5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

func readLayout() (l layout) {
	data, err := os.ReadFile(besideProgram(layoutName))
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		panic(err)
	}
	return l
}
