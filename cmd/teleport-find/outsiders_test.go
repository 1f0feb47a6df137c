package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
	"teleport-update/internal/console/consoletest"
)

// answersOf are the types of the admin API's answers, and the commands that show them, with their words.
var answersOf = []struct {
	path     string
	value    any
	commands []string
}{
	{"/v1/overview", adminapi.Overview{}, []string{"status"}},
	{"/v1/hosts", adminapi.Hosts{}, []string{"hosts"}},
	{"/v1/hosts/x", adminapi.Host{}, []string{"hosts x --as-if"}},
	{"/v1/why", adminapi.Why{}, nil}, // host shows it
	{"/v1/history", adminapi.History{}, []string{"history"}},
	{"/v1/tokens", adminapi.Tokens{}, []string{"token"}},
	{"/v1/access", adminapi.AccessTokens{}, []string{"token"}},
	{"/v1/channels", adminapi.Channels{}, []string{"channels"}},
	{"/v1/orders", adminapi.OrderResult{}, []string{"rollout start g", "rollout done g", "rollout back g", "rollout retry g"}},
	{"/v1/resources", adminapi.Result{}, []string{"set-version 1.2.3"}},
}

// legal are words of types that take no others; such a type lets no word of an outsider's pass.
var legal = []string{"1.2.3", "active", "enabled", "regular", "halt-on-error", "last-group", "50%", "1h", "mon", "failed"}

// fill gives every string below a value the word, and every list and map an element.
func fill(v reflect.Value, word string, depth int) {
	if depth > 8 {
		return
	}
	if known, is := v.Addr().Interface().(encoding.TextUnmarshaler); is && v.Kind() != reflect.Struct {
		for _, text := range legal {
			if known.UnmarshalText([]byte(text)) == nil {
				return
			}
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(word)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), word, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), word, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, word, depth+1)
		fill(value, word, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1800000000, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), word, depth+1)
			}
		}
	}
}

// hostileServer answers each question with the word in every string; the other way round, with an
// error of that word, or with something that is no answer.
func hostileServer(t *testing.T, word, how string) (socket string) {
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch how {
		case "an error":
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": word})
			return
		case "no answer":
			_, _ = io.WriteString(w, word)
			return
		case "a reason":
			c, _, _ := w.(http.Hijacker).Hijack()
			fmt.Fprintf(c, "HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n", strings.NewReplacer("\n", " ", "\r", " ").Replace(word[:min(len(word), 8000)]))
			c.Close()
			return
		}
		for _, a := range answersOf {
			if a.path == r.URL.Path {
				value := reflect.New(reflect.TypeOf(a.value)).Elem()
				fill(value, word, 0)
				if page, is := value.Addr().Interface().(*adminapi.Hosts); is {
					page.Next = "" // else there is no last page
				}
				_ = json.NewEncoder(w).Encode(value.Interface())
				return
			}
		}
		w.WriteHeader(http.StatusNotFound) // as of a resource that nobody has set
		_ = json.NewEncoder(w).Encode(adminapi.Error{Error: word})
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return socket
}

// Every kind of word, in every string that a server may send and in its errors, before every command
// and in every format: a terminal is sent nothing but printable text. JSON and YAML stay what they are, with the same values.
func TestWordsOfOthersDriveNoTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are started and stopped again and again")
	}
	for _, kind := range slices.Sorted(maps.Keys(consoletest.Words())) {
		t.Run(kind, func(t *testing.T) {
			for _, how := range []string{"fields", "an error", "a reason", "no answer"} {
				word := consoletest.Words()[kind]
				if how == "fields" {
					word = word[:min(len(word), 300)] // the server bounds what it keeps
				}
				socket := hostileServer(t, word, how)
				for _, a := range answersOf {
					for _, command := range a.commands {
						slave, shown := consoletest.Terminal(t, 120)
						for _, format := range formats {
							words := strings.Fields(command)
							args := slices.Concat([]string{"teleport-find"}, words, []string{"--admin-socket", socket, "-o", format})
							run(args, slave, slave)
							var out, errors bytes.Buffer
							code := run(args, &out, &errors)
							if (code == 0) != (how == "fields") || code == 2 {
								t.Errorf("%s, %s, -o %s: exit code %d: %.300q", how, command, format, code, errors.String())
							}
							if len(errors.Bytes()) > maxErrors {
								t.Errorf("%s, %s: an error of %d bytes", how, command, errors.Len())
							}
							if how == "fields" {
								checkDocument(t, command, format, out.Bytes())
							}
						}
						if err := consoletest.Check(shown(), true); err != nil {
							t.Errorf("%s, %s: %v", how, command, err)
						}
					}
				}
			}
		})
	}
}

// maxErrors is how much of an error is shown, whoever chose its words, in bytes.
const maxErrors = 20 << 10

func checkDocument(t *testing.T, command, format string, data []byte) {
	t.Helper()
	switch format {
	case "json":
		for line := range bytes.Lines(data) {
			if !json.Valid(line) {
				t.Errorf("%s prints no JSON: %.300q", command, line)
			}
		}
	case "yaml":
		var back any
		if err := yaml.Unmarshal(data, &back); err != nil {
			t.Errorf("%s prints no YAML: %v: %.300q", command, err, data)
		}
	}
}

// throughOutput is what comes out of a standard stream.
func throughOutput(data []byte) []byte {
	var out bytes.Buffer
	_, _ = console.To(&out).Write(data)
	return out.Bytes()
}

// A name that is not printable is the same name in what is printed.
func TestEscapesKeepTheirValue(t *testing.T) {
	for _, name := range []string{"\u202egnp.exe", "a\u2028b", "tag\U000e0041", "a\u009bb"} {
		asJSON, err := json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yamlOf(asJSON)
		if err != nil {
			t.Fatal(err)
		}
		var back struct{ Name string }
		if err := yaml.Unmarshal(throughOutput(asYAML), &back); err != nil || back.Name != name {
			t.Errorf("YAML has %q for %q (%v)", back.Name, name, err)
		}
		if err := json.Unmarshal(throughOutput(asJSON), &back); err != nil || back.Name != name {
			t.Errorf("JSON has %q for %q (%v)", back.Name, name, err)
		}
	}
}
