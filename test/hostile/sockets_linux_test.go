package hostile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketAttempts are attempts to reach other programs of the machine without the network.
func socketAttempts() []attempt {
	dial := func(name, kind string, address func(*attacker) string) attempt {
		return attempt{name: "connect to " + name, effect: arrived,
			try: func(a *attacker) (string, error) {
				connection, err := net.Dial(kind, address(a))
				if err != nil {
					return "", err
				}
				_, err = connection.Write([]byte(a.mark() + "\n"))
				return "sent", errors.Join(err, connection.Close())
			}}
	}
	return []attempt{
		dial("a socket in a folder of sockets", "unix",
			func(a *attacker) string { return a.Stream }),
		dial("a socket in the home folder", "unix",
			func(a *attacker) string { return a.HomeSocket }),
		dial("a datagram socket", "unixgram", func(a *attacker) string { return a.Datagram }),
		dial("an abstract socket", "unix", func(a *attacker) string { return a.Abstract }),
		dial("a socket through the root of signalbox", "unix",
			func(a *attacker) string { return fmt.Sprintf("/proc/%d/root%s", a.Coordinator, a.Stream) }),
		{name: "connect to the socket of another session", try: func(a *attacker) (string, error) {
			connection, err := net.Dial("unix", a.Victim.Socket)
			if err != nil {
				return "", err
			}
			return "connected", connection.Close()
		}},
		{name: "connect to a socket through a link", effect: arrived,
			try: func(a *attacker) (string, error) {
				link := filepath.Join(a.dir, "s")
				if err := os.Symlink(a.Stream, link); err != nil {
					return "", err
				}
				defer os.Remove(link)
				connection, err := net.Dial("unix", link)
				if err != nil {
					return "", err
				}
				_, err = connection.Write([]byte(a.mark() + "\n"))
				return "sent", errors.Join(err, connection.Close())
			}},
		{name: "send to a datagram socket from an unnamed pair", effect: arrived,
			try: func(a *attacker) (string, error) {
				// A filter that forbids socket must not forget socketpair: one end of a datagram pair
				// can send anywhere.
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
				if err != nil {
					return "", err
				}
				return "sent", unix.Sendto(pair[0], []byte(a.mark()+"\n"), 0,
					&unix.SockaddrUnix{Name: a.Datagram})
			}},
		{name: "connect an unnamed pair to a datagram socket", effect: arrived,
			try: func(a *attacker) (string, error) {
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
				if err != nil {
					return "", err
				}
				if err := unix.Connect(pair[0], &unix.SockaddrUnix{Name: a.Datagram}); err != nil {
					return "", err
				}
				_, err = unix.Write(pair[0], []byte(a.mark()+"\n"))
				return "sent", err
			}},
		{name: "read System V shared memory", effect: leaked,
			try: func(a *attacker) (string, error) {
				memory, err := unix.SysvShmAttach(a.Bystander.Memory, 0, unix.SHM_RDONLY)
				if err != nil {
					return "", err
				}
				return strings.TrimRight(string(memory[:64]), "\x00"), nil
			}},
		{name: "send to a System V message queue",
			try: func(a *attacker) (string,
				error) {
				return "sent", sendToQueue(a.Bystander.Queue, a.mark())
			},
			effect: func(s *stage, a *attacker, _ string) bool { return s.inQueue(a.mark()) }},
		{name: "read a POSIX message queue", effect: leaked,
			try: func(a *attacker) (string, error) {
				queue, err := openQueue(a.Tag, unix.O_RDONLY)
				if err != nil {
					return "", err
				}
				buffer := make([]byte, queueSize)
				n, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDRECEIVE, uintptr(queue),
					uintptr(unsafe.Pointer(&buffer[0])), queueSize, 0, 0, 0)
				return string(buffer[:max(0, min(int(n), queueSize))]), asError(errno)
			}},
		{name: "read a key of the user's keyring", effect: leaked,
			try: func(a *attacker) (string, error) {
				id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", a.Bystander.Key, 0)
				if err != nil {
					return "", err
				}
				buffer := make([]byte, 64)
				n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buffer, 0)
				return string(buffer[:max(0, min(n, 64))]), err
			}},
		{name: "add a key to the user's keyring", try: func(a *attacker) (string, error) {
			id, err := unix.AddKey("user", a.mark(), []byte("x"), unix.KEY_SPEC_USER_KEYRING)
			if err == nil {
				unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, id, 60, 0, 0)
			}
			return "added", err
		}},
		{name: "write to the user's terminal", try: func(a *attacker) (string, error) {
			f, err := os.OpenFile(a.Terminal, os.O_WRONLY|unix.O_NOCTTY, 0)
			if err != nil {
				return "", err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, a.mark())
			return "written", err
		}, effect: arrived},
		{name: "type into the user's terminal", try: func(a *attacker) (string, error) {
			unix.Setsid()
			// becomes the controlling terminal
			f, err := os.OpenFile(a.Terminals[a.by], os.O_RDWR, 0)
			if err != nil {
				return "", err
			}
			for _, c := range []byte("id\n") {
				if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSTI, int(c)); err != nil {
					return "", err
				}
			}
			return "typed", nil
		}},
	}
}

