package capture

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// startOnTerminal starts this program as a client of a fake collector, in the
// foreground of a terminal.
func startOnTerminal(t *testing.T, args ...string) (client *exec.Cmd, master *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	master, slave := openTerminal(t)
	client = exec.Command(self, args...)
	client.Env = append(os.Environ(), collectorEnv+"=client", "COLLECTOR=fake")
	client.Stdin, client.Stdout, client.Stderr = slave, slave, slave
	client.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	return client, master
}

// expect reads lines from the terminal until one contains text.
func expect(t *testing.T, lines *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("terminal ended before %q: %q, %v", text, line, err)
		}
	}
}

func TestInterruptsOfTheTerminalReachTheCommandOnceEachAndDoNotEndTheClient(t *testing.T) {
	// The command counts them, takes two, and ends by itself.
	script := `n=0; trap 'n=$((n+1)); echo "got $n"' INT; echo ready; i=0
		while [ $n -lt 2 ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; sleep 0.2; echo "total $n"; exit 5`
	client, master := startOnTerminal(t, "sh", "-c", script)
	watchdog := time.AfterFunc(30*time.Second, func() { client.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewReader(master)
	expect(t, lines, "ready")
	for _, answer := range []string{"got 1", "got 2", "total 2"} {
		if answer != "total 2" {
			if _, err := io.WriteString(master, "\x03"); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, lines, answer)
	}
	expect(t, lines, "exit 5, interrupted by interrupt")
	if err := client.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheCommandCanReadTheTerminal(t *testing.T) {
	client, master := startOnTerminal(t, "sh", "-c", `echo ready; read line; echo "read $line"; test -t 0 && test -t 1 && echo terminal`)
	watchdog := time.AfterFunc(30*time.Second, func() { client.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewReader(master)
	expect(t, lines, "ready")
	if _, err := io.WriteString(master, "hello\n"); err != nil {
		t.Fatal(err)
	}
	expect(t, lines, "read hello")
	expect(t, lines, "terminal")
	expect(t, lines, "exit 0, interrupted by signal 0")
	client.Wait()
}
