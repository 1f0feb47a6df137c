package installer

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"teleport-update/installer/state"
	"teleport-update/internal/console"
)

// leftOut stands in the file for a ticket in the place of a text that may be a secret.
const leftOut = "(left out)"

// cleaner takes secrets out of words that the updater and systemd have written. It keeps words that it knows to be no secrets; all others
// that could be secrets go. Files of other people do not come this way: see cleanUnits.
type cleaner struct {
	secrets      []string // the host's own, removed wherever they stand
	urls         *regexp.Regexp
	user         *regexp.Regexp
	named        *regexp.Regexp
	header       *regexp.Regexp
	assigned     *regexp.Regexp
	flags        *regexp.Regexp
	words        *regexp.Regexp
	knownSegment *regexp.Regexp
	host         *regexp.Regexp
}

// action is a part of a URL template that names a field of a release: it holds no word of its own.
const action = `\{\{ *((if |with )?(\.[A-Z][A-Za-z]*)+|else|end) *\}\}`

// newCleaner compiles the expressions only when they are needed: else each run of the timer would do it.
func newCleaner(secrets []string) *cleaner {
	return &cleaner{
		secrets: secrets,
		// The actions of a template have spaces.
		urls: regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*:/{1,2}(?:\\{\\{[^}]*\\}\\}|[^\\s\"'<>`/])(?:\\{\\{[^}]*\\}\\}|[^\\s\"'<>`])*"),
		user: regexp.MustCompile(`[^\s/"'=(]+:[^\s/"']*@`),
		named: regexp.MustCompile(`(?i)([\w.-]*(?:token|pass(?:word|wd|phrase)?|pwd|secret|credential|private[_-]?key|api[_-]?key|` +
			`access[_-]?key|auth(?:orization)?|cookie|session|signature|\bsig\b|\bpin\b|\botp\b|\bkey\b)` +
			`[\w.-]*["']?\s*(?:[=:]|\bis\b)\s*)(?:"[^"]*"|'[^']*'|(?:bearer |basic |digest |negotiate )?[^\s,;"')]+)`),
		header: regexp.MustCompile(`(?i)\b((?:bearer|basic|negotiate|password|passwd|passphrase)\s+)[^\s,;"')]+|` +
			`\b(X-[\w-]+:\s*)[^\s,;"')]+`),
		assigned: regexp.MustCompile(`\b([A-Z][A-Z0-9_]*=)("[^"]*"|'[^']*'|\S+)`),
		flags: regexp.MustCompile(`(^|[\s"'` + "`" + `=(])(--?[A-Za-z][\w-]*)(?:(=)("[^"]*"|'[^']*'|[^\s"'` + "`" + `]+)|` +
			`(\s+)("[^"]*"|'[^']*'|[^\s"'` + "`" + `-][^\s"'` + "`" + `]*))?`),
		words: regexp.MustCompile(`[\pL\pN+_=~%-]{16,}`),
		knownSegment: regexp.MustCompile(`^(v1|webapi|find|ping|releases|agents|heartbeat|join|healthz|readyz|packages|scripts|` +
			`install\.sh|apt|yum|automaticupgrades|channel|maintenance|version|critical|(teleport|tsh|tctl)([a-z._-]|` + action + `|` +
			`\d{1,4}|x86_64|aarch64)*|(v?` + action + `)+)$`),
		host: regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$`),
	}
}

// text cleans each line of a text.
func (c *cleaner) text(text []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		end := ""
		if strings.HasSuffix(line, "\n") {
			end = "\n"
		}
		b.WriteString(c.line(console.Line(strings.TrimSuffix(line, "\n"))) + end)
	}
	return []byte(b.String())
}

func (c *cleaner) line(s string) string {
	for _, secret := range c.secrets {
		s = strings.ReplaceAll(s, secret, leftOut)
	}
	// systemd repeats the text of a unit that it does not understand.
	if before, _, ok := strings.Cut(s, "ignoring: "); ok {
		s = before + "ignoring: " + leftOut
	}
	if strings.Contains(s, ":/") {
		s = c.urls.ReplaceAllStringFunc(s, c.url)
	}
	if strings.Contains(s, "@") {
		s = c.user.ReplaceAllString(s, leftOut+"@")
	}
	if strings.ContainsAny(s, "=:") || strings.Contains(s, " is ") {
		s = c.named.ReplaceAllString(s, "${1}"+leftOut)
	}
	s = c.header.ReplaceAllString(s, "${1}${2}"+leftOut)
	if strings.Contains(s, "=") {
		s = c.assigned.ReplaceAllString(s, "${1}"+leftOut)
	}
	if strings.Contains(s, "-") {
		s = c.flags.ReplaceAllStringFunc(s, c.flag)
	}
	return c.words.ReplaceAllStringFunc(s, func(word string) string {
		if random(word) {
			return leftOut
		}
		return word
	})
}

// url keeps the server of a URL, and the parts of the path that are known.
func (c *cleaner) url(text string) string {
	end := text[len(strings.TrimRight(text, ":;,.)")):]
	text = strings.TrimSuffix(text, end)
	scheme, rest, _ := strings.Cut(text, ":")
	rest = strings.TrimLeft(rest, "/")
	rest, _, hasFragment := strings.Cut(rest, "#")
	rest, _, hasQuery := strings.Cut(rest, "?")
	if strings.EqualFold(scheme, "file") {
		return "file:///" + rest + end // a path of this host, whose words are looked at below
	}
	at := rest[strings.LastIndexByte(rest, '@')+1:] // a password may have a slash
	host, path, hasPath := strings.Cut(at, "/")
	if !c.host.MatchString(host) {
		host = leftOut
	}
	clean := scheme + "://" + host
	if hasPath {
		for segment := range strings.SplitSeq(path, "/") {
			plain, err := url.PathUnescape(segment)
			known := err == nil && plain == segment && c.knownSegment.MatchString(segment)
			if segment != "" && (!known || random(segment)) {
				segment = "…"
			}
			clean += "/" + segment
		}
	}
	if hasQuery || hasFragment {
		clean += "?" + leftOut
	}
	return clean + end
}

// ownFlags has the updater's flags, and those flags of the agent whose values are no secrets, with whether a value follows.
var ownFlags = map[string]bool{
	"--proxy": true, "--group": true, "--template": true, "--ca-file": true, "--data-dir": true,
	"--link-dir": true, "--unit-dir": true, "--agent-config": true, "--log-format": true, "--programs-dir": true, "--format": true,
	"--output": true, "--config": true,
	"--pid-file": true, "--roles": true, "--diag-addr": true, "--textfile-dir": true,
	"--now": false, "--dry-run": false, "--skip-backup": false, "--restart": false, "--force": false, "--allow-downgrade": false,
	"--offline": false, "--debug": false,
	"--boot": false, "--keep-agent": false, "--yes": false, "--replace-updater": false, "--keep-proxy": false,
	"--allow-proxy-conflict": false, "--allow-auth-server": false,
	"--fips": false, "--insecure": false, "--version": false, "--help": false, "--agent-journal": false,
	"--no-pager": false, "-t": true,
	"--token-file": true, "--report-token-file": true, "-u": true, "-n": true, "-o": true, "--hosts": false, "--user": false,
	"--reload": false, "-HUP": false,
	"--missing": false, "--below-minimum": false, "--minimum": true, "--release-key": true, "--forget": false,
}

// ownFlag reports whether a flag is known, and whether a value follows it.
func ownFlag(name string) (takes, known bool) {
	for _, r := range state.Settings() {
		if name == "--"+r.Flag {
			return !r.Plain, true
		}
	}
	takes, known = ownFlags[name]
	return takes, known
}

// flag keeps a flag that is known, with its value, and only the name of another flag.
func (c *cleaner) flag(text string) string {
	m := c.flags.FindStringSubmatch(text)
	before, name, value, space := m[1], m[2], m[4]+m[6], m[3]+m[5]
	_, ok := ownFlag(name)
	switch {
	case len(name) == len("-rwxr-xr-x") && strings.Trim(name, "-rwxsStT") == "": // the mode of a file
		return text
	case name == "-u" && strings.Contains(value, ":"): // curl's
		return before + name + space + leftOut
	case !ok && !strings.HasPrefix(name, "--") && len(name) > 3: // as in -pPASSWORD
		return before + name[:2] + leftOut + space + value
	case ok || value == "" || strings.HasPrefix(value, "(left"):
		return text
	}
	return before + name + space + leftOut
}

// random reports whether a word looks as if a machine had drawn it: a token, a key, a digest, an identifier.
func random(word string) bool {
	mixed, plain, run := 0, 0, 0
	for _, part := range strings.FieldsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		letters, digits := 0, 0
		for _, r := range part {
			if unicode.IsLetter(r) {
				letters++
			} else {
				digits++
			}
		}
		n := letters + digits
		isTime := len(part) == len("20260102T150405Z") && digits == 14 && part[8] == 'T'
		switch {
		case isTime || strings.HasPrefix(part, "git") && digits == n-3:
			plain++ // a time, in a version or a name
			continue
		case n >= 16 && letters > 0 && digits > 0, digits >= 20, letters >= 24:
			return true
		case letters > 0 && digits > 0:
			mixed++
			run += n
		case letters >= 4 && upperInside(part) < 3:
			plain++
		default:
			run += n
		}
	}
	return plain == 0 && run >= 16 && (mixed >= 1 || run >= 20)
}

// upperInside counts the capitals behind the first letter.
func upperInside(s string) (n int) {
	for i, r := range s {
		if i > 0 && unicode.IsUpper(r) {
			n++
		}
	}
	return n
}

// json cleans the values of a JSON document, and returns a JSON document.
func (c *cleaner) json(data []byte) ([]byte, error) {
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	return json.MarshalIndent(c.value("", document), "", "  ")
}

func (c *cleaner) value(name string, v any) any {
	switch v := v.(type) {
	case string:
		if v != "" && c.named.MatchString(name+"=x") {
			return leftOut
		}
		return c.line(console.Line(v))
	case []any:
		for i := range v {
			v[i] = c.value(name, v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, value := range v {
			clean[c.line(console.Line(key))] = c.value(key, value)
		}
		return clean
	}
	return v
}

// minSecret is the least length of a secret that is looked for everywhere.
const minSecret = 6

// secretsIn returns the values of a document of settings, in YAML or JSON, whose names say that they are secrets.
func (c *cleaner) secretsIn(name string, v any) (secrets []string) {
	switch v := v.(type) {
	case string:
		if len(v) >= minSecret && !strings.HasPrefix(v, "/") && c.named.MatchString(name+"=x") {
			secrets = append(secrets, v)
			if _, secret, ok := strings.Cut(v, ":"); ok && len(secret) >= minSecret { // "node:TOKEN"
				secrets = append(secrets, secret)
			}
		}
	case []any:
		for _, item := range v {
			secrets = append(secrets, c.secretsIn(name, item)...)
		}
	case map[string]any:
		for key, value := range v {
			if key == "method" {
				continue
			}
			if strings.Contains(strings.ToLower(name), "token") || strings.Contains(strings.ToLower(name), "join_params") {
				key = "token_" + key
			}
			secrets = append(secrets, c.secretsIn(key, value)...)
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}
