package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"signalbox/internal/lazy"
)

// Cluster describes a database that the machines of a box run themselves. Only the box's own
// configuration may set it.
type Cluster struct {
	// Node is the name of this machine's node, and Nodes has the address HOST:PORT of every node.
	Node  string            `yaml:"node"`
	Nodes map[string]string `yaml:"nodes"`
	// SecretFile has the secret that all machines of the cluster share. A relative name is relative
	// to the folder of the box.
	SecretFile string `yaml:"secret_file"`
}

// DefaultSecretFile is the default of Cluster.SecretFile.
const DefaultSecretFile = "cluster.secret"

// isSet reports whether the box has a cluster.
func (c *Cluster) isSet() bool { return c.Node != "" || len(c.Nodes) > 0 }

// nodeNames are the names that a node may have.
var nodeNames = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

func (c *Config) checkCluster(f *faults) {
	if !c.Cluster.isSet() {
		return
	}
	at := setting("cluster")
	names := sortedKeys(c.Cluster.Nodes)
	switch n := len(names); {
	case n == 2 || n == 4:
		f.fail(at.field("nodes"), fmt.Sprintf("list %d or %d nodes", n-1, n+1),
			"a cluster of %d nodes survives no more failures than one of %d", n, n-1)
	case n != 1 && n != 3 && n != 5:
		f.fail(at.field("nodes"), "list 1, 3 or 5 nodes", "%d nodes", n)
	case c.Cluster.Nodes[c.Cluster.Node] == "":
		f.fail(at.field("node"), "use one of: "+strings.Join(names, ", "), "no node is called %q",
			c.Cluster.Node)
	}
	if c.Cluster.SecretFile == "" {
		f.fail(at.field("secret_file"), "remove the setting for "+DefaultSecretFile, "empty")
	}
	used := map[string]string{}
	for _, name := range names {
		at := at.field("nodes").field(name)
		if !nodeNames().MatchString(name) {
			f.fail(at, "use letters, digits and hyphens, at most 63",
				"%q is not the name of a node",
				name)
		}
		host, text, err := net.SplitHostPort(c.Cluster.Nodes[name])
		port, portErr := strconv.Atoi(text)
		if err != nil || portErr != nil || host == "" || port < 1 || port > 65534 {
			f.fail(at, "write HOST:PORT, with a port up to 65534", "%q is not an address",
				c.Cluster.Nodes[name])
			continue
		}
		for _, p := range []int{port, port + 1} {
			address := net.JoinHostPort(host, strconv.Itoa(p))
			if other := used[address]; other != "" {
				f.fail(at, "leave the port after each node's port free",
					"port %d is also used by %s: a node uses its port and the next one", p, other)
			}
			used[address] = name
		}
	}
}
