package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"teleport-update/internal/golden"
)

// TestEveryMessageIsUnderReview: what both programs can say to a person, in one file,
// so that whoever reviews a change of words sees the words. Texts are sorted within
// their package, for code that moves says nothing new.
func TestEveryMessageIsUnderReview(t *testing.T) {
	said := map[string][]string{}
	sources(t, func(_ string, files *token.FileSet, file *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(files.Position(file.Pos()).Filename))
		dir = strings.TrimPrefix(dir, "../../")
		said[dir] = append(said[dir], messages(file)...)
	})
	var text strings.Builder
	text.WriteString("# What teleport-update and teleport-find say, by package. Written by the test that compares it: see CONTRIBUTING.md.\n")
	dirs := make([]string, 0, len(said))
	for dir := range said {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		lines := said[dir]
		slices.Sort(lines)
		if lines = slices.Compact(lines); len(lines) > 0 {
			text.WriteString("\n## " + dir + "\n\n" + strings.Join(lines, "\n") + "\n")
		}
	}
	golden.File(t, "testdata/messages.txt", text.String())
}

var (
	words = regexp.MustCompile(`\pL[\pL%'’,;:.)\]]* [(\[]?[\pL%]`)
	sql   = regexp.MustCompile(`^\s*(CREATE|SELECT|INSERT|UPDATE|DELETE|PRAGMA|BEGIN|VACUUM|ALTER|DROP|WITH|ATTACH) `)
)

// messages are the texts of a file that are more than one word. One that is put
// together from several literals is one.
func messages(file ast.Node) (texts []string) {
	say := func(text string) {
		if words.MatchString(text) && !sql.MatchString(text) {
			quoted := strconv.Quote(text)
			texts = append(texts, strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			// A tag is for programs.
			return n.Tag == nil
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			text := ""
			for _, term := range terms(n) {
				if more, ok := literal(term); ok {
					text += more
					continue
				}
				say(text)
				text = ""
				texts = append(texts, messages(term)...)
			}
			say(text)
			return false
		case *ast.BasicLit:
			text, _ := literal(n)
			say(text)
		}
		return true
	})
	return texts
}

// terms are what a sum is of.
func terms(e ast.Expr) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(terms(sum.X), terms(sum.Y)...)
	}
	return []ast.Expr{e}
}

func literal(e ast.Expr) (text string, ok bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// joined is a text of literals and nothing else.
func joined(e ast.Expr) (text string, ok bool) {
	for _, term := range terms(e) {
		more, ok := literal(term)
		if !ok {
			return "", false
		}
		text += more
	}
	return text, true
}
