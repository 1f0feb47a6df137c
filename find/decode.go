package find

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"teleport-update/internal/version"
)

func decode(body []byte) (Answer, error) {
	top, err := readObject(body)
	if err != nil {
		return Answer{}, fmt.Errorf("not the JSON of a find endpoint (%w)", plainSyntax(err))
	}
	settings, autoUpdateName := top, "agent_autoupdate"
	if top["agent_version"] == nil {
		if settings, err = top.object("auto_update"); err != nil {
			return Answer{}, err
		}
		autoUpdateName = "agent_auto_update"
	}
	if settings["agent_version"] == nil {
		return Answer{}, errors.New("there is no agent_version in it")
	}
	var a Answer
	text, err := settings.text("agent_version")
	if err != nil {
		return Answer{}, err
	}
	if text != "" { // else the cluster names none
		if a.Version, err = version.Parse(text); err != nil {
			return Answer{}, fmt.Errorf("agent_version: %w", err)
		}
	}
	if a.AutoUpdate, err = settings.flag(autoUpdateName); err != nil {
		return Answer{}, err
	}
	if a.Jitter, err = settings.seconds("agent_update_jitter_seconds"); err != nil {
		return Answer{}, err
	}
	if a.GroupUnknown, err = top.flag("agent_group_unknown"); err != nil {
		return Answer{}, err
	}
	if a.Edition, err = edition(top); err != nil {
		return Answer{}, err
	}
	if a.Version == "" {
		a = Answer{Edition: a.Edition, GroupUnknown: a.GroupUnknown} // the rest says nothing without a version
	}
	return a, nil
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
	text, err := top.text("edition")
	if err != nil {
		return "", err
	}
	fips, err := top.flag("fips")
	if err != nil {
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

// object holds the members of a JSON object that are not null, by their exact
// names. (Unmarshalling into a struct would also take "Agent_Version", and of
// a name that comes twice the last.)
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
	seen := make(map[string]bool)
	members := make(object)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, noEOF(err)
		}
		name := token.(string) // the decoder has made sure
		if seen[name] {
			return nil, fmt.Errorf("%.40q appears twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, noEOF(err)
		}
		if string(value) != "null" {
			members[name] = value
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, noEOF(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more follows after the object")
	}
	return members, nil
}

// plainSyntax says what encoding/json finds wrong without its terms: the answer
// itself is quoted anyway.
func plainSyntax(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("invalid from byte %d on", syntax.Offset)
	}
	if err == io.ErrUnexpectedEOF {
		return errors.New("it ends in the middle")
	}
	return err
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object returns an empty one when there is none of that name.
func (o object) object(name string) (object, error) {
	if o[name] == nil {
		return nil, nil
	}
	inner, err := readObject(o[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return inner, nil
}

func (o object) text(name string) (string, error) { return member[string](o, name, "a string") }

func (o object) flag(name string) (bool, error) { return member[bool](o, name, "true or false") }

func (o object) seconds(name string) (time.Duration, error) {
	const limit = int64(MaxJitter / time.Second)
	want := fmt.Sprintf("a whole number from 0 to %d", limit)
	n, err := member[int64](o, name, want)
	if err == nil && (n < 0 || n > limit) {
		err = unwanted(o, name, want)
	}
	return time.Duration(n) * time.Second, err
}

// member returns the zero value when there is none of that name.
func member[T any](o object, name, want string) (v T, err error) {
	if o[name] != nil && json.Unmarshal(o[name], &v) != nil {
		err = unwanted(o, name, want)
	}
	return v, err
}

func unwanted(o object, name, want string) error {
	return fmt.Errorf("%s is %s, want %s", name, Excerpt(o[name], 40), want)
}
