package cli

import (
	"context"
	"fmt"
	"net"

	"signalbox"
)

// SplitAddress splits an address to listen on. The host is 127.0.0.1 if the address has none.
func SplitAddress(address string) (host, port string, loopback bool, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", false, &signalbox.Error{Code: signalbox.CodeUsage,
			Err:  fmt.Errorf("invalid address %s: %w", address, err),
			Hint: "write host and port, such as 127.0.0.1:8080"}
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
		return nil, &signalbox.Error{Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("cannot listen on %s: %w", address, Cause(err)),
			Hint: "choose another port; port 0 means any free port"}
	}
	return l, nil
}
