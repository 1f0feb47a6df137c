package rollout

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
)

// MaxNotify is how many webhooks a store may have.
const MaxNotify = 20

// Notify is the resource autoupdate_notify. There may be several, each with a name of its own.
//
//	kind: autoupdate_notify
//	metadata: {name: pager}
//	spec:
//	  url: https://pager.example.com/hooks/teleport   # or url_file
//	  secret_file: /etc/teleport-find/pager.secret
//	  kinds: [halted, stalled, blocked]
//
// A resource holds no secret: output of "get" and backups can be shown. A URL with a
// secret in its user info, query or path belongs in a file of its own.
type Notify struct {
	Kind     string     `json:"kind" yaml:"kind"`
	Version  string     `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata   `json:"metadata" yaml:"metadata"`
	Spec     NotifySpec `json:"spec" yaml:"spec"`
}

// NotifySpec says where events go. All paths are on the server that sends: each server
// of a store needs the files.
type NotifySpec struct {
	// URL is https, or http on a loopback address, without user info, query and fragment.
	URL string `json:"url,omitempty" yaml:"url,omitempty"`
	// URLFile is an absolute path of a file with the URL, of any form. One of the two is given.
	URLFile string `json:"url_file,omitempty" yaml:"url_file,omitempty"`
	// SecretFile is an absolute path of a file with the keys of the signature, one in a line.
	SecretFile string `json:"secret_file" yaml:"secret_file"`
	// CAFile is an absolute path of a PEM file with further authorities to trust.
	CAFile string `json:"ca_file,omitempty" yaml:"ca_file,omitempty"`
	// Kinds are the kinds of events that are sent.
	Kinds []NoticeKind `json:"kinds" yaml:"kinds,flow"`
}

// NotifyKey returns the key of the webhook with a name.
func NotifyKey(name string) string { return KindNotify + "/" + name }

// Key returns the key of a resource: its kind, or its kind and name if there are several.
func Key(r Resource) string {
	switch r.GetKind() {
	case KindNotify:
		return NotifyKey(r.GetMetadata().Name)
	case KindReport:
		return ReportKey(r.GetMetadata().Name)
	}
	return r.GetKind()
}

// GetKind implements Resource.
func (n *Notify) GetKind() string { return KindNotify }

// GetMetadata implements Resource.
func (n *Notify) GetMetadata() *Metadata { return &n.Metadata }

// maxURL is more than any receiver of webhooks asks for.
const maxURL = 2000

var notifyName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check implements Resource.
func (n *Notify) Check() error {
	if err := checkHead(n.Kind, KindNotify, n.Version, n.Metadata, ""); err != nil {
		return err
	}
	s := n.Spec
	switch {
	case !notifyName.MatchString(n.Metadata.Name):
		return fmt.Errorf("metadata.name: %s is not up to 63 of a to z, 0 to 9 and - between them", excerpt(n.Metadata.Name))
	case (s.URL == "") == (s.URLFile == ""):
		return errors.New("spec: want either url or url_file")
	case s.SecretFile == "":
		return errors.New("spec.secret_file: it is missing")
	case len(s.Kinds) == 0:
		return fmt.Errorf("spec.kinds: name at least one of %s", noticeWords())
	}
	for _, file := range []struct{ field, path string }{{"url_file", s.URLFile}, {"secret_file", s.SecretFile}, {"ca_file", s.CAFile}} {
		if file.path != "" && !filepath.IsAbs(file.path) {
			return fmt.Errorf("spec.%s: %s is not an absolute path", file.field, excerpt(file.path))
		}
	}
	for i, k := range s.Kinds {
		if slices.Contains(s.Kinds[:i], k) {
			return fmt.Errorf("spec.kinds[%d]: %s is there already", i, k)
		}
	}
	if s.URL == "" {
		return nil
	}
	return checkNotifyURL(s.URL)
}

// checkNotifyURL does not quote the URL, which may hold a secret.
func checkNotifyURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || len(text) > maxURL:
		return errors.New("spec.url: it is no URL such as https://pager.example.com/hook")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("spec.url: a URL with a password or a query may be secret, and resources are not: put it into a file, " +
			"and name that as spec.url_file")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return errors.New("spec.url: events are sent over https, or over http to a loopback address")
}
