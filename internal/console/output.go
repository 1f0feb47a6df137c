package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Output is a standard stream of a program. Everything written to it comes out as printable text.
type Output struct {
	w    io.Writer
	file *os.File // nil if w is no file

	mu    sync.Mutex
	begun []byte // the first bytes of a character whose rest is in the next write
	drawn bool   // the last line will be drawn again
}

// To returns an Output for a stream, or w itself if it is one.
func To(w io.Writer) *Output {
	if o, ok := w.(*Output); ok {
		return o
	}
	f, _ := w.(*os.File)
	return &Output{w: w, file: f}
}

// Write writes text: line ends, tabs and printable characters as they are, all others as their
// escapes in JSON.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := append(o.begun, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	o.begun = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	if err := o.emit(string(escaped(nil, string(text[:whole])))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// emit writes safe text, and replaces the line that would be drawn again.
func (o *Output) emit(text string) error {
	if o.drawn {
		text = "\r\x1b[K" + text
		o.drawn = false
	}
	_, err := io.WriteString(o.w, text)
	return err
}

// Draw draws the last line again. The next text replaces it.
func (o *Output) Draw(line string) { o.draw(line, true) }

// Keep draws the last line for the last time: the next text begins below it.
func (o *Output) Keep(line string) { o.draw(line, false) }

func (o *Output) draw(line string, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := "\r" + Line(line) + "\x1b[K"
	if !again {
		text += "\n"
	}
	_, _ = io.WriteString(o.w, text)
	o.drawn = again
}

// giveWay removes the line that would be drawn again.
func (o *Output) giveWay() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drawn {
		_ = o.emit("")
	}
}

// Color is one of a terminal's colors.
type Color int

// The colors.
const (
	NoColor Color = 0
	Red     Color = 31
	Green   Color = 32
	Yellow  Color = 33
	Cyan    Color = 36
)

// Marked writes a text after a sign in a color. Text of several lines is one text: it is written as Write does.
func (o *Output) Marked(sign string, c Color, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sign = Line(sign)
	if c != NoColor {
		sign = fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, sign)
	}
	_ = o.emit(sign + " " + string(escaped(nil, text)) + "\n")
}

// Clear empties a terminal's screen.
func (o *Output) Clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drawn = false
	_ = o.emit("\x1b[H\x1b[2J")
}

// Terminal reports whether a person reads the stream.
func (o *Output) Terminal() bool { return o.file != nil && IsTerminal(o.file) }

// File is the stream's file, nil if it has none. It is only for questions about the file, not for writing.
func (o *Output) File() *os.File { return o.file }

// errBinary says why bytes are not written.
var errBinary = errors.New("it is no text, and a terminal does not show it: name a file, or send it into a pipe")

// Binary returns the stream for data that is no text, such as an archive. It is an error for a terminal.
func (o *Output) Binary() (io.Writer, error) {
	if o.Terminal() {
		return nil, errBinary
	}
	return o.w, nil
}

// Width returns the number of characters in a line of the terminal, 80 if the terminal does not say.
func (o *Output) Width() int {
	if o.file == nil {
		return 80
	}
	size, err := unix.IoctlGetWinsize(int(o.file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
