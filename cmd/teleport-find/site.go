package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
	"teleport-update/internal/durable"
	"teleport-update/packaging/installscript"
)

// site is the server from the hosts' point of view.
type site struct {
	listen    net.IP
	hostnames []string // at least one
	port      int
	encrypted bool
	public    *url.URL // the URL of the server for hosts, from --public-url; nil: by the listener
	// caFile is the CA for hosts to trust; caPEM is the same if it is in no file. Both
	// are empty if the certificate is not self-signed.
	caFile string
	caPEM  []byte
}

func newSite(c *cli.Context, addr *net.TCPAddr, encrypted bool) (*site, error) {
	s := &site{listen: addr.IP, encrypted: encrypted, hostnames: c.StringSlice("hostname")}
	if len(s.hostnames) == 0 {
		host, _, _ := net.SplitHostPort(c.String("listen")) // checked before
		if addr.IP == nil || addr.IP.IsUnspecified() {
			host, _ = os.Hostname()
		}
		s.hostnames = []string{host}
	}
	if text := c.String("public-url"); text != "" {
		if err := s.setPublic(text); err != nil {
			return nil, usageErrorf("--public-url: %w", err)
		}
	}
	s.port = 1 // any port will do for the check
	for _, name := range s.hostnames {
		if _, err := find.ParseProxy(s.url(name)); err != nil {
			return nil, usageErrorf("--hostname %q: %w", name, err)
		}
	}
	return s, nil
}

func (s *site) setPublic(text string) error {
	if !strings.Contains(text, "://") {
		return fmt.Errorf("%q has no scheme: want https://HOST[:PORT]", text)
	}
	public, err := find.ParseProxy(text)
	if err != nil {
		return err
	}
	s.public = public
	_, err = installscript.For(s.address(), false)
	return err
}

// address is the URL by which hosts reach the server.
func (s *site) address() string {
	if s.public != nil {
		return s.public.String()
	}
	return s.url(s.hostnames[0])
}

// isKnown reports whether address is right for other hosts. Only a proxy on this machine can
// reach a loopback listener for them, and only --public-url names the proxy's address.
func (s *site) isKnown() bool { return s.public != nil || !s.listen.IsLoopback() }

// installScript returns nil if no address is right for other hosts.
func (s *site) installScript(releases bool) ([]byte, error) {
	if !s.isKnown() {
		return nil, nil
	}
	return installscript.For(s.address(), releases)
}

// showsOwnCA reports whether hosts see the self-signed certificate, and not a proxy's.
func (s *site) showsOwnCA() bool {
	if s.public == nil {
		return true
	}
	names, err := s.names()
	if err != nil {
		names = s.hostnames
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, s.public.Hostname()) })
}

// tls returns nil for plain http. reload reads the certificate's files again.
func (s *site) tls(c *cli.Context) (config *tls.Config, reload func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case c.String("cert") != "":
		pair, err := parts.LoadKeyPair(c.String("cert"), c.String("key"))
		if err != nil {
			return nil, nil, err
		}
		return pair.Config(), pair.Reload, nil
	case c.Bool("self-signed"):
		names, err := s.names()
		if err != nil {
			return nil, nil, err
		}
		authority, err := s.authority(c, names)
		if err != nil {
			return nil, nil, err
		}
		// A stored CA may be from a time when the machine had other addresses.
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.Contains(s.hostnames, name) && !authority.Permits(name)
		})
		config, err := authority.Config(names)
		return config, nothing, err
	}
	return nil, nothing, nil
}

func (s *site) authority(c *cli.Context, names []string) (*parts.Authority, error) {
	var authority *parts.Authority
	var err error
	if dir := c.String("state"); dir != "" {
		authority, err = parts.LoadAuthority(dir, names...)
		s.caFile = filepath.Join(dir, parts.AuthorityFile)
	} else {
		authority, err = parts.NewAuthority(names...)
	}
	if err != nil {
		return nil, err
	}
	if out := c.String("ca-out"); out != "" {
		if err := durable.WriteFile(out, authority.PEM(), 0o644); err != nil {
			return nil, err
		}
		s.caFile = out
	}
	if s.caFile == "" {
		s.caPEM = authority.PEM()
		return authority, nil
	}
	s.caFile, err = filepath.Abs(s.caFile)
	return authority, err
}

// names returns all names that a host on this machine or beside it may use.
func (s *site) names() ([]string, error) {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, s.hostnames...)
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	if s.listen != nil && !s.listen.IsUnspecified() {
		names = append(names, s.listen.String())
	} else {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("list this machine's addresses: %w", err)
		}
		for _, addr := range addrs {
			if network, ok := addr.(*net.IPNet); ok {
				names = append(names, network.IP.String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// url returns the URL with one of the hostnames.
func (s *site) url(host string) string {
	address := net.JoinHostPort(host, strconv.Itoa(s.port))
	if s.encrypted {
		return "https://" + address
	}
	return "http://" + address
}

// trusted returns the file of the CA for hosts to trust, or "" if they need none.
func (s *site) trusted() string {
	switch {
	case !s.showsOwnCA():
		return ""
	case s.caPEM != nil:
		return "CA.pem"
	}
	return s.caFile
}

func (s *site) installCommand() string {
	script := s.address() + server.InstallScriptPath
	if s.trusted() == "" {
		return "curl -fsS " + script + " | sh"
	}
	return fmt.Sprintf("curl -fsS --cacert '%s' %s | sh -s -- --ca-file '%[1]s'", s.trusted(), script)
}

// print prints commands that point a host to this server.
func (s *site) print(w io.Writer, releases, packages bool) error {
	command := "teleport-update enable --proxy " + strings.TrimPrefix(s.address(), "https://")
	switch ca := s.trusted(); ca {
	case "":
	case "CA.pem":
		command += " --ca-file CA.pem"
	default:
		command += " --ca-file '" + ca + "'"
	}
	if releases {
		command += " --template '" + s.address() + files.ReleasesPath + files.NameTemplate + "'"
	}
	_, err := fmt.Fprintf(w, "listening on %s\n", s.url(s.hostnames[0]))
	if err == nil && s.caFile != "" {
		_, err = fmt.Fprintf(w, "the CA to trust is in %s\n", s.caFile)
	}
	if err == nil && s.caPEM != nil {
		_, err = fmt.Fprintf(w, "the CA to trust, until this server stops (--state keeps it); save it as CA.pem:\n%s", s.caPEM)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "enable a host with:\n  %s\n", command)
	}
	switch {
	case err != nil || !packages:
	case s.isKnown():
		_, err = fmt.Fprintf(w, "or, where the updater is not installed:\n  %s\n", s.installCommand())
	default:
		_, err = fmt.Fprintln(w, "the install script is not served: a loopback address means another server on each host; "+
			"--public-url names the address by which hosts reach this one")
	}
	return err
}
