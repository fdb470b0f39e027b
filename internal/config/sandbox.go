package config

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/sandbox"
)

// Values of Network that are not ports.
const (
	NetworkOn   = "on"
	NetworkNone = "none"
	// NetworkModel is the server in base_url of an agent, and nothing else.
	NetworkModel = "model"
)

// Sandbox is what programs may do on this machine, besides what they always may. In the text it is
// a group of settings, or only a mode.
type Sandbox struct {
	// Mode is empty for an agent, a check or a tool without a mode of its own.
	Mode    sandbox.Mode `yaml:"mode"`
	Network Network      `yaml:"network"`
	// Processes is what must become of processes that a program leaves behind. It is empty like
	// Mode.
	Processes sandbox.Processes `yaml:"processes"`
	// Read are files and folders that may be read, and Write those that may also be changed. In the
	// text they are relative to the project, which is the folder that contains the box, or to the
	// home folder if they begin with ~/. Load resolves them.
	Read  []string `yaml:"read"`
	Write []string `yaml:"write"`
}

// mainField returns the field that a single value sets.
func (Sandbox) mainField() string { return "mode" }

// Network is NetworkOn, NetworkNone, NetworkModel or TCP ports. In the text a single value need
// not be in a list. Empty means that it is not set.
type Network []string

// Policy returns what the network setting means for a program. NetworkModel means none: see
// Agent.Server for the server.
func (n Network) Policy() (p sandbox.Network) {
	for _, item := range n {
		switch port, err := strconv.ParseUint(item, 10, 16); {
		case item == NetworkNone, item == NetworkModel:
			p.Off = true
		case err == nil:
			p.Ports = append(p.Ports, uint16(port))
		}
	}
	return p
}

