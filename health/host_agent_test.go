//go:build hosts

package health

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests behind the tag "hosts" need a host that systemd has booted, with
// nothing on it that matters, and root:
//
//	CGO_ENABLED=0 go test -c -tags hosts -o health.test ./health
//
// and on the host, most of them waiting and not working:
//
//	DISPOSABLE_HOST=1 health.test -test.run Host -test.parallel 8
//	DISPOSABLE_HOST=stop health.test -test.run Shutdown
//
// The test's own binary is the agent: it lies in the folder of each version under
// the name "agent", beside a file that says how that version behaves.

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "agent" {
		os.Exit(agent())
	}
	os.Exit(m.Run())
}

// behaviour of a version, words in a file.
type behaviour map[string]string

func readBehaviour() behaviour {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(exe), "..", "behaviour"))
	if err != nil {
		panic(err)
	}
	b := behaviour{}
	for _, word := range strings.Fields(string(data)) {
		key, value, _ := strings.Cut(word, "=")
		b[key] = value
	}
	return b
}

func (b behaviour) pause(key string) time.Duration {
	d, _ := time.ParseDuration(b[key])
	return d
}

func (b behaviour) has(key string) bool {
	_, ok := b[key]
	return ok
}

// agent behaves as Teleport does: on SIGHUP it starts a new process by the name
// it was started by, and leaves when that one is ready.
//
//	exit=N after=D   exits with N after D, or with after=told as soon as it is told to
//	hup=ignore|exec  ignores SIGHUP, or executes its own file again
//	handover=early|late|hang  started on SIGHUP, dies when it is told to, before or after it has taken over the PID file, or never does
//	drain=D          stays for D after it has handed over
//	term=ignore      ignores SIGTERM
//	unready          never tells systemd that it is ready
func agent() int {
	pidFile, b := os.Args[1], readBehaviour()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM)
	handover := os.Getenv("HANDOVER") != ""
	os.Unsetenv("HANDOVER")
	if handover {
		switch b["handover"] {
		case "early":
			<-orderToDie(pidFile)
			return 1
		case "hang":
			<-signals
			return 0
		}
	}
	var end <-chan time.Time
	code := 0
	if b.has("exit") {
		fmt.Sscan(b["exit"], &code)
		end = time.After(b.pause("after"))
		if b["after"] == "told" {
			end = orderToDie(pidFile)
		}
	}
	if !b.has("exit") || b.has("after") {
		temp := fmt.Sprintf("%s.%d", pidFile, os.Getpid())
		os.WriteFile(temp, fmt.Appendln(nil, os.Getpid()), 0o644)
		os.Rename(temp, pidFile)
		if handover && b["handover"] == "late" {
			<-orderToDie(pidFile)
			return 1
		}
		if !b.has("unready") {
			notify("READY=1")
		}
		if handover {
			os.NewFile(3, "ready").WriteString("ready")
		}
	}
	for {
		select {
		case <-end:
			return code
		case s := <-signals:
			switch {
			case s == syscall.SIGTERM && b["term"] != "ignore":
				return 0
			case s == syscall.SIGHUP && b["hup"] == "exec":
				exe, _ := os.Readlink("/proc/self/exe")
				syscall.Exec(exe, os.Args, os.Environ())
			case s == syscall.SIGHUP && b["hup"] == "":
				if handOverTo(os.Args[0]) {
					time.Sleep(b.pause("drain"))
					return 0
				}
			}
		}
	}
}

// orderToDie waits for the file that tells an agent to die. A process that dies after a
// time may have died before anybody on a busy host could see it.
func orderToDie(pidFile string) <-chan time.Time {
	c := make(chan time.Time)
	go func() {
		for {
			if _, err := os.Stat(dieFile(pidFile)); err == nil {
				close(c)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return c
}

func dieFile(pidFile string) string { return filepath.Join(filepath.Dir(pidFile), "die") }

func handOverTo(program string) bool {
	reader, writer, _ := os.Pipe()
	child := exec.Command(program, os.Args[1:]...)
	child.Env = append(os.Environ(), "HANDOVER=1")
	child.ExtraFiles = []*os.File{writer}
	if child.Start() != nil {
		return false
	}
	go child.Wait()
	writer.Close()
	answer := make([]byte, 5)
	n, _ := reader.Read(answer)
	return string(answer[:n]) == "ready"
}

func notify(message string) {
	if conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET")); err == nil {
		conn.Write([]byte(message))
		conn.Close()
	}
}
