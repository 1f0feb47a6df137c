package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
)

var base = find.Answer{Version: "15.1.0", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute}

func TestStaticAnswersByGroup(t *testing.T) {
	s := newStatic(t, writeFile(t, "default: {agent_version: 15.1.1}\nstaging: {agent_version: 15.2.0, jitter: 0}\nheld: {autoupdate: false}\nnone: {agent_version: ''}"))
	for group, want := range map[string]find.Answer{
		"":        {Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute},
		"typo":    {Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute},
		"default": {Version: "15.1.1", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute},
		"staging": {Version: "15.2.0", Edition: version.OSS, AutoUpdate: true},
		"held":    {Version: "15.1.1", Edition: version.OSS, AutoUpdate: false, Jitter: time.Minute},
		"none":    {Version: "", Edition: version.OSS, AutoUpdate: false, Jitter: time.Minute},
	} {
		if got := s.Answer(group, "0f2c"); got != want {
			t.Errorf("group %q gets %+v; want %+v", group, got, want)
		}
	}
}

func TestStaticWithoutAFile(t *testing.T) {
	s, err := answers.NewStatic(answers.StaticOptions{Base: base, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Answer("staging", ""); got != base {
		t.Errorf("got %+v", got)
	}
	s.Watch(t.Context(), time.Second) // has nothing to watch, so it returns
}

func TestStaticRefusesToStart(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tc := range []struct {
		name string
		opts answers.StaticOptions
		want string
	}{
		{"no file", answers.StaticOptions{Base: base, GroupsFile: "/nonexistent/groups.yaml", Log: log}, "no such file"},
		{"an error in the file", answers.StaticOptions{Base: base, GroupsFile: writeFile(t, "g: {edition: gold}"), Log: log}, "gold"},
		{"a file without end", answers.StaticOptions{Base: base, GroupsFile: "/dev/zero", Log: log}, "not a regular file"},
		{"a file that is too long", answers.StaticOptions{Base: base, GroupsFile: writeFile(t, strings.Repeat("#", parts.MaxWatched+1)), Log: log}, "larger"},
		{"a pipe", answers.StaticOptions{Base: base, GroupsFile: pipe(t, filepath.Join(t.TempDir(), "pipe")), Log: log}, "not a regular file"},
		{"an answer that cannot be served", answers.StaticOptions{Base: find.Answer{Version: "15.1.1"}, Log: log}, "edition"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := answers.NewStatic(tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want an error with %q", err, tc.want)
			}
		})
	}
}

func TestReloadKeepsTheLastGoodAnswers(t *testing.T) {
	path := writeFile(t, "g: {agent_version: 15.2.0}")
	s := newStatic(t, path)
	edit(t, path, "g: {agent_version: latest}")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Reload: %v", err)
	}
	if got := s.Answer("g", "").Version; got != "15.2.0" {
		t.Errorf("after a bad edit the group gets %s", got)
	}
	edit(t, path, "g: {agent_version: 15.3.0}")
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
	if got := s.Answer("g", "").Version; got != "15.3.0" {
		t.Errorf("after a good edit the group gets %s", got)
	}
}

// The clock is synctest's, the file is real.
func TestWatchTakesUpEdits(t *testing.T) {
	path := writeFile(t, "g: {agent_version: 15.2.0}")
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		s, err := answers.NewStatic(answers.StaticOptions{Base: base, GroupsFile: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Watch(ctx, time.Second)
		after := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := s.Answer("g", "").Version; got != want {
				t.Errorf("the group gets %s; want %s", got, want)
			}
		}
		errorLines := func(want int) {
			t.Helper()
			if got := strings.Count(log.String(), "level=ERROR"); got != want {
				t.Errorf("%d errors are logged; want %d:\n%s", got, want, log.String())
			}
		}
		after(1500*time.Millisecond, "15.2.0")

		edit(t, path, "g: {agent_version: 15.3.0}") // at 1.5 s, seen at 2 s
		after(time.Second, "15.2.0")                // it may still be written
		after(time.Second, "15.3.0")

		// An editor that writes in place, slowly.
		truncate(t, path, "g: {agent_version: 16")
		after(time.Second, "15.3.0")
		truncate(t, path, "g: {agent_version: 16.0.0}")
		after(time.Second, "15.3.0")
		after(time.Second, "16.0.0")
		errorLines(0)

		edit(t, path, "g: {agent_version: latest}")
		after(time.Minute, "16.0.0")
		errorLines(1) // not one each second

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after(time.Minute, "16.0.0")
		errorLines(2)

		edit(t, path, "g: {agent_version: 15.2.0}")
		after(2*time.Second, "15.2.0")
		errorLines(2)

		// Nobody writes into it: a reader would wait for ever.
		if err := os.Rename(pipe(t, path+".pipe"), path); err != nil {
			t.Fatal(err)
		}
		after(time.Minute, "15.2.0")
		errorLines(3)

		edit(t, path, "g: {agent_version: 15.3.0}")
		after(2*time.Second, "15.3.0")
		errorLines(3)
	})
}

func TestStaticWarnsOfAVersionThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "teleport-v15.1.0-linux-amd64-bin.tar.gz", nil)
	write(t, dir, "teleport-v15.1.0-linux-amd64-bin.tar.gz.sha256", nil)
	releases, err := files.OpenReleases(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer releases.Close()
	var log bytes.Buffer
	_, err = answers.NewStatic(answers.StaticOptions{
		Base: base, Releases: releases, Log: slog.New(slog.NewTextHandler(&log, nil)),
		GroupsFile: writeFile(t, "there: {agent_version: 15.1.0}\nnot: {agent_version: 15.2.0}\nent: {edition: enterprise}\nnone: {agent_version: ''}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "level=WARN") {
			_, rest, _ := strings.Cut(line, "group=")
			warned = append(warned, strings.Fields(rest)[0])
		}
	}
	if got := strings.Join(warned, " "); got != "ent not" {
		t.Errorf("warned of %q:\n%s", got, log.String())
	}
}

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func newStatic(t *testing.T, path string) *answers.Static {
	t.Helper()
	s, err := answers.NewStatic(answers.StaticOptions{Base: base, GroupsFile: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "groups.yaml")
	truncate(t, path, content)
	return path
}

func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// edit replaces the file, as most editors do.
func edit(t *testing.T, path, content string) {
	t.Helper()
	truncate(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// truncate writes in place.
func truncate(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