// serverName matches names of hosts as programs look them up.
var serverName = lazy.Regexp(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*)$`)

// Server returns the server in base_url. ok is false if there is none, and if a program's network
// cannot be limited to it, because its name is not ASCII or its address is one of a particular
// interface.
func (a Agent) Server() (server sandbox.Server, ok bool) {
	u, err := url.Parse(a.BaseURL)
	if err != nil || u.Hostname() == "" {
		return sandbox.Server{}, false
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port, err := strconv.ParseUint(orDefault(u.Port(), usual), 10, 16)
	if err != nil || port == 0 {
		return sandbox.Server{}, false
	}
	address, noAddress := netip.ParseAddr(u.Hostname())
	if address.Zone() != "" || noAddress != nil && !serverName().MatchString(u.Hostname()) {
		return sandbox.Server{}, false
	}
	return sandbox.Server{Scheme: u.Scheme, Host: u.Hostname(), Port: uint16(port)}, true
}

// SandboxOf returns the settings of a program that has settings of its own: its mode, network and
// processes count before the general ones, and its files are added to the general ones.
func (c *Config) SandboxOf(own Sandbox) Sandbox {
	all := Sandbox{Mode: orDefault(own.Mode, c.Sandbox.Mode), Network: own.Network,
		Processes: orDefault(own.Processes, c.Sandbox.Processes),
		Read:      slices.Concat(c.Sandbox.Read, own.Read),
		Write:     slices.Concat(c.Sandbox.Write, own.Write)}
	if len(all.Network) == 0 {
		all.Network = c.Sandbox.Network
	}
	return all
}

// sandboxes returns all sandbox settings of the configuration. They share their lists with it.
func (c *Config) sandboxes() map[settingPath]Sandbox {
	all := map[settingPath]Sandbox{setting("sandbox"): c.Sandbox}
	for name, a := range c.Agents {
		all[setting("agents", name, "sandbox")] = a.Sandbox
	}
	for i, check := range c.Checks {
		all[setting("checks").item(i).field("sandbox")] = check.Sandbox
	}
	for i, s := range c.Setup {
		all[setting("setup").item(i).field("sandbox")] = s.Sandbox
	}
	for name, t := range c.Oracle.Tools {
		all[setting("oracle", "tools", name, "sandbox")] = t.Sandbox
	}
	return all
}

// SandboxPath is a path that a sandbox setting allows.
type SandboxPath struct{ Setting, Path string }

// SandboxPaths returns the paths that sandbox settings allow, in the order of the names of the
// settings.
func (c *Config) SandboxPaths() (paths []SandboxPath) {
	all := c.sandboxes()
	for _, at := range sortedKeys(all) {
		for _, name := range all[at].Read {
			paths = append(paths, SandboxPath{at.field("read").String(), name})
		}
		for _, name := range all[at].Write {
			paths = append(paths, SandboxPath{at.field("write").String(), name})
		}
	}
	return paths
}

func (c *Config) checkSandboxes(f *faults) {
	all := c.sandboxes()
	for _, at := range sortedKeys(all) {
		s := all[at]
		s.Network.check(at.field("network"), f)
		if slices.Contains(s.Network, NetworkModel) && !c.hasServer(at) {
			f.fail(at.field("network"), "write on, none, or ports such as [443, 8443]; "+
				"with base_url, agents that review have it by default",
				"model is only valid for an agent with base_url")
		}
		for _, paths := range []struct {
			name  string
			paths []string
		}{{"read", s.Read}, {"write", s.Write}} {
			for i, name := range paths.paths {
				f.add(checkSandboxPath(at.field(paths.name).item(i), name))
			}
		}
	}
	checkEnvPass(setting("env_pass"), c.EnvPass, f)
	for _, name := range sortedKeys(c.Agents) {
		f.add(c.checkServer(name))
		checkEnvPass(setting("agents", name, "env_pass"), c.Agents[name].EnvPass, f)
	}
	for i, check := range c.Checks {
		checkEnvPass(setting("checks").item(i).field("env_pass"), check.EnvPass, f)
	}
	for i, s := range c.Setup {
		checkEnvPass(setting("setup").item(i).field("env_pass"), s.EnvPass, f)
	}
	for _, name := range sortedKeys(c.Oracle.Tools) {
		checkEnvPass(setting("oracle", "tools", name, "env_pass"), c.Oracle.Tools[name].EnvPass, f)
	}
}

// hasServer reports whether settings are those of an agent with base_url.
func (c *Config) hasServer(at settingPath) bool {
	for name, a := range c.Agents {
		if a.BaseURL != "" && at == setting("agents", name, "sandbox") {
			return true
		}
	}
	return false
}

// checkServer reports an agent whose network, by a setting or by default, is a server that it
// cannot be limited to.
func (c *Config) checkServer(name string) *settingError {
	a := c.Agents[name]
	at, own := setting("agents", name, "base_url"), c.SandboxOf(a.Sandbox)
	if a.BaseURL == "" || checkAddress(at, a.BaseURL) != nil || own.Mode == sandbox.Off {
		return nil
	}
	if len(own.Network) > 0 && own.Network[0] != NetworkModel {
		return nil
	}
	if _, ok := a.Server(); ok {
		return nil
	}
	return faultAt(at,
		"write its name in ASCII (xn--...), or its IP address without a zone, and a valid port; or set sandbox.network of the agent to on",
		"the network of the agent cannot be limited to this server")
}

func (n Network) check(at settingPath, f *faults) {
	for i, item := range n {
		port, err := strconv.ParseUint(item, 10, 16)
		switch word := item == NetworkOn || item == NetworkNone || item == NetworkModel; {
		case word && len(n) > 1:
			f.fail(at.item(i), "write "+item+", or only ports",
				"%s cannot be combined with other values", item)
		case !word && (err != nil || port == 0):
			f.fail(at.item(i), "write on, none, model, or ports such as [443, 8443]",
				"%q is not on, none, model or a TCP port", item)
		}
	}
}

func checkSandboxPath(at settingPath, name string) *settingError {
	const hint = "write the path of a file or a folder; ~/ is your home folder"
	switch {
	case strings.TrimSpace(name) == "":
		return faultAt(at, hint, "must not be empty")
	case strings.HasPrefix(name, "~") && name != "~" && !strings.HasPrefix(name, "~/"):
		return faultAt(at, hint, "%q is the home folder of another user", name)
	}
	return nil
}

// checkEnvPass checks names of environment variables, which may end with a star.
func checkEnvPass(at settingPath, names []string, f *faults) {
	for i, name := range names {
		plain := strings.TrimSuffix(name, "*")
		switch {
		case strings.HasPrefix(strings.ToUpper(name), "SIGNALBOX_"):
			f.fail(at.item(i), "remove it: programs do not get these",
				"%q is a variable of signalbox itself", name)
		case name == "" || strings.ContainsAny(plain, "= \t\r\n\x00*"):
			f.fail(at.item(i), "write a name such as GITHUB_TOKEN, or the beginning of names and a star, such as AWS_*; put values under env", "%q is not the name of an environment variable", name)
		}
	}
}

// resolveSandboxes makes the paths of the sandbox settings absolute. base returns the folder that
// those of a setting begin at.
func (c *Config) resolveSandboxes(base func(settingPath) string, f *faults) {
	all := c.sandboxes()
	for _, at := range sortedKeys(all) {
		for name, paths := range map[string][]string{"read": all[at].Read, "write": all[at].Write} {
			for i := range paths {
				resolved, err := expandHome(paths[i])
				if err == nil {
					resolved, err = filepath.Abs(resolvePath(base(at.field(name).item(i)),
						resolved))
				}
				if err != nil {
					f.fail(at.field(name).item(i), "write an absolute path", "%s", err.Error())
				}
				paths[i] = resolved
			}
		}
	}
}

func expandHome(name string) (string, error) {
	rest, below := strings.CutPrefix(name, "~")
	if !below {
		return name, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

// Size is a number of bytes. In the text it is written like 512MB or 4GB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String returns the size with the largest unit in which it is a whole number.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseSize(text string) (Size, bool) {
	number, factor := strings.ReplaceAll(text, "_", ""), int64(1)
	for _, unit := range sizeUnits {
		if n, found := cutSuffixFold(number, unit.name); found {
			number, factor = strings.TrimSpace(n), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor || !digits(number) {
		return 0, false
	}
	return Size(n * factor), true
}

func cutSuffixFold(text, suffix string) (string, bool) {
	at := len(text) - len(suffix)
	if at < 0 || !strings.EqualFold(text[at:], suffix) {
		return text, false
	}
	return text[:at], true
}

// Cores is a number of processor cores, in thousandths. In the text it is written like 2 or 1.5.
type Cores int

func (c Cores) String() string { return strconv.FormatFloat(float64(c)/1000, 'f', -1, 64) }

func parseCores(text string) (Cores, bool) {
	whole, fraction, point := strings.Cut(text, ".")
	if !digits(whole) || point && !digits(fraction) || len(fraction) > 3 || len(whole) > 5 {
		return 0, false
	}
	n, err := strconv.Atoi(whole + fraction + strings.Repeat("0", 3-len(fraction)))
	return Cores(n), err == nil
}

// The least that a program can work with.
const (
	minMemory = 16e6
	minTree   = 1e6
	minFile   = 1e3 // probably the unit is missing
	minCores  = 10
)

func (l Limits) checkResources(f *faults) {
	at := setting("limits")
	for _, size := range []struct {
		name       string
		set, least Size
	}{{"memory", l.Memory, minMemory}, {"tree", l.Tree, minTree}, {"file", l.File, minFile}} {
		if size.set != 0 && size.set < size.least {
			f.fail(at.field(size.name), "write a size such as 4GB, or 0 for no limit",
				"%s is less than %s", size.set, size.least)
		}
	}
	if l.Processes < 0 || l.Processes > maxLimit {
		f.fail(at.field("processes"), fmt.Sprintf("write a number such as %d, or 0 for no limit",
			sandbox.DefaultProcesses), "%d is not between 0 and %d", l.Processes, maxLimit)
	}
	if l.CPU != 0 && l.CPU < minCores {
		f.fail(at.field("cpu"), "write a number of cores such as 1.5, or 0 for no limit",
			"%s is less than %s", l.CPU, Cores(minCores))
	}
}

// Resources returns the limits of the resources that a program may use.
func (l Limits) Resources() sandbox.Limits {
	return sandbox.Limits{Memory: int64(l.Memory), Processes: l.Processes, CPU: int(l.CPU)}
}
