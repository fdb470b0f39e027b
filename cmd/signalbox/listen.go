package main

import (
	"context"
	"fmt"
	"net"

	"signalbox"
)

// splitAddress splits an address to listen on. The host is 127.0.0.1 if the address has none.
func splitAddress(address string) (host, port string, loopback bool, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", false, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("invalid address %s: %w", address, err),
			Hint: "write host and port, such as 127.0.0.1:8080"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	return host, port, host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// listen listens on an address that splitAddress split. It warns if other machines can reach it.
func (p *program) listen(ctx context.Context, address, host, port string, loopback bool) (net.Listener, error) {
	l, err := listenOn(ctx, address, host, port)
	if err == nil && !loopback {
		p.warnf("other machines can reach %s, and the connection is not encrypted", host)
	}
	return l, err
}

// listenOn listens on an address that splitAddress split.
func listenOn(ctx context.Context, address, host, port string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot listen on %s: %w", address, cause(err)),
			Hint: "choose another port; port 0 means any free port"}
	}
	return l, nil
}
