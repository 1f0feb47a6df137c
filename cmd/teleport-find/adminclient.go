package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
	"teleport-update/internal/failure"
	"teleport-update/internal/webclient"
)

const (
	adminSocketEnv = "ADMIN_SOCKET"
	// adminSocket is the socket of the package's service.
	adminSocket = "/run/teleport-find/admin.sock"
	// adminTime bounds a request; the server may have to wait for its store.
	adminTime = 30 * time.Second
	// maxReply is more than a resource with all its details.
	maxReply = 8 << 20
)

func adminSocketFlag() cli.Flag {
	return &cli.StringFlag{Name: "admin-socket", EnvVars: []string{"TELEPORT_FIND_" + adminSocketEnv}, Value: adminSocket,
		Usage: "`PATH` of the running server's socket"}
}

// serverFlags select the server to ask; they stand before the command.
func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", EnvVars: []string{"TELEPORT_FIND_SERVER"}, Usage: "`URL` of the server to ask (its " +
			"--admin-listen), instead of the one on this machine"},
		&cli.StringFlag{Name: "access-token-file", EnvVars: []string{"TELEPORT_FIND_ACCESS_TOKEN_FILE"}, TakesFile: true,
			Usage: "`FILE` with the access token for --server"},
		&cli.StringFlag{Name: "server-ca-file", EnvVars: []string{"TELEPORT_FIND_SERVER_CA_FILE"}, TakesFile: true,
			Usage: "PEM `FILE` of further authorities to trust for --server"},
	}
}

// adminClient talks to the admin API of a server.
type adminClient struct {
	at    string // socket or URL, for people
	base  string // of the URLs of requests
	token string // over the socket: none
	http  *http.Client
	err   error // why no server can be asked
	text  bool  // for text output: each string in an answer becomes one line
}

// newAdminClient returns a client for the server on this machine, or for --server.
func newAdminClient(c *cli.Context) *adminClient {
	address := c.String("server")
	if address == "" {
		socket := c.String("admin-socket")
		return &adminClient{at: socket, base: "http://admin", http: newSocketClient(socket), text: forText(c)}
	}
	a := &adminClient{at: address, base: strings.TrimRight(address, "/"), text: forText(c)}
	if a.err = checkServer(address); a.err == nil {
		a.token, a.err = readToken(c.String("access-token-file"))
	}
	if a.err == nil {
		a.http, a.err = webclient.New(webclient.Options{CAFile: c.String("server-ca-file"), Trust: "`teleport-find --server-ca-file FILE`",
			UserAgent: "teleport-find/" + version})
	}
	if a.err == nil {
		a.http.Timeout = adminTime
		// The token must not follow a redirect to another server.
		a.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return a
}

// forText reports whether a command prints text and no document.
func forText(c *cli.Context) bool { return !slices.Contains(documents, c.String("output")) }

// onlyHost reports whether a URL names a server, without a path or user.
func onlyHost(u *url.URL) bool {
	root := u.Path == "" || u.Path == "/"
	return u.Host != "" && root && u.User == nil && u.RawQuery == ""
}

// checkServer returns an error if others could read a token on the way to the server.
func checkServer(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || !onlyHost(u):
		return usageErrorf("--server %q is no URL such as https://find.example.com:3444", address)
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return usageErrorf("--server %s: an access token is sent over https only, or to a loopback address", address)
}

func readToken(file string) (string, error) {
	if file == "" {
		return "", usageErrorf("--server needs --access-token-file; \"teleport-find token add\" makes the token")
	}
	data, err := readSecret(file)
	if err != nil {
		return "", fmt.Errorf("read the access token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || len(token) > 200 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no access token: one word is expected", file)
	}
	return token, nil
}

// maxSecret is longer than any token.
const maxSecret = 4096

// readSecret reads a file that nobody but its owner may read or write.
func readSecret(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others than its owner may read or write %s (its mode is %04o): \"chmod 600 %[1]s\", and revoke "+
			"the token if somebody may have read it", file, mode.Perm())
	}
	return io.ReadAll(io.LimitReader(f, maxSecret))
}

// newSocketClient connects to a socket, whatever the address.
func newSocketClient(socket string) *http.Client {
	return &http.Client{Timeout: adminTime, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// maxRefusal is how many characters of a server's refusal are shown.
const maxRefusal = 4000

// unwritten is what errors say about the server's store.
const unwritten failure.Aftermath = "nothing was written"

// refusal is a server's answer that it did not do something.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// refused reports whether the error is a refusal with this status.
func refused(err error, status int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.status == status
}

// get returns a refusal, 404, if there is no such resource. If a kind has several
// resources, a slash and the name follow the kind.
func (a *adminClient) get(ctx context.Context, kind string) (rollout.Resource, error) {
	path := "/v1/resources/" + kind
	if kind, name, named := strings.Cut(kind, "/"); named {
		path = "/v1/resources/" + kind + "/" + url.PathEscape(name)
	}
	body, err := a.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	list, err := rollout.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("the server's %s is not understood (is it of another version?): %w", kind, err)
	}
	return list[0], nil
}

// put writes all of the list or, after an error, none of it. It returns a refusal, 412,
// if a resource has another revision by now.
func (a *adminClient) put(ctx context.Context, list []rollout.Resource, dryRun, isNew bool, reason string) (adminapi.Result, error) {
	var result adminapi.Result
	var body bytes.Buffer
	for _, r := range list {
		data, err := rollout.JSON(r)
		if err != nil {
			return result, err
		}
		body.Write(append(data, '\n'))
	}
	answer, err := a.do(ctx, http.MethodPut, fmt.Sprintf("/v1/resources?dry_run=%t&new=%t&reason=%s", dryRun, isNew, url.QueryEscape(reason)),
		body.Bytes())
	if err != nil {
		return result, err
	}
	return result, a.decode(answer, &result)
}

// ask sends a request to the server and reads its answer. Without a body, body is nil.
func (a *adminClient) ask(ctx context.Context, method, path string, body, answer any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	said, err := a.do(ctx, method, path, data)
	if err != nil {
		return err
	}
	return a.decode(said, answer)
}

func (a *adminClient) decode(said []byte, answer any) error {
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("the answer of %s is not understood (is the server of another version?): %w", a.at, err)
	}
	if a.text {
		console.Lines(answer)
	}
	return nil
}

func (a *adminClient) do(ctx context.Context, method, path string, data []byte) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, a.explain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", a.at, err)
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	var said adminapi.Error
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		what := "socket"
		if a.token != "" {
			what = "admin API"
		}
		return nil, fmt.Errorf("%s answers %s: is that the %s of a find server?", a.at, console.Excerpt(resp.Status, 60), what)
	}
	answer := &refusal{resp.StatusCode, console.Excerpt(said.Error, maxRefusal)}
	if method != http.MethodGet && resp.StatusCode < 500 {
		return nil, &failure.Error{What: answer, State: unwritten}
	}
	return nil, answer
}

func (a *adminClient) explain(err error) error {
	switch {
	case a.token != "":
		return fmt.Errorf("ask the find server: %w; is that the address of its --admin-listen?", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf(`no find server listens on %s: start it ("systemctl start teleport-find"), or say with --admin-socket `+
			`where it listens`, a.at)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to open %s: only root and the user that the server runs as have it", a.at)
	}
	return fmt.Errorf("ask the find server at %s: %w", a.at, err)
}
