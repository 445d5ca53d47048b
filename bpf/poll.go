package bpf

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for the kernel's wakeups. A ring buffer is readable as long as
// anything is in it, which while sampling is always; an edge-triggered epoll
// reports only that the kernel has woken its readers.
type poller struct{ fd int }

func newPoller(ring int, mmaps []*mmapRing) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fail("create epoll", err)
	}
	p := &poller{fd}
	fds := []int{ring}
	for _, mmap := range mmaps {
		fds = append(fds, mmap.event.fd)
	}
	for _, watched := range fds {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(watched)}
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, watched, &event); err != nil {
			p.close()
			return nil, fail("watch rings", err)
		}
	}
	return p, nil
}

func (p *poller) close() { unix.Close(p.fd) }

// Wait waits until the kernel asks for attention, because a file has no table
// or a ring is filling, or until timeout, and tells which. Drain then.
func (s *Sampler) Wait(timeout time.Duration) (bool, error) {
	deadline := time.Now().Add(timeout)
	var events [8]unix.EpollEvent
	for {
		if s.closed.Load() {
			return false, ErrClosed
		}
		left := max(time.Until(deadline), 0)
		// Rounded up, so that the last fraction of a millisecond is slept.
		n, err := unix.EpollWait(s.poll.fd, events[:], int((left+time.Millisecond-1)/time.Millisecond))
		switch {
		case n > 0:
			return true, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("wait for samples: %w", err)
		case err == nil && time.Until(deadline) <= 0:
			return false, nil
		}
	}
}
