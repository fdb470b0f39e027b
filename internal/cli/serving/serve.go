// Package serving has the commands for those who connect to a box: serve, mcp and token.
package serving

import (
	"signalbox/internal/cli"
	"signalbox/internal/cli/web"
)

type ServeCommand struct {
	cli.BoxFlag
	Listen cli.NonEmpty `placeholder:"ADDR" default:"127.0.0.1:7700" help:"The address, such as 127.0.0.1:7700. Without a host it is 127.0.0.1, and without a port 7700; port 0 means any free port."`
	web.AccessFlags
}

func (ServeCommand) Help() string {
	return `Serves the box over HTTP until you press Ctrl-C: a dashboard for people, and an API for programs at /api/v1, with its description at /api/v1/openapi.json and the events of the ledger as a stream at /api/v1/events. docs/how-to/dashboard.md and docs/how-to/api.md describe them. /metrics is for Prometheus, and /mcp serves the clients under mcp.clients in the configuration, if there are any.

You need a login or a token, even on the loopback, because every user and every agent on this machine can reach it. The link that is printed logs a browser in, once; signalbox token link prints another one, and signalbox token create makes a token for a program. The link is printed on a terminal only, not into a file or a system log. With --anonymous-read, everyone on this machine can read without a login. /healthz, /readyz and the page /verify, which checks proofs, are open to everyone and tell nothing about the box.

If other machines can reach the server, the connection is encrypted: with your certificate, or with a self-signed one whose fingerprint is printed.

Examples:

    signalbox serve
    signalbox serve --listen 0.0.0.0:7700 --host box.example.com --tls-cert cert.pem --tls-key key.pem
    signalbox token link
    TOKEN=$(signalbox token create me --scope read)
    curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:7700/api/v1/status`
}

func (c *ServeCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("serve"); err != nil {
		return err
	}
	return web.Serve(p, c.BoxFlag, string(c.Listen), c.AccessFlags)
}
