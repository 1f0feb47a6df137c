package webclient

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// FuzzRedact: whatever a password and a query hold, nothing of them is shown, in
// a URL alone or in the text of an error.
func FuzzRedact(f *testing.F) {
	f.Add("ann", "", "token", "")
	f.Add("a:b", "@/?#", "a;b", "&=%")
	f.Add("", "\x00\n", "", "ü\"'<> ")
	f.Add("ann", "https://", "x", "https://b@c")
	f.Fuzz(func(t *testing.T, user, password, name, value string) {
		const secret = "planted"
		u := url.URL{Scheme: "https", Host: "cdn.example", Path: "/x", User: url.UserPassword(user, secret+password)}
		u.RawQuery = url.QueryEscape(name) + "=" + url.QueryEscape(secret+value)
		if strings.Contains(user+name, secret) {
			return
		}
		for _, shown := range []string{
			Redact(u.String()),
			RedactError(errors.New("fetch " + u.String() + ": not there")).Error(),
			RedactError(&url.Error{Op: "Get", URL: u.String(), Err: errors.New("not there")}).Error(),
		} {
			if strings.Contains(shown, secret) {
				t.Errorf("%q is shown as %q", u.String(), shown)
			}
		}
	})
}

// FuzzRedactAny: what is no URL is shown without what could be user info.
func FuzzRedactAny(f *testing.F) {
	for _, seed := range []string{"https://ann:x@h/{{.Version}", "://", "http:// ann:x@h", "a@b@c?d#e", "%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const secret = "planted"
		if strings.Contains(s, secret) || strings.ContainsAny(s, "/?#\\") {
			return
		}
		if shown := Redact("https://ann:" + secret + "@" + s); strings.Contains(shown, secret) {
			t.Errorf("it is shown as %q", shown)
		}
	})
}
