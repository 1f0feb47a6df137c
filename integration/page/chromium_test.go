//go:build hosts

package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page"
	"teleport-update/find/server/page/pagetest"
)

// build is where tests put what is not committed.
const build = "../../build"

// limit bounds what one test waits for: a browser that hangs.
const limit = 15 * time.Minute

// served puts a page before a find server, on a port of this machine.
func served(t *testing.T, w *pagetest.World) string {
	t.Helper()
	log := slog.New(w.Log)
	srv := httptest.NewServer(page.New(page.Options{
		API: w.API, As: admin.As, Holder: w.Access.HolderOf, NoHolder: admin.ErrAccess, Version: "1.2.3", Clock: w.Clock, Log: log,
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// browser is one that all tests share; each has cookies of its own.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		// Whatever a page asks for elsewhere is not found, and is in the list of requests.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"))
	allocated, _ := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, _ := chromedp.NewContext(allocated)
	return ctx, chromedp.Do(ctx)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if _, err := exec.LookPath("chromium"); err == nil {
		if ctx, err := browser(); err == nil {
			if err := chromedp.Cancel(ctx); err != nil {
				log.Print("ending the browser: ", err)
			}
		}
	}
	os.Exit(code)
}

// tab is one of the browser, and what its page did.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	requests []string
	dialogs  []string
	errors   []string
}

// open returns an empty tab without cookies.
func open(t *testing.T, url string) *tab {
	t.Helper()
	shared, err := browser()
	if errors.Is(err, exec.ErrNotFound) {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no chromium: apt-get install chromium")
		}
		t.Skip("NOT TESTED: there is no chromium: apt-get install chromium")
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(shared, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, limit)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx, url: url}
	if err := chromedp.Listen(ctx, b.handleEvent); err != nil {
		t.Fatal(err)
	}
	b.call("listen to the network", func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, network.Enable, network.EnableParams{})
		return err
	})
	return b
}

// handleEvent is called for each event: it must not wait.
func (b *tab) handleEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *cdpage.EventJavascriptDialogOpening:
		b.dialogs = append(b.dialogs, e.Message)
	case *cdpruntime.EventExceptionThrown:
		b.errors = append(b.errors, fmt.Sprint(e.ExceptionDetails))
	}
}

func (b *tab) call(what string, do func(context.Context, *chromedp.Target) error) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Func(do)); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// visit loads a path of the page.
func (b *tab) visit(path string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(b.url+path)); err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
}

// keys types, as a person at the keyboard does.
func (b *tab) keys(text string, opts ...chromedp.KeyOption) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.KeyEvent(text, opts...)); err != nil {
		b.t.Fatalf("typing %q: %v", text, err)
	}
}

// until waits for an expression of JavaScript to be true on a page that is loaded whole: its style sheet may come after its words.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	for {
		if is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.readyState === "complete" && !!(`+expression+")")); err == nil && is {
			return
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("%s: waited in vain; the page says\n%s", what, b.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// value is that of an expression of JavaScript.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// text is what the page shows.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// says fails the test if the page does not show some words.
func (b *tab) says(words ...string) {
	b.t.Helper()
	text := b.text()
	for _, word := range words {
		if !strings.Contains(text, word) {
			b.t.Errorf("the page does not say %q:\n%s", word, text)
		}
	}
}

// signIn types the token of a role into the form, and Enter.
func (b *tab) signIn(w *pagetest.World, role adminapi.Role) {
	b.t.Helper()
	b.visit(page.Path)
	b.until("the form has the focus", `document.activeElement.id === "token"`)
	b.keys(w.Tokens[role] + "\r")
	b.until("signed in", `document.querySelector("header .who")`)
}

// light chooses the browser's colours, and its window: a phone's, or a small desktop's.
func (b *tab) light(scheme string, width int64) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, map[bool]int64{true: 844, false: 720}[width < 400])); err != nil {
		b.t.Fatal(err)
	}
	b.call("choose colours", func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// withoutScripts switches JavaScript off.
func (b *tab) withoutScripts() {
	b.t.Helper()
	b.call("switch scripts off", func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
}

// picture keeps what the page looks like, for people.
func (b *tab) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.HasPrefix(png, []byte("\x89PNG")) {
		b.t.Errorf("%s is no PNG", name)
	}
	dir := filepath.Join(build, "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// harmless fails the test if the page opened a dialog, ran into an error or asked somebody else for something.
func (b *tab) harmless() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		b.t.Error("no request was seen: this shows nothing")
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, b.url+"/") {
			b.t.Errorf("the page asked for %s", url)
		}
	}
	if len(b.dialogs) > 0 || len(b.errors) > 0 {
		b.t.Errorf("dialogs %q, errors %q", b.dialogs, b.errors)
	}
}
