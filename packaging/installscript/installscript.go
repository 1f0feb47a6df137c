// Package installscript has the script that brings the updater onto a host,
// install.sh, for a server to serve it. The script says what it does.
package installscript

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed install.sh
var script string

const (
	noServer   = "\n\tserver=''\n"
	noReleases = "\n\treleases=no\n"
)

// safeAddress is what may stand in the script. None of its characters means
// anything to a shell.
var safeAddress = regexp.MustCompile(`^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// For returns the script as the server at that address serves it, a URL without
// a path. releases says whether the server has releases under /releases/; the
// hosts then get them from there, unless they are told otherwise.
func For(address string, releases bool) ([]byte, error) {
	if !safeAddress.MatchString(address) {
		return nil, fmt.Errorf("address %q cannot be put into the install script: want http(s)://HOST[:PORT]", address)
	}
	filled := strings.Replace(script, noServer, "\n\tserver='"+address+"'\n", 1)
	if releases {
		filled = strings.Replace(filled, noReleases, "\n\treleases=yes\n", 1)
	}
	return []byte(filled), nil
}
