package find

import (
	"strings"
	"testing"
)

func TestParseProxy(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"proxy.example", "https://proxy.example"},
		{"proxy.example:443", "https://proxy.example"},
		{"proxy.example:3080", "https://proxy.example:3080"},
		{"PROXY.Example:03080", "https://proxy.example:3080"},
		{"https://proxy.example", "https://proxy.example"},
		{"HTTPS://proxy.example:443/", "https://proxy.example"},
		{"proxy.example/", "https://proxy.example"},
		{"my_proxy", "https://my_proxy"},
		{"10.0.0.1:3080", "https://10.0.0.1:3080"},
		{"[2001:db8::1]", "https://[2001:db8::1]"},
		{"[2001:db8::1]:443", "https://[2001:db8::1]"},
		{"https://[2001:db8::1]:3080/", "https://[2001:db8::1]:3080"},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"http://localhost:80", "http://localhost"},
		{"http://[::1]:8080", "http://[::1]:8080"},
	} {
		got, err := ParseProxy(tc.in)
		if err != nil || got.String() != tc.want {
			t.Errorf("ParseProxy(%q) = %v, %v; want %s", tc.in, got, err, tc.want)
		}
	}
}

func TestParseProxyRefuses(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", "empty"},
		{"https://", "no host"},
		{":443", "no host"},
		{"http://proxy.example", "loopback"},
		{"http://10.0.0.1:8080", "loopback"},
		{"ftp://proxy.example", "https"},
		{"ssh://proxy.example", "https"},
		{"proxy.example/web", "path"},
		{"https://proxy.example//", "path"},
		{"https://proxy.example?x=y", "query"},
		{"https://proxy.example#x", "query"},
		{"ann:secret@proxy.example", "password"},
		{"https://ann:secret@proxy.example:443", "password"},
		{"https://ann:sec/ret@proxy.example", "password"},
		{"https://ann:sec?ret@proxy.example", "password"},
		{"proxy.example:", "port"},
		{"proxy.example:0", "port"},
		{"proxy.example:65536", "port"},
		{"proxy.example:-1", "port"},
		{"proxy.example:+1", "port"},
		{"proxy.example:http", "port"},
		{"::1", "brackets"},
		{"2001:db8::1", "brackets"},
		{"2001:db8::1:443", "brackets"},
		{"[::1", "IPv6"},
		{"[2001:db8::1:443", "IPv6"},
		{"[::1]x", "IPv6"},
		{"[proxy.example]", "IPv6"},
		{"[10.0.0.1]", "IPv6"},
		{"[fe80::1%eth0]", "IPv6"},
		{"proxy example", `' '`},
		{" proxy.example", `' '`},
		{"proxy.example\n", `'\n'`},
		{`proxy\example`, `'\\'`},
		{"proxy%2eexample", `'%'`},
	} {
		got, err := ParseProxy(tc.in)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseProxy(%q) = %v, %v; want an error with %q", tc.in, got, err, tc.want)
		}
		if err != nil && (strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ann:")) {
			t.Errorf("ParseProxy(%q) tells the password: %v", tc.in, err)
		}
	}
}
