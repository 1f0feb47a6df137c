// Package flaghelp prints the flags of a command under headings.
//
// A command lists the flags that most people need first, without a category. The other flags follow, each
// with its heading as the category. The library's own template sorts categories and flags by name.
package flaghelp

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// Command returns the help template of a command: the flags in the order of its list, with a heading wherever the category changes.
func Command() string {
	head, _, _ := strings.Cut(cli.CommandHelpTemplate, "{{if .VisibleFlagCategories}}")
	// The heading of a command is for the program's help alone.
	head = strings.Replace(head, "{{if .Category}}", "{{if false}}", 1)
	return head + `{{if .VisibleFlags}}

OPTIONS:{{$heading := ""}}{{range .VisibleFlags}}{{if ne .GetCategory $heading}}{{$heading = .GetCategory}}
{{if $heading}}
   {{$heading}}:{{end}}{{end}}
   {{wrap .String 6}}{{end}}{{end}}
`
}

// Under puts flags under a heading.
func Under(heading string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Category = heading
		case *cli.StringSliceFlag:
			f.Category = heading
		case *cli.BoolFlag:
			f.Category = heading
		case *cli.IntFlag:
			f.Category = heading
		}
	}
	return flags
}
