package transaction

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// others is a process that is not this one, and has files open for the processes of
// a model: whoever asks the kernel who uses a database finds it.
var others otherProcess

type otherProcess struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
	pid int
}

// TestMain has the folders of tests in memory, for no power is cut here, and begins
// the other process before any database is open that it could inherit.
func TestMain(m *testing.M) {
	if os.Getenv("OTHER_PROCESS") != "" {
		beOther()
		return
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "OTHER_PROCESS=1")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		panic("the other process does not start")
	}
	others.in, others.out, others.pid = in, bufio.NewReader(out), cmd.Process.Pid
	code := m.Run()
	in.Close()
	cmd.Wait()
	os.Exit(code)
}

func (o *otherProcess) open(path string)  { o.send("open " + path) }
func (o *otherProcess) close(path string) { o.send("close " + path) }

func (o *otherProcess) send(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.in, what)
	if answer, err := o.out.ReadString('\n'); err != nil || answer != "done\n" {
		panic(fmt.Sprintf("the other process says %q, %v", answer, err))
	}
}

func beOther() {
	files := map[string]*os.File{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println("done") {
		verb, path, _ := strings.Cut(lines.Text(), " ")
		if f := files[path]; f != nil {
			f.Close()
			delete(files, path)
		}
		if verb == "open" {
			files[path], _ = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
}
