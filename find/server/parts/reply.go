package parts

import (
	"encoding/json"
	"net/http"
)

// Reply answers with a status and a body in JSON.
func Reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// Header values shared by all answers; net/http only reads them.
var (
	JsonType  = []string{"application/json"}
	PlainText = []string{"text/plain; charset=utf-8"}
	NoStore   = []string{"no-store"}
)
