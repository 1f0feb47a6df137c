package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"
	"text/template/parse"

	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/versions"
)

// DefaultTemplate leads to Teleport's published releases.
const DefaultTemplate = `https://cdn.teleport.dev/teleport{{ if .Enterprise }}-ent{{ end }}` +
	`-v{{ .Version }}-{{ .OS }}-{{ .Arch }}{{ if .FIPS }}-fips{{ end }}-bin.tar.gz`

// maxURL is the largest length of a URL, in bytes.
const maxURL = 4 << 10

// Template makes the URL of a release's tarball. It is a Go text/template over
//
//	.Version     15.1.1
//	.Edition     oss, enterprise, enterprise-fips
//	.OS .Arch    this host's, or what For says, as Go names them: linux amd64
//	.Enterprise  true for both enterprise editions
//	.FIPS        true for the FIPS edition
//
// with text, values, functions, if and with; loops are not taken. The result is an https
// URL, an http URL to a loopback address, or a file URL with an absolute path.
// The tarball's checksum is at the same path plus ".sha256".
type Template struct {
	text     string
	parsed   *template.Template
	os, arch string
}

type templateData struct {
	Version    string
	Edition    version.Edition
	OS         string
	Arch       string
	Enterprise bool
	FIPS       bool
}

// ParseTemplate parses a template and tries it for each edition, so that a wrong template fails
// early.
func ParseTemplate(text string) (*Template, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("URL template %q: %w", webclient.Redact(text), webclient.RedactError(err))
	}
	return t, nil
}

func parseTemplate(text string) (*Template, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("it is empty")
	}
	parsed, err := template.New("url").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, errors.New(placeInTemplate.ReplaceAllString(err.Error(), ""))
	}
	if parsed.Tree == nil || parsed.Tree.Root == nil {
		return nil, errors.New("it is empty")
	}
	if err := checkNodes(parsed.Tree.Root); err != nil {
		return nil, err
	}
	t := &Template{text: text, parsed: parsed, os: runtime.GOOS, arch: runtime.GOARCH}
	for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
		if _, err := t.url(versions.Release{Version: "1.2.3", Edition: e}); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// placeInTemplate matches the text that text/template puts before a syntax error.
var placeInTemplate = regexp.MustCompile(`^template: url:[0-9:]+ `)

// checkNodes refuses nodes that could run for ever: a range over a large number needs no output to
// do so.
func checkNodes(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := checkNodes(child); err != nil {
				return err
			}
		}
		return nil
	case *parse.IfNode:
		return errors.Join(checkNodes(n.List), checkNodes(n.ElseList))
	case *parse.WithNode:
		return errors.Join(checkNodes(n.List), checkNodes(n.ElseList))
	case *parse.TextNode, *parse.ActionNode, *parse.CommentNode:
		return nil
	}
	return errors.New("only values, functions, if and with may be used in it")
}

// For returns the template for another kind of host. The names are Go's: linux, amd64 or arm64.
func (t *Template) For(os, arch string) *Template {
	other := *t
	other.os, other.arch = os, arch
	return &other
}

// String returns the template as it was given, without secrets.
func (t *Template) String() string { return webclient.Redact(t.text) }

// URL returns the URL of a release's tarball.
func (t *Template) URL(r versions.Release) (*url.URL, error) {
	u, err := t.url(r)
	if err != nil {
		return nil, fmt.Errorf("URL template %q: %w", t, webclient.RedactError(err))
	}
	return u, nil
}

func (t *Template) url(r versions.Release) (*url.URL, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	var out limitedBuilder
	err := t.parsed.Execute(&out, templateData{
		Version: r.Version, Edition: r.Edition,
		OS: t.os, Arch: t.arch,
		Enterprise: r.Edition.Enterprise(), FIPS: r.Edition.FIPS(),
	})
	if err != nil {
		return nil, whyNotExecuted(err)
	}
	u, err := url.Parse(out.String())
	if err != nil {
		return nil, err
	}
	return u, checkReleaseURL(u)
}

// whyNotExecuted leaves out text/template's own words: "template: url:1:9: executing "url" at
// <.Release>: can't evaluate field Release in type …".
func whyNotExecuted(err error) error {
	if _, ok := errors.AsType[template.ExecError](err); !ok {
		return err // of the writer
	}
	_, text, _ := strings.Cut(err.Error(), " at <")
	at, why, _ := strings.Cut(text, ">: ")
	if strings.HasPrefix(why, "can't evaluate field ") {
		return fmt.Errorf("%s is not known (known are .Version, .Edition, .OS, .Arch, .Enterprise and .FIPS)", at)
	}
	return fmt.Errorf("%s: %s", at, why)
}

func checkReleaseURL(u *url.URL) error {
	if u.Fragment != "" {
		return fmt.Errorf("%s: it must not contain a fragment", webclient.Redact(u.String()))
	}
	return schemeOf(u).check(u)
}

// Exposed returns an error if somebody other than root can exchange the files that the template
// names on this host: a checksum beside a tarball does not protect from a user who can write both.
// It is nil for other places.
func (t *Template) Exposed() error {
	for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
		u, err := t.url(versions.Release{Version: "1.2.3", Edition: e})
		if err != nil || u.Scheme != "file" {
			continue
		}
		if err := trust.Path(filepath.Dir(u.Path)); err != nil {
			return err
		}
	}
	return nil
}

type limitedBuilder struct{ strings.Builder }

func (b *limitedBuilder) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxURL {
		return 0, fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	return b.Builder.Write(p)
}
