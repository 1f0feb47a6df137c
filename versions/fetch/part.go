package fetch

import (
	"io"
	"net/url"

	"teleport-update/internal/webclient"
)

// place is where a source looks for a tarball or a file beside it.
type place struct {
	url  *url.URL
	name string // the URL as it may be logged
}

func placeAt(u *url.URL) place { return place{url: u, name: webclient.Redact(u.String())} }

// validator identifies one state of the content behind a URL, as far as the server says it (RFC
// 9110, section 8.8).
type validator struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// contradicts reports whether the two cannot belong to the same content. Dates decide only
// if a tag is missing.
func (v validator) contradicts(w validator) bool {
	if v.ETag != "" && w.ETag != "" {
		return v.ETag != w.ETag
	}
	return v.LastModified != "" && w.LastModified != "" && v.LastModified != w.LastModified
}

// part is a tarball from some byte on, being received.
type part struct {
	body   io.ReadCloser
	offset int64 // of the first byte
	total  int64 // bytes of the whole tarball; -1 if unknown
	valid  validator
	// local reports that the tarball is on this host, so that a kept copy would be a second one.
	local bool
}
