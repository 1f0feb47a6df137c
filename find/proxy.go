package find

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"teleport-update/internal/webclient"
)

// ParseProxy reads the address of a proxy as operators write it: "host",
// "host:port" or "https://host[:port]", with IPv6 addresses in brackets, and
// "http://" for loopback addresses only. The URL it returns has a scheme and a
// host and nothing else; spellings of one address (letter case, the default
// port, a slash at the end) give equal URLs.
//
// The error never repeats a password that somebody put into the address.
func ParseProxy(s string) (*url.URL, error) {
	u, err := parseProxy(s)
	if err != nil {
		return nil, fmt.Errorf("proxy address %q: %w", webclient.Redact(s), err)
	}
	return u, nil
}

func parseProxy(s string) (*url.URL, error) {
	switch {
	case s == "":
		return nil, errors.New("it is empty")
	case strings.Contains(s, ","):
		return nil, errors.New("it must be one address, and is a list: name the first of them")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "https", s
	}
	scheme = strings.ToLower(scheme)
	if scheme == "tcp" {
		return nil, errors.New("the scheme must be https, or none: leave out tcp://")
	}
	address := strings.ToLower(strings.TrimSuffix(rest, "/"))
	switch {
	case strings.Contains(address, "@"):
		return nil, errors.New("it must not contain a user name or a password")
	case strings.ContainsAny(address, "?#"):
		return nil, errors.New("it must not contain a query or a fragment")
	case strings.Contains(address, "/"):
		return nil, errors.New("it must not contain a path")
	}
	host, port, err := splitPort(address)
	if err != nil {
		return nil, err
	}
	if err := checkHost(host); err != nil {
		return nil, err
	}
	standard := scheme == "https" && port == "443" || scheme == "http" && port == "80"
	u := &url.URL{Scheme: scheme, Host: host}
	if port != "" && !standard {
		u.Host += ":" + port
	}
	if err := webclient.CheckURL(u); err != nil {
		// The address is named already.
		return nil, errors.New(strings.TrimPrefix(err.Error(), webclient.Redact(u.String())+": "))
	}
	return u, nil
}

// WithPort returns the address of a proxy with a port, if it is an https address without one;
// otherwise the address as it is, and ok is false.
func WithPort(address string, port int) (with string, ok bool) {
	if address == "" || strings.HasPrefix(strings.ToLower(address), "http://") {
		return address, false
	}
	bare := strings.TrimSuffix(address, "/")
	if scheme, rest, ok := strings.Cut(bare, "://"); ok && strings.EqualFold(scheme, "https") {
		bare = rest
	}
	if _, has, err := splitPort(bare); err != nil || has != "" || strings.ContainsAny(bare, "/, ") { // not in a host, see ParseProxy
		return address, false
	}
	return strings.TrimSuffix(address, "/") + ":" + strconv.Itoa(port), true
}

// splitPort keeps the brackets of an IPv6 address.
func splitPort(address string) (host, port string, err error) {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 || colon < strings.LastIndexByte(address, ']') { // or it is inside the brackets
		return address, "", nil
	}
	host, port = address[:colon], address[colon+1:]
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "", "", errors.New("an IPv6 address needs brackets, as in [2001:db8::1]:443")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "", fmt.Errorf("the port %.20q is not a number from 1 to 65535", port)
	}
	return host, strconv.FormatUint(n, 10), nil
}

func checkHost(host string) error {
	if host == "" {
		return errors.New("there is no host name")
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return fmt.Errorf("%.60q is not an IPv6 address", host)
		}
		return nil
	}
	for _, r := range host {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r) {
			return fmt.Errorf("a host name cannot hold %q", r)
		}
	}
	return nil
}
