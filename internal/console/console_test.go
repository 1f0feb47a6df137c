package console

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Of each kind that drives a terminal, or hides or turns round what a person reads.
func TestWhatIsPrintable(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !Printable(r) {
			continue
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Variation_Selector) ||
			r >= 0xe0000 || r == utf8.RuneError || !unicode.IsOneOf(unicode.GraphicRanges, r) {
			t.Fatalf("%U is taken for printable", r)
		}
	}
	for _, r := range "aZ~ äß漢ё✓›…—“👍" {
		if !Printable(r) {
			t.Errorf("%q is not printable", r)
		}
	}
}

func TestALineIsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"find said\nerror":                  "find said; error",
		"a\r\x1b[2J\u009b31m\u202eb\u2028c": "a  [2J 31m b c",
		"\xff\xfe tag\U000e0041":            "   tag ",
		"plain — ✓":                         "plain — ✓",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q; want %q", text, got, want)
		}
	}
}

func TestAnExcerptIsBounded(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 5, "short"}, {"longer", 5, "longe…"}, {"ääää", 3, "äää…"}, {strings.Repeat("ä", 1<<20), 2, "ää…"},
		{strings.Repeat("\x1b", 1<<20), 3, "   …"}, {"", 3, ""},
	} {
		if got := Excerpt(tc.text, tc.limit); got != tc.want {
			t.Errorf("Excerpt(%.20q, %d) = %q; want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

// Every character, in every way that text comes to a stream: no byte that is not of a printable
// character passes, but for ends of lines and tabs; and JSON and YAML keep their values.
func TestNothingPassesButPrintableText(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) {
			all.WriteRune(r)
		}
	}
	text := all.String()
	asJSON, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		input string
		step  int
	}{
		"whole": {text, len(text)}, "in pieces": {text, 7}, "bytes that are no characters": {"\x9b31m\xc2\xff\xf0\x9f\x91\n\xc2", 1}, "JSON": {string(asJSON), 4096},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := To(&out)
			for rest := tc.input; rest != ""; {
				n := min(tc.step, len(rest))
				if wrote, err := o.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", wrote, n, err)
				}
				rest = rest[n:]
			}
			for _, r := range out.String() {
				if r != '\n' && r != '\t' && !Printable(r) {
					t.Fatalf("%U has passed", r)
				}
			}
			if name == "JSON" {
				var back string
				if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != text {
					t.Errorf("it is another text now (%v)", err)
				}
			}
		})
	}
	t.Run("YAML", func(t *testing.T) {
		for _, text := range []string{"\u202egnp.exe", "\u2028", "a\u009bb", "tag\U000e0041", "private \ue000"} {
			data, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Value: text, Style: yaml.DoubleQuotedStyle})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			_, _ = To(&out).Write(data)
			var back string
			if err := yaml.Unmarshal(out.Bytes(), &back); err != nil || back != text {
				t.Errorf("%q comes back as %q (%v) of %q", text, back, err, out.String())
			}
		}
	})
}

func TestWhatIsDrawnIsOneLineAndGivesWay(t *testing.T) {
	var out bytes.Buffer
	o := To(&out)
	o.Draw("50 %\x1b[2J\n")
	o.Marked("✓", Green, "well\r\x1b]0;x\a")
	o.Draw("99 %")
	o.Keep("100 %")
	_, _ = o.Write([]byte("next\n"))
	want := "\r50 % [2J; \x1b[K\r\x1b[K\x1b[32m✓\x1b[0m well" + `\u000d\u001b]0;x\u0007` + "\n\r99 %\x1b[K\r100 %\x1b[K\nnext\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}
