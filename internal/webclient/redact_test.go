package webclient

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"nothing to hide", "https://cdn.example/a/b.tar.gz", "https://cdn.example/a/b.tar.gz"},
		{"password", "https://ann:secret@cdn.example/a", "https://cdn.example/a"},
		{"name without password", "https://secret@cdn.example", "https://cdn.example"},
		{"at sign in the path stays", "https://cdn.example/a@b", "https://cdn.example/a@b"},
		{"query", "https://cdn.example/a?token=secret&v=1", "https://cdn.example/a?token=xxxxx&v=xxxxx"},
		{"query without a value", "https://cdn.example/a?secret", "https://cdn.example/a?xxxxx"},
		{"query with old separators", "https://cdn.example/?a;secret=1", "https://cdn.example/?xxxxx"},
		{"fragment", "https://cdn.example/a#secret", "https://cdn.example/a"},
		{"a template stays readable", "https://ann:secret@cdn.example/v{{ .Version }}-{{.OS}}", "https://cdn.example/v{{ .Version }}-{{.OS}}"},
		{"address and port", "cdn.example:3080", "cdn.example:3080"},
		{"password without a scheme", "ann:secret@cdn.example:3080", "cdn.example:3080"},
		{"slash in the password", "https://ann:sec/ret@cdn.example/a", "https://cdn.example/a"},
		{"question mark in the password", "https://ann:sec?ret@cdn.example/a", "https://cdn.example/a"},
		{"at sign in the password", "https://ann:sec@ret@cdn.example/a", "https://cdn.example/a"},
		{"broken escape", "https://ann:secret@cdn.example/%zz?token=secret", "https://cdn.example/%zz"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Redact(tc.in); got != tc.want {
				t.Errorf("Redact(%q) = %q; want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestRedactError(t *testing.T) {
	parse := func(s string) error { _, err := url.Parse(s); return err }
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no URL", errors.New("disk is full"), "disk is full"},
		{"net/http", &url.Error{Op: "Get", URL: "https://ann:***@cdn.example/?token=secret", Err: io.EOF},
			`Get "https://cdn.example/?token=xxxxx": EOF`},
		{"net/http, wrapped", fmt.Errorf("download: %w", &url.Error{Op: "Get", URL: "https://cdn.example/?token=secret", Err: io.EOF}),
			`download: Get "https://cdn.example/?token=xxxxx": EOF`},
		{"net/http, a quote in the query", &url.Error{Op: "Get", URL: `https://cdn.example/?token="secret"`, Err: io.EOF},
			`Get "https://cdn.example/?token=xxxxx": EOF`},
		{"net/url", parse("https://ann:secret@cdn.example:bad/"), `parse "https://cdn.example:bad/": invalid port ":bad" after host`},
		{"joined", errors.Join(io.EOF, &url.Error{Op: "Get", URL: "https://cdn.example/?a=secret", Err: io.EOF}),
			"EOF\nGet \"https://cdn.example/?a=xxxxx\": EOF"},
		{"a URL in plain text", errors.New(`bad Location header "https://ann:secret@cdn.example/": no`),
			`bad Location header "https://cdn.example/": no`},
		{"a URL that a colon ends", errors.New("https://cdn.example/?token=secret: no"), "https://cdn.example/?token=xxxxx: no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := RedactError(tc.err)
			if got.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the chain of the error is lost")
			}
		})
	}
	if RedactError(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestErrorsOfTheClientCanBeRedacted(t *testing.T) {
	client, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get("http://ann:secret@192.0.2.1/?token=secret")
	if err == nil {
		t.Fatal("plain http left the host")
	}
	if text := RedactError(err).Error(); strings.Contains(text, "secret") || strings.Contains(text, "ann") {
		t.Errorf("the error tells a secret: %s", text)
	}
}
