// Package pipenet is an in-memory network: a net.Listener whose connections
// are net.Pipe pairs. Test servers listen on it so that, inside a
// testing/synctest bubble, an idle read counts as durably blocked and the
// virtual clock can run; a TCP read never does.
//
// Both ends support deadlines. There is no buffer: a Write returns when the
// other side has read it. Closing one end gives the other io.EOF on Read and
// io.ErrClosedPipe on Write. Create the Listener inside the bubble that uses it.
package pipenet

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// Listener accepts the connections that its own Dial makes. It is safe for
// concurrent use.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns an open listener.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept waits for the next Dial. After Close its error wraps net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, l.fail("accept", net.ErrClosed)
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, l.fail("accept", net.ErrClosed)
	}
}

// Close stops Accept and Dial. Connections already made stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a placeholder of network "pipe".
func (l *Listener) Addr() net.Addr { return addr{} }

// Dial connects to the listener; network and address are ignored. It has the
// shape of http.Transport.DialContext. It blocks until Accept takes the
// connection or ctx ends. After Close the error is what a closed TCP port
// gives: errors.Is(err, syscall.ECONNREFUSED).
func (l *Listener) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-l.done:
		return nil, l.refused()
	default:
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, l.refused()
	case <-ctx.Done():
		return nil, l.fail("dial", ctx.Err())
	}
}

func (l *Listener) refused() error {
	return l.fail("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED))
}

func (l *Listener) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "pipe", Addr: addr{}, Err: err}
}

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }
