package find

import (
	"strings"
	"testing"

	"teleport-update/internal/webclient"
)

// FuzzParseProxy: what is taken for the address of a proxy may be asked, has
// nothing but a scheme and a host, and is itself when read again; an error
// repeats no password.
func FuzzParseProxy(f *testing.F) {
	for _, seed := range []string{"proxy.example", "proxy.example:443", "https://Proxy.Example/", "http://127.0.0.1:3080", "[::1]:443", "http://proxy.example",
		"https://ann:planted@proxy.example", "proxy.example/x", "proxy.example?x", "javascript:1", "a b", "https://[::1%25eth0]/", "127.0.0.1.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseProxy(s)
		if err != nil {
			return
		}
		if u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Host == "" || strings.ContainsAny(u.Host, "/\\@?# ") {
			t.Errorf("%q was read as %+v", s, u)
		}
		if err := webclient.CheckURL(u); err != nil {
			t.Errorf("%q was taken: %v", s, err)
		}
		if again, err := ParseProxy(u.String()); err != nil || again.String() != u.String() {
			t.Errorf("%q became %v, %v", u, again, err)
		}
	})
}
