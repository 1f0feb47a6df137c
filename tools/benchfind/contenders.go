package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"teleport-update/find"
	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
	"teleport-update/tools/internal/figure"
)

// contender is a process that answers.
type contender struct {
	name, child string
	address     string // empty while it does not run
	process     *exec.Cmd
	rates, p99s []float64
	costs       []float64 // microseconds of CPU an answer
}

// children are what this program runs as. Each prints its address once it answers.
var children = map[string]func(ctx context.Context, args []string) error{
	"constant": serveConstant,
	"bare":     serveBare,
	"find":     serveFind,
	"nginx":    serveNginx,
	"engine":   runEngine,
	"reports":  serveReports,
	"populate": populate,
	"prepare":  prepare,
}

func (c *contender) start(ctx context.Context, hosts int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.process = exec.CommandContext(ctx, self, c.child, strconv.Itoa(hosts))
	c.process.Env = append(os.Environ(), "GOMAXPROCS=1")
	c.process.Stderr = os.Stderr
	// A child that does not hear of our end would stay.
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	out, err := c.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.process.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if address, ok := strings.CutPrefix(strings.TrimSpace(line), "answers on "); ok {
		c.address = address
		return nil
	}
	c.stop()
	return errors.New("it does not answer")
}

// used is the CPU time of the contender so far. nginx has its work done by a child, and shows none.
func (c *contender) used() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.Process.Pid))
	// After the name, which is in parentheses: user and system time are the 12th and 13th.
	_, after, _ := strings.Cut(string(stat), ") ")
	var total time.Duration
	for i, field := range strings.Fields(after) {
		if n, err := strconv.Atoi(field); err == nil && (i == 11 || i == 12) {
			total += time.Duration(n) * (time.Second / 100) // USER_HZ is 100 everywhere
		}
	}
	return total
}

// asked has the contender asked for a while, and notes what came of it.
func (c *contender) asked(ctx context.Context, asked [][]byte, each time.Duration) error {
	before := c.used()
	one, err := ask(ctx, c.address, asked, each)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.name, err)
	}
	c.rates, c.p99s = append(c.rates, one.rate), append(c.p99s, one.p99.Seconds()*1000)
	c.costs = append(c.costs, float64((c.used()-before).Microseconds())/float64(one.answers))
	return nil
}

// show prints what came of all, the first of which the others are compared with.
func show(contenders []*contender) {
	fmt.Printf("  %-20s %12s %8s %10s %8s %12s\n", "", "questions/s", "ratio", "p99 ms", "ratio", "CPU of one")
	base := contenders[0]
	for _, c := range contenders {
		fmt.Printf("  %-20s %12.0f %8.2f %10.2f %8.2f %9.1f µs\n", c.name, figure.Median(c.rates), figure.Median(c.rates)/figure.Median(base.rates),
			figure.Median(c.p99s), figure.Median(c.p99s)/figure.Median(base.p99s), figure.Median(c.costs))
	}
	fmt.Printf("  goals: at least %.2f of the rate, at most %.1f times the p99 of the constant handler\n", goalRate, goalP99)
}

// startAll starts what can be measured here, and returns it with what stops it.
func startAll(ctx context.Context, hosts int, all ...*contender) (started []*contender, stop func()) {
	for _, c := range all {
		if err := c.start(ctx, hosts); err != nil {
			fmt.Printf("%s is not measured: %v\n", c.name, err)
			continue
		}
		started = append(started, c)
	}
	return started, func() {
		for _, c := range started {
			c.stop()
		}
	}
}

func (c *contender) stop() {
	if c.process == nil || c.process.Process == nil {
		return
	}
	c.process.Process.Signal(syscall.SIGTERM)
	c.process.Wait()
	c.process = nil
}

// body is an answer of the size that the server gives.
func body() ([]byte, error) {
	return find.Answer{Version: "17.2.1", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute}.Body()
}

// constant is what find is measured against: it looks at nothing.
func constant() (http.Handler, error) {
	answer, err := body()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}), nil
}

// serveConstant is net/http with the time limits of the find server: what these cost is no
// matter of what is answered.
func serveConstant(ctx context.Context, _ []string) error {
	return serveByNetHTTP(ctx, parts.WithLimits())
}

// serveBare is net/http as it is, without any limit.
func serveBare(ctx context.Context, _ []string) error {
	return serveByNetHTTP(ctx, new(http.Server))
}

func serveByNetHTTP(ctx context.Context, server *http.Server) (err error) {
	if server.Handler, err = constant(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Println("answers on", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const nginxConf = `daemon off;
worker_processes 1;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 1024; }
http {
	access_log off;
	keepalive_requests 100000000;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	server {
		listen ADDRESS;
		location / { default_type application/json; return 200 'BODY'; }
	}
}
`

func serveNginx(ctx context.Context, _ []string) error {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return errors.New("it is not installed")
	}
	answer, err := body()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "benchfind-nginx-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	listener.Close()
	conf := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "ADDRESS", address, "BODY", string(answer)).Replace(nginxConf)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("answers on", address)
	cmd.Wait()
	return nil
}
