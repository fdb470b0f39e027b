package process

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/sandbox"
)

// proxyFor returns the proxy that an environment names for a server, nil if none is for it.
func proxyFor(server *sandbox.Server, env []string) (*url.URL, error) {
	get := func(name string) string {
		return cmp.Or(Getenv(env, name), Getenv(env, strings.ToLower(name)))
	}
	name := strings.ToUpper(server.Scheme) + "_PROXY"
	value := get(name)
	if value == "" {
		name, value = "ALL_PROXY", get("ALL_PROXY")
	}
	if value == "" || isExempt(server, get("NO_PROXY")) {
		return nil, nil
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	proxy, err := url.Parse(value)
	if err != nil || proxy.Hostname() == "" || proxy.Scheme != "http" && proxy.Scheme != "https" {
		// Without the value, which may have a password.
		err := fmt.Errorf("the proxy in %s cannot be used for %s: it is not an http:// or https:// address",
			name, server.Address())
		hint := "correct it, add " + server.Host + " to NO_PROXY, or set network: on for the agent"
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: hint}
	}
	return proxy, nil
}

// isExempt reports whether a server needs no proxy: this machine, and what the list names. It has
// domains, with everything below them, IP addresses and ranges of them, each with or without a
// port, or a star for all.
func isExempt(server *sandbox.Server, list string) bool {
	host := strings.ToLower(strings.TrimSuffix(server.Host, "."))
	address, _ := netip.ParseAddr(host) // the zero address for a name
	address = address.Unmap()
	if host == "localhost" || address.IsLoopback() || address.IsUnspecified() {
		return true
	}
	for item := range strings.SplitSeq(strings.ToLower(list), ",") {
		item = strings.TrimSpace(item)
		if name, port, err := net.SplitHostPort(item); err == nil {
			if port != fmt.Sprint(server.Port) {
				continue
			}
			item = name
		}
		item = strings.Trim(item, "[]")
		if item == "*" {
			return true
		}
		if !address.IsValid() {
			domain := strings.TrimPrefix(strings.TrimPrefix(item, "*"), ".")
			if domain != "" && (host == domain || strings.HasSuffix(host, "."+domain)) {
				return true
			}
			continue
		}
		if other, err := netip.ParseAddr(item); err == nil && other.Unmap() == address {
			return true
		}
		if network, err := netip.ParsePrefix(item); err == nil && network.Contains(address) {
			return true
		}
	}
	return false
}

// dialThrough connects to an address, through a proxy if that is not nil.
func dialThrough(ctx context.Context, proxy *url.URL, address string) (halfConn, error) {
	if proxy == nil {
		return dialTCP(ctx, address)
	}
	port := cmp.Or(proxy.Port(), map[string]string{"http": "80", "https": "443"}[proxy.Scheme])
	conn, err := dialTCP(ctx, net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("the proxy: %w", err)
	}
	if proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = openTunnel(conn, proxy.User, address)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the proxy %s: %w", proxy.Host, err)
	}
	return conn, nil
}

func dialTCP(ctx context.Context, address string) (halfConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// maxAnswer bounds the answer of a proxy.
const maxAnswer = 64 << 10

// openTunnel asks a proxy to connect to an address.
func openTunnel(conn net.Conn, user *url.Userinfo, address string) error {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if user != nil {
		password, _ := user.Password()
		login := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		request += "Proxy-Authorization: Basic " + login + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	response, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", response.Status)
	case in.Buffered() > 0:
		return errors.New("it sends data that nobody asked for")
	}
	return nil
}
