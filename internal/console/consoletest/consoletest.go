// Package consoletest has the shared parts of tests of terminals: words that drive a terminal, a
// terminal that records its input, and a check of that record.
package consoletest

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Forged begins the lines that the hostile words try to make.
const Forged = "FORGED"

// Words returns an outsider's hostile texts, by kind: they drive a terminal, hide or turn round the text,
// make lines of their own, or have no end. Each kind is short enough to pass bounds on lengths, except
// the last one.
func Words() map[string]string {
	words := map[string]string{
		"C0":                      "a\x1b[2J\x1b[31m\x07\x08\x0b\x0c\x0e\x0f\x1a\x01\x1f\x7f",
		"the title of a window":   "a\x1b]0;PWNED\x07\x1b]2;PWNED\x1b\\",
		"the clipboard":           "a\x1b]52;c;cm0gLXJmIC8=\x07",
		"a link":                  "a\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\",
		"device control":          "a\x1bP$q\"p\x1b\\\x1b[6n\x1b[c\x1b[?1049h\x1b^x\x1b\\\x1b_x\x1b\\",
		"C1":                      "a\u0080\u0085\u008d\u0090x\u009c\u009b31m\u009d0;x\u009c\u009f",
		"C1 in one byte":          "a\x9b31m\x9d0;x\x9c\x90\x85",
		"text from right to left": "a\u202egnp.exe\u202c\u202a\u202b\u202d\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
		"what is not to be seen":  "a\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u3164\u115f\u2063\U000e0100\ufe0f",
		"tags":                    "a\U000e0001\U000e0063\U000e0061\U000e0074\U000e007f",
		"private use":             "a\ue000\uf8ff\U000f0000\U0010fffd\ufff9\ufffa\ufffb",
		"separators":              "a\u2028" + Forged + " line\u2029" + Forged + " paragraph\u0085" + Forged,
		"lines":                   "a\n" + Forged + " line\r\n" + Forged + "\r" + Forged + "\x0b" + Forged,
		"not UTF-8":               "a\xc0\x9b31m\xed\xa0\x80\xf5\x80\x80\x80\xf0\x9f\x91\xff\xfe",
		"no end":                  strings.Repeat("x\x1b[2J\u202e", 4000),
	}
	return words
}

// Terminal returns a terminal of a width, and a function that returns the text written to it so far.
func Terminal(t testing.TB, width uint16) (slave *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: 24}); err != nil {
		t.Fatal(err)
	}
	// A terminal holds a few kilobytes only.
	all := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // ends with EIO, when the last writer is gone
		master.Close()
		all <- string(text)
	}()
	return slave, func() string {
		slave.Close()
		return strings.ReplaceAll(<-all, "\r\n", "\n")
	}
}

// ours matches the sequences that draw: a color, a line that is drawn again.
var ours = regexp.MustCompile(`\x1b\[(3[1236]|0)m|\r|\x1b\[K`)

// Check returns what is wrong with a terminal's input: bytes that are no printable characters, a line that
// somebody else began, more than a screen is for. On a dumb terminal, nothing may be drawn.
func Check(shown string, dumb bool) error {
	text := shown
	if !dumb {
		text = ours.ReplaceAllString(text, "")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for at, r := range line {
			if r == utf8.RuneError || r != '\t' && !unicode.IsGraphic(r) {
				return fmt.Errorf("%q is sent to the terminal, in %q", r, line[max(at-20, 0):min(at+40, len(line))])
			}
		}
		if strings.HasPrefix(line, Forged) {
			return fmt.Errorf("somebody else has begun the line %.80q", line)
		}
	}
	if len(text) > 64<<10 {
		return fmt.Errorf("the terminal was sent %d bytes, %.200q…", len(text), text)
	}
	return nil
}
