package fetch

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

// ParseOffered parses a template from a server, whose author is not root: it accepts only ASCII
// text, values and if. A function or a variable could make a gigabyte of a few bytes (printf
// "%999999d"). The URL leads to a web server, and has no user info and no query, which are left
// out when a command is shown. The caller bounds the length.
func ParseOffered(text string) (*Template, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("the template has characters that are not printable ASCII")
	}
	trees, err := parse.Parse("url", text, "", "", map[string]any{})
	if err != nil {
		return nil, fmt.Errorf("the template is not one of values and if: %s", placeInTemplate.ReplaceAllString(err.Error(), ""))
	}
	if len(trees) > 1 || trees["url"] == nil || !plainNodes(trees["url"].Root) {
		return nil, errors.New("the template has more than text, values and if")
	}
	t, err := ParseTemplate(text)
	if err != nil {
		return nil, err
	}
	if t.String() != text {
		return nil, fmt.Errorf("URL template %q: it must have no user info and no query", t)
	}
	for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
		u, err := t.url(versions.Release{Version: "1.2.3", Edition: e})
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("URL template %q: it leads to no web server", t)
		}
	}
	return t, nil
}

// plainNodes reports whether a template consists of text, values such as .Version, and if of a value.
func plainNodes(list *parse.ListNode) bool {
	if list == nil {
		return true
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
		case *parse.ActionNode:
			if !plainValue(n.Pipe) {
				return false
			}
		case *parse.IfNode:
			if !plainValue(n.Pipe) || !plainNodes(n.List) || !plainNodes(n.ElseList) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func plainValue(p *parse.PipeNode) bool {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	field, is := p.Cmds[0].Args[0].(*parse.FieldNode)
	return is && len(field.Ident) == 1
}
