package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

// api calls the admin API without a network.
type api struct {
	handler http.Handler
	as      func(ctx context.Context, token string, role adminapi.Role) context.Context
}

// refusal is an error in the answer of the admin API.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// maxRefusal bounds the text of a refusal, in characters.
const maxRefusal = 2000

// ask sends a visitor's request to the admin API and reads the answer. Each text in the answer becomes one line. An error of the
// API is a *refusal.
func (a *api) ask(v *visit, method, path string, body, answer any) error {
	data, err := a.raw(v, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer of the admin API is not understood: %w", err)
	}
	console.Lines(answer)
	return nil
}

// raw is ask for an answer that is parsed elsewhere. A body of bytes is sent as it is.
func (a *api) raw(v *visit, method, path string, body any) ([]byte, error) {
	var sent io.Reader = strings.NewReader("")
	switch body := body.(type) {
	case nil:
	case []byte:
		sent = bytes.NewReader(body)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(a.as(v.Context(), v.Token, v.Role), method, path, sent)
	if err != nil {
		return nil, err
	}
	reply := response{header: make(http.Header), status: http.StatusOK}
	a.handler.ServeHTTP(&reply, req)
	if reply.status == http.StatusOK {
		return reply.body.Bytes(), nil
	}
	var said adminapi.Error
	if json.Unmarshal(reply.body.Bytes(), &said) != nil || said.Error == "" {
		said.Error = http.StatusText(reply.status)
	}
	return nil, &refusal{reply.status, console.Excerpt(said.Error, maxRefusal)}
}

// response is the response of a handler, in memory.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter, as the others do.
func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }
