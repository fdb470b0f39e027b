package cli

import (
	"context"
	"net"

	"signalbox"
)

// SplitAddress splits an address to listen on. The host is 127.0.0.1 if the address has none.
func SplitAddress(address string) (host, port string, loopback bool, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", false,
			signalbox.CodeUsage.Errorf("write host and port, such as 127.0.0.1:8080",
				"invalid address %s: %w", address, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	return host, port, host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// Listen listens on an address that SplitAddress split. It warns if other machines can reach it.
func Listen(ctx context.Context, p *Program, address, host, port string,
	loopback bool) (net.Listener, error) {
	l, err := ListenOn(ctx, address, host, port)
	if err == nil && !loopback {
		p.Warnf("other machines can reach %s, and the connection is not encrypted", host)
	}
	return l, err
}

// ListenOn listens on an address that SplitAddress split.
func ListenOn(ctx context.Context, address, host, port string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, signalbox.CodeFailed.Errorf("choose another port; port 0 means any free port",
			"cannot listen on %s: %w", address, Cause(err))
	}
	return l, nil
}
