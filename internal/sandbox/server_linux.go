package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A program that may reach one server has a network of its own, in which this machine is that
// server: its address is one of the loopback interface, or its name leads there. So the program
// needs no setting of its own for it, and TLS verifies the same name.

// hostsFile is where programs look up names first.
const hostsFile = "/etc/hosts"

// localName is the name that programs look up as the loopback addresses.
const localName = "localhost"

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// local returns the addresses in the program's own network that stand for the server.
func (s *Server) local() []netip.Addr {
	address, err := netip.ParseAddr(s.Host)
	isLocal := strings.EqualFold(strings.TrimSuffix(s.Host, "."), localName)
	switch {
	case isLocal, address.IsUnspecified():
		return []netip.Addr{loopback4, loopback6} // programs try both
	case err != nil:
		return []netip.Addr{loopback4} // see mountHosts
	}
	return []netip.Addr{address.Unmap()}
}

// mountHosts gives the new root a file of host names that has the server's name and nothing of
// the user's network.
func mountHosts(server *Server) error {
	text := fmt.Sprintf("%s %s\n%s %s\n", loopback4, localName, loopback6, localName)
	names := []string{server.Host, strings.TrimSuffix(server.Host, ".")}
	if _, err := netip.ParseAddr(server.Host); err == nil {
		names = nil
	}
	if own, err := os.Hostname(); err == nil { // some programs look it up when they start
		names = append(names, own)
	}
	for _, name := range slices.Compact(names) {
		if name != localName {
			text += fmt.Sprintf("%s %s\n", loopback4, name)
		}
	}
	// On the file system that holds oldRoot and newRoot, which nothing else shows.
	const file = "/hosts"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	place, _, err := resolve(hostsFile) // it may be a link
	if errors.Is(err, fs.ErrNotExist) {
		place, err = hostsFile, nil
	}
	if err != nil {
		return err
	}
	place = newRoot + place
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	if err := makeMountPoint(file, place); err != nil {
		return err
	}
	if err := unix.Mount(file, place, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return protect(place, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, 0)
}

// maxPending is how many connections may wait to be accepted.
const maxPending = 128

// ListenAs listens at the addresses of a server in the network of this process, which must be one
// of its own, and returns the sockets. The caller closes them.
func ListenAs(server *Server) (sockets []int, err error) {
	defer func() {
		if err != nil {
			CloseSockets(sockets)
			sockets = nil
		}
	}()
	for _, address := range server.local() {
		if !address.IsLoopback() {
			if err := addAddress(address); err != nil {
				return sockets, fmt.Errorf("add the address %s: %w", address, err)
			}
		}
		socket, err := listen(netip.AddrPortFrom(address, server.Port))
		noIPv6 := errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
		if len(sockets) > 0 && noIPv6 {
			continue
		}
		if err != nil {
			return sockets, fmt.Errorf("listen at %s as the model server: %w", address, err)
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

// CloseSockets closes what ListenAs returned.
func CloseSockets(sockets []int) {
	for _, socket := range sockets {
		unix.Close(socket)
	}
}

func listen(at netip.AddrPort) (socket int, err error) {
	ip, port := at.Addr(), int(at.Port())
	family, address := unix.AF_INET6,
		unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: ip.As16()})
	if ip.Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	socket, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	// No option to share the port: what the program runs must not answer in place of the server.
	if err = unix.Bind(socket, address); err == nil {
		err = unix.Listen(socket, maxPending)
	}
	if err != nil {
		unix.Close(socket)
		return 0, err
	}
	return socket, nil
}

// loopbackIndex is the number of the loopback interface in every network.
const loopbackIndex = 1

// addAddress gives the loopback interface another address.
func addAddress(address netip.Addr) error {
	family, value := byte(unix.AF_INET6), address.AsSlice()
	if address.Is4() {
		family = unix.AF_INET
	}
	// struct ifaddrmsg, and the address twice: as the interface's own and as that of the other end.
	body := []byte{family, byte(address.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_HOST}
	body = binary.NativeEndian.AppendUint32(body, loopbackIndex)
	for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
		body = append(binary.NativeEndian.AppendUint16(body, kind), value...)
	}
	request := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	request = binary.NativeEndian.AppendUint16(request, unix.RTM_NEWADDR)
	const flags = unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL
	request = binary.NativeEndian.AppendUint16(request, flags)
	request = append(request, make([]byte, 8)...) // sequence and sender: there is one request
	request = append(request, body...)
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(socket, request, 0, kernel); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("an unexpected answer of the kernel")
	}
	// An error with number zero is the confirmation.
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}
