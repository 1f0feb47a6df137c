// Package installscript has install.sh, the script that installs the updater on a host,
// for a server to serve. The script explains itself.
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

// safeAddress matches addresses that may stand in the script. None of their characters
// means anything to a shell.
var safeAddress = regexp.MustCompile(`^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// For returns the script with a server's address, a URL without a path. releases says
// whether the server has releases under /releases/. Hosts then get them from there by
// default.
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
