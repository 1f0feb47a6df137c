package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// The journal has the time of each line; whoever else reads the log has not.
func TestTheJournalGetsOneTimestampALine(t *testing.T) {
	for _, journal := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "stream")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		t.Setenv("JOURNAL_STREAM", "")
		if journal {
			t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
		}
		app := &cli.App{ErrWriter: f, Flags: []cli.Flag{&cli.StringFlag{Name: "log-format", Value: "text"}}, Action: func(c *cli.Context) error {
			log, err := newLog(c)
			if err == nil {
				log.Info("serving")
			}
			return err
		}}
		if err := app.Run([]string{"teleport-find"}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(string(text), "level=INFO msg=serving"); got != journal || !strings.Contains(string(text), "serving") {
			t.Errorf("read by the journal %v: %q", journal, text)
		}
	}
}
