package find

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"teleport-update/internal/console"
	"teleport-update/internal/version"
)

func decode(body []byte) (Answer, error) {
	top, err := readObject(body)
	if err != nil {
		if says := describeBody(body); says != "" {
			err = errors.New(says)
		}
		return Answer{}, fmt.Errorf("not the JSON of a find endpoint (%w)", plainSyntax(err))
	}
	settings, autoUpdateName := top, "agent_autoupdate"
	const nested = "auto_update"
	if top["agent_version"] == nil && top[nested] != nil {
		if settings, err = readObject(top[nested]); err != nil {
			return Answer{}, fmt.Errorf("%s: %w", nested, err)
		}
		autoUpdateName = "agent_auto_update"
	}
	if settings["agent_version"] == nil {
		return Answer{}, errors.New("there is no agent_version in it" + top.whyNoVersion())
	}
	agent, err := settings.text("agent_version")
	if err != nil {
		return Answer{}, err
	}
	if agent != "" { // otherwise the cluster names none
		if agent, err = version.Parse(agent); err != nil {
			return Answer{}, fmt.Errorf("agent_version: %w", err)
		}
	}
	autoUpdate, err1 := settings.flag(autoUpdateName)
	jitter, err2 := settings.seconds("agent_update_jitter_seconds")
	groupUnknown, err3 := top.flag("agent_group_unknown")
	build, err4 := edition(top)
	retryFailed, err5 := top.moment("retry_failed")
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return Answer{}, err
	}
	if agent == "" { // the rest means nothing without a version
		return Answer{Edition: build, GroupUnknown: groupUnknown}, nil
	}
	return Answer{Version: agent, Edition: build, AutoUpdate: autoUpdate, Jitter: jitter, GroupUnknown: groupUnknown,
		RetryFailed: retryFailed, ReleaseTemplate: top.releaseTemplate()}, nil
}

func edition(top object) (version.Edition, error) {
	if top["server_edition"] != nil {
		text, err := top.text("server_edition")
		if err != nil {
			return "", err
		}
		e, err := version.ParseEdition(text)
		if err != nil {
			return "", fmt.Errorf("server_edition: %w", err)
		}
		return e, nil
	}
	if top["edition"] == nil {
		return "", errors.New("there is neither server_edition nor edition in it")
	}
	text, err1 := top.text("edition")
	fips, err2 := top.flag("fips")
	if err := cmp.Or(err1, err2); err != nil {
		return "", err
	}
	switch {
	case text == "ent" && fips:
		return version.FIPS, nil
	case text == "ent":
		return version.Enterprise, nil
	case (text == "oss" || text == "community") && !fips:
		return version.OSS, nil
	}
	return "", fmt.Errorf("there is no edition %.40q with fips %t", text, fips)
}

// object holds the members of a JSON object that are not null, by their exact names.
// (Unmarshalling into a struct would also take "Agent_Version", and the last of several members
// with one name.)
type object map[string]json.RawMessage

// readObject reads data, which must be one object and nothing after it.
func readObject(data []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	first, err := decoder.Token()
	if err == io.EOF {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	if first != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	members := make(object)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder has made sure
		if _, seen := members[name]; seen {
			return nil, fmt.Errorf("%.40q appears twice", name)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		members[name] = value
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more follows after the object")
	}
	maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return members, nil
}

// describeBody describes bytes that are no JSON, and is empty if their form is unknown.
func describeBody(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")), bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("\xfe\xff")):
		return "it begins with a byte order mark, which something before the proxy has put there"
	case bytes.HasPrefix(body, []byte("\x1f\x8b")):
		return "it is compressed, and nobody asked for that: something before the proxy has changed it"
	}
	return ""
}

// whyNoVersion explains why a proxy's answer has no version for agents.
func (o object) whyNoVersion() string {
	server, err := o.text("server_version")
	if server, bad := version.Parse(server); err == nil && bad == nil {
		return fmt.Sprintf(": the cluster runs Teleport %s and names no version for its agents, for it is older than Managed "+
			"Updates of agents, or they are not set up in it", server)
	}
	return ": what answered is no proxy with Managed Updates of agents, and no find server"
}

// plainSyntax describes an error of encoding/json without its terms: the answer itself is quoted
// anyway.
func plainSyntax(err error) error {
	syntax, isSyntax := errors.AsType[*json.SyntaxError](err)
	// From Go 1.27 on, the end of the text between two tokens is a syntax error.
	endsEarly := isSyntax && syntax.Error() == "unexpected end of JSON input"
	switch {
	case endsEarly || err == io.EOF || err == io.ErrUnexpectedEOF:
		return errors.New("it ends in the middle")
	case isSyntax:
		return fmt.Errorf("invalid from byte %d on", syntax.Offset)
	}
	return err
}

func (o object) text(name string) (string, error) { return member[string](o, name, "a string") }

func (o object) flag(name string) (bool, error) { return member[bool](o, name, "true or false") }

// moment returns a time in UTC and whole seconds.
func (o object) moment(name string) (time.Time, error) {
	const want = "a time such as 2025-06-02T13:00:00Z"
	t, err := member[time.Time](o, name, want)
	if err != nil || o[name] == nil {
		return time.Time{}, err
	}
	return t.UTC().Truncate(time.Second), nil
}

// releaseTemplate is empty for a text that is not short and printable.
func (o object) releaseTemplate() string {
	text, err := o.text("release_template")
	if err != nil || !offerable(text) {
		return ""
	}
	return text
}

// offerable reports whether a text may stand in an answer as its release template.
func offerable(text string) bool {
	unprintable := func(r rune) bool { return !console.Printable(r) }
	return len(text) <= MaxReleaseTemplate && !strings.ContainsFunc(text, unprintable)
}

func (o object) seconds(name string) (time.Duration, error) {
	const limit = int64(MaxJitter / time.Second)
	want := fmt.Sprintf("a whole number from 0 to %d", limit)
	n, err := member[int64](o, name, want)
	if err == nil && (n < 0 || n > limit) {
		err = unwanted(o, name, want)
	}
	return time.Duration(n) * time.Second, err
}

// member returns the zero value if there is no member of that name.
func member[T any](o object, name, want string) (v T, err error) {
	if o[name] != nil && json.Unmarshal(o[name], &v) != nil {
		err = unwanted(o, name, want)
	}
	return v, err
}

func unwanted(o object, name, want string) error {
	return fmt.Errorf("%s is %s, want %s", name, Excerpt(o[name], 40), want)
}
