package kafka

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// established is the state of a TCP connection that neither end has closed (TCP_ESTABLISHED of linux/include/net/tcp_states.h).
const established = 1

// hungUp reports whether the other end of a connection is known to have closed it, which a client finds out for itself only when it reads. What lies
// under TLS is looked at.
func hungUp(c net.Conn) (hungUp bool) {
	if under, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = under.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		hungUp = err == nil && info.State != established
	})
	return hungUp
}
