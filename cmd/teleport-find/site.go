package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
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
)

// site is the server as hosts see it.
type site struct {
	listen    net.IP
	hostnames []string // at least one
	port      int
	encrypted bool
	// caFile is what hosts have to trust; caPEM is the same where it is in no
	// file. Both are empty when the certificate is not self-signed.
	caFile string
	caPEM  []byte
}

func newSite(c *cli.Context, addr *net.TCPAddr, encrypted bool) (*site, error) {
	s := &site{listen: addr.IP, encrypted: encrypted, hostnames: c.StringSlice("hostname")}
	if len(s.hostnames) == 0 {
		host, _, _ := net.SplitHostPort(c.String("listen")) // it has been resolved
		if addr.IP == nil || addr.IP.IsUnspecified() {
			host, _ = os.Hostname()
		}
		s.hostnames = []string{host}
	}
	s.port = 1 // any will do for the check
	for _, name := range s.hostnames {
		if _, err := find.ParseProxy(s.url(name)); err != nil {
			return nil, usageErrorf("--hostname %q: %w", name, err)
		}
	}
	return s, nil
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
		// A CA that was kept may be of a time when the machine had other addresses.
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

// names are all that a host on this machine or beside it may use.
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

// url takes one of the hostnames.
func (s *site) url(host string) string {
	address := net.JoinHostPort(host, strconv.Itoa(s.port))
	if s.encrypted {
		return "https://" + address
	}
	return "http://" + address
}

func (s *site) installCommand(url string) string {
	caFile := s.caFile
	if s.caPEM != nil {
		caFile = "CA.pem"
	}
	if caFile == "" {
		return "curl -fsS " + url + server.InstallScriptPath + " | sh"
	}
	return fmt.Sprintf("curl -fsS --cacert '%s' %s%s | sh -s -- --ca-file '%[1]s'", caFile, url, server.InstallScriptPath)
}

// print says how a host is pointed here, in words that can be copied.
func (s *site) print(w io.Writer, releases, packages bool) error {
	url := s.url(s.hostnames[0])
	command := "teleport-update enable --proxy " + strings.TrimPrefix(url, "https://")
	if s.caFile != "" {
		command += " --ca-file '" + s.caFile + "'"
	} else if s.caPEM != nil {
		command += " --ca-file CA.pem"
	}
	if releases {
		command += " --template '" + url + files.ReleasesPath + files.NameTemplate + "'"
	}
	_, err := fmt.Fprintf(w, "listening on %s\n", url)
	if err == nil && s.caFile != "" {
		_, err = fmt.Fprintf(w, "the CA to trust is in %s\n", s.caFile)
	}
	if err == nil && s.caPEM != nil {
		_, err = fmt.Fprintf(w, "the CA to trust, until this server stops (--state keeps it); save it as CA.pem:\n%s", s.caPEM)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "enable a host with:\n  %s\n", command)
	}
	if err == nil && packages {
		_, err = fmt.Fprintf(w, "or, where the updater is not installed:\n  %s\n", s.installCommand(url))
	}
	return err
}