// arrived is the effect of an attempt that sends its mark to the test.
func arrived(s *stage, a *attacker, _ string) bool { return s.received(a.mark()) }

// networkAttempts are attempts to use a network that the policy forbids.
func networkAttempts() (all []attempt) {
	dial := func(name, kind string, address func(*attacker) string) attempt {
		return attempt{name: "send by " + name, effect: arrived,
			try: func(a *attacker) (string, error) {
				connection, err := net.Dial(kind, address(a))
				if errors.Is(err, unix.EADDRNOTAVAIL) {
					err = errors.Join(err, errMissing) // there is no IPv6
				}
				if err != nil {
					return "", err
				}
				_, err = connection.Write([]byte(a.mark() + "\n"))
				return "sent", errors.Join(err, connection.Close())
			}}
	}
	local := func(port func(*attacker) int) func(*attacker) string {
		return func(a *attacker) string { return fmt.Sprintf("127.0.0.1:%d", port(a)) }
	}
	forbidden := func(a *attacker) int { return a.ForbiddenPort }
	// opens is an attempt to open a socket of a kind through which this machine, its host or the
	// network can be reached.
	opens := func(name string, family, kind, protocol int) attempt {
		return attempt{name: "open a socket of " + name, try: func(*attacker) (string, error) {
			fd, err := unix.Socket(family, kind, protocol)
			if err == nil {
				unix.Close(fd)
			}
			return "opened", err
		}}
	}
	stream := func(name string, family, protocol int,
		send func(fd int, a *attacker) error) attempt {
		return attempt{name: "send by " + name, effect: arrived,
			try: func(a *attacker) (string, error) {
				fd, err := unix.Socket(family, unix.SOCK_STREAM, protocol)
				if err != nil {
					return "", err
				}
				defer unix.Close(fd)
				return "sent", send(fd, a)
			}}
	}
	connect := func(fd int, a *attacker) error {
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1},
			Port: a.ForbiddenPort}); err != nil {
			return err
		}
		_, err := unix.Write(fd, []byte(a.mark()+"\n"))
		return err
	}
	datagram := func(name string, port func(*attacker) int) attempt {
		send := dial(name, "udp", local(port))
		send.private = true // a program without a network has a loopback network of its own
		return send
	}
	all = []attempt{
		dial("TCP", "tcp", local(forbidden)),
		dial("TCP over IPv6", "tcp",
			func(a *attacker) string { return fmt.Sprintf("[::1]:%d", a.ForbiddenPort) }),
		datagram("UDP", func(a *attacker) int { return a.DatagramPort }),
		datagram("UDP to the allowed port", func(a *attacker) int { return a.AllowedPort }),
		stream("multipath TCP", unix.AF_INET, unix.IPPROTO_MPTCP, connect),
		stream("TCP over a mapped address", unix.AF_INET6, 0, func(fd int, a *attacker) error {
			mapped := [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}
			if err := unix.Connect(fd,
				&unix.SockaddrInet6{Addr: mapped, Port: a.ForbiddenPort}); err != nil {
				return err
			}
			_, err := unix.Write(fd, []byte(a.mark()+"\n"))
			return err
		}),
		stream("TCP fast open", unix.AF_INET, 0, func(fd int, a *attacker) error {
			return unix.Sendto(fd, []byte(a.mark()+"\n"), unix.MSG_FASTOPEN,
				&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: a.ForbiddenPort})
		}),
		stream("TCP fast open with a message", unix.AF_INET, 0, func(fd int, a *attacker) error {
			_, err := unix.SendmsgN(fd, []byte(a.mark()+"\n"), nil,
				&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: a.ForbiddenPort},
				unix.MSG_FASTOPEN)
			return err
		}),
		stream("TCP fast open on connect", unix.AF_INET, 0, func(fd int, a *attacker) error {
			const fastOpenConnect = 30 // TCP_FASTOPEN_CONNECT
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, fastOpenConnect, 1); err != nil {
				return err
			}
			return connect(fd, a)
		}),
		stream("shared memory sockets over TCP", unix.AF_SMC, 0, connect),
		rootOnly(opens("raw packets", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)),
		rootOnly(opens("the link layer", unix.AF_PACKET, unix.SOCK_RAW, 0)),
		opens("SCTP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
		opens("light UDP", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE),
		opens("the virtual machine's host", unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		opens("Bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 0),
		{name: "open a socket of ping", try: func(*attacker) (string, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
			if err == nil {
				unix.Close(fd)
			}
			if errors.Is(err, unix.EACCES) {
				err = errors.Join(err, errMissing) // net.ipv4.ping_group_range
			}
			return "opened", err
		}},
	}
	for i := range all {
		all[i].network = true
	}
	return all
}
