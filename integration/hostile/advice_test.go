//go:build hosts

package hostile

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// advised is a command that the policy of the host's owner stops, and what its error advises.
type advised struct {
	name string
	// rules are the files of the policy, and serves is what the mirror has.
	rules  map[string]string
	serves func(w *world)
	// before makes the state from that of a host with the rules.
	before  func(w *world)
	command []string
	// says is the advice: words of the error, as given.
	says string
	// follow does it, with what the error itself names: a command, a digest, a flag. It returns
	// what is typed then; nil is the command once more.
	follow  func(w *world, text string) []string
	becomes string
}

// Who reads an error of the policy does what it says, in that very state: then the same command
// goes through.
func TestTheAdviceOfThePolicyIsTyped(t *testing.T) {
	t.Parallel()
	for _, a := range advisedCases() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			busy <- struct{}{}
			defer func() { <-busy }()
			w := newWorld(t)
			w.tarball = sound("1.1.0")
			if a.serves != nil {
				a.serves(w)
			}
			w.serve()
			t.Cleanup(w.stop)
			w.settings()
			w.rules(a.rules)
			if a.before != nil {
				a.before(w)
			}
			active := w.activeVersion()
			refused := w.run(a.command...)
			if refused.code != failed.number() || !strings.Contains(refused.stderr, a.says) || !stays.MatchString(refused.stderr) {
				t.Fatalf("exit code %d; want %q in\n%s", refused.code, a.says, refused.stderr)
			}
			if got := w.activeVersion(); got != active {
				t.Fatalf("the refused command leaves %s active; want %s", got, active)
			}
			command := a.follow(w, refused.stderr)
			if command == nil {
				command = a.command
			}
			if r := w.run(command...); r.code != done.number() {
				t.Errorf("after the advice, %q ends with %d:\n%s", command, r.code, r.stderr)
			}
			if got := w.activeVersion(); got != a.becomes {
				t.Errorf("version %s is active; want %s", got, a.becomes)
			}
			if to, _ := os.Readlink(filepath.Join(w.links(), "teleport")); to != w.store(a.becomes, "bin", "teleport") {
				t.Errorf("teleport leads to %s", to)
			}
			w.findsFault("policy_broken", false)
			w.findsFault("target_refused", false)
			w.findsFault("below_minimum", a.says == overruled)
		})
	}
}

// findsFault asserts whether status has a condition.
func (w *world) findsFault(condition string, want bool) {
	w.t.Helper()
	if r := w.run("status", "--format", "json"); strings.Contains(r.stdout, `"type": "`+condition+`"`) != want {
		w.t.Errorf("status has %s: %v; want %v:\n%s", condition, !want, want, r.stdout)
	}
}

// status --explain explains what status finds, also in an answer of the cluster that no run has had yet.
func TestAConditionThatStatusFindsIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tarball = sound("1.1.0")
	w.serve()
	t.Cleanup(w.stop)
	w.settings()
	w.findsFault("update_waits", true)
	if r := w.run("status", "--explain", "update_waits"); r.code != done.number() || !strings.Contains(r.stdout, "on this host") {
		t.Errorf("the explanation ends with %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// overruled is what root's own commands are advised.
const overruled = "with --below-minimum the command does it all the same"

// stays is how an error says what state the host is in.
var stays = regexp.MustCompile(`nothing was changed|the agent stays on version 1\.[01]\.0`)

var activeLine = regexp.MustCompile(`(?m)^  active_version: (\S+)$`)

func (w *world) activeVersion() string {
	w.t.Helper()
	found := activeLine.FindStringSubmatch(w.read(w.config()))
	if found == nil {
		w.t.Fatalf("no version is active:\n%s", w.read(w.config()))
	}
	return found[1]
}

// types runs the command of the updater in backquotes that has these words in it.
func types(words string) func(w *world, text string) []string {
	quoted := regexp.MustCompile("`teleport-update ([^`]*" + words + "[^`]*)`")
	return func(w *world, text string) []string {
		w.t.Helper()
		command := quoted.FindStringSubmatch(text)
		if command == nil {
			w.t.Fatalf("no command with %q is advised in\n%s", words, text)
		}
		if r := w.run(strings.Fields(command[1])...); r.code != done.number() {
			w.t.Errorf("`%s` ends with %d:\n%s", command[1], r.code, r.stderr)
		}
		return nil
	}
}

// edits writes another policy.yaml.
func edits(policy string) func(w *world, text string) []string {
	return func(w *world, _ string) []string {
		w.write(w.owner("policy.yaml"), policy, 0o644)
		return nil
	}
}

// seen has the host run once by its policy, with nothing to do, before a file of it goes.
func seen(file string) func(w *world) {
	return func(w *world) {
		w.answer = answerFor("1.0.0")
		if r := w.run("update"); r.code != done.number() {
			w.t.Fatalf("a run with nothing to do: %s", r.stderr)
		}
		w.must(os.RemoveAll(w.owner(file)))
		w.answer = answerFor("1.1.0")
	}
}

// wentUp has the host run 1.1.0, which it comes from 1.0.0 to, and then forbids the old version.
func wentUp(rules string) func(w *world) {
	return func(w *world) {
		if r := w.run("update"); r.code != done.number() {
			w.t.Fatalf("the host does not get to 1.1.0: %s", r.stderr)
		}
		w.write(w.owner("policy.yaml"), rules, 0o644)
	}
}

func advisedCases() []advised {
	vendor, stranger := newSigner(), newSigner()
	good := sound("1.1.0")
	key := map[string]string{"keys.d/a.pem": vendor.public}
	foreign := map[string]string{"keys.d/a.pem": stranger.public}
	policy := func(text string) map[string]string { return map[string]string{"policy.yaml": text} }
	with := func(files map[string]string, text string) map[string]string {
		all := maps.Clone(files)
		all["policy.yaml"] = text
		return all
	}
	signed := func(w *world) { w.signs(fixed(vendor.sign(good))) }
	unsigned := func(w *world) { w.signs(notFound) }
	update := []string{"update"}
	// flag adds the flag that the error names.
	flag := func(name string, command ...string) func(*world, string) []string {
		return func(w *world, text string) []string {
			if !regexp.MustCompile(`[ (]` + name + `\b`).MatchString(text) {
				w.t.Errorf("%s is not advised in\n%s", name, text)
			}
			return append(slices.Clone(command), name)
		}
	}
	// puts writes a key into a file of keys.d.
	puts := func(name string, s signer) func(*world, string) []string {
		return func(w *world, _ string) []string {
			w.write(w.owner("keys.d", name), s.public, 0o644)
			return nil
		}
	}
	lists := regexp.MustCompile(`sha256 ([0-9a-f]{64})`)
	const forget = "`teleport-update policy --forget`"
	const lower, take = "lower minimum: in policy.yaml", "take this one out of withdrawn: in policy.yaml"
	const list = "list the release in policy.yaml by its digest (releases:)"
	return []advised{
		{name: "policy.yaml is gone, and forgotten", rules: policy("minimum: 1.0.0\n"), before: seen("policy.yaml"),
			command: update, says: forget, follow: types("--forget"), becomes: "1.1.0"},
		{name: "policy.yaml is gone, and put back", rules: policy("minimum: 1.0.0\n"), before: seen("policy.yaml"),
			command: update, says: "put it back or", follow: edits("minimum: 1.0.0\n"), becomes: "1.1.0"},
		{name: "the keys are gone, and forgotten", rules: key, serves: unsigned, before: seen("keys.d"),
			command: update, says: forget, follow: types("--forget"), becomes: "1.1.0"},
		{name: "the keys are gone, and one is put back", rules: key, serves: signed, before: seen("keys.d"),
			command: update, says: "put it back or", follow: puts("a.pem", vendor), becomes: "1.1.0"},
		{name: "all of the policy is gone, and forgotten", rules: with(key, "minimum: 1.0.0\n"), before: seen("."),
			command: update, says: forget, follow: types("--forget"), becomes: "1.1.0"},
		{name: "the folder is gone and a person pins", rules: policy("minimum: 1.0.0\n"), before: seen("."),
			command: []string{"pin", "1.1.0"}, says: forget, follow: types("--forget"), becomes: "1.1.0"},

		{name: "a rollback below the minimum", before: wentUp("minimum: 1.1.0\n"),
			command: []string{"rollback"}, says: overruled, follow: flag("--below-minimum", "rollback"), becomes: "1.0.0"},
		{name: "a rollback to a version that was withdrawn", before: wentUp("withdrawn: [1.0.0]\n"),
			command: []string{"rollback", "1.0.0"}, says: overruled, becomes: "1.0.0",
			follow: flag("--below-minimum", "rollback", "1.0.0")},
		{name: "a pin of an old version on disk, below the minimum", before: wentUp("minimum: 1.1.0\n"),
			command: []string{"pin", "1.0.0"}, says: overruled, follow: flag("--below-minimum", "pin", "1.0.0"), becomes: "1.0.0"},
		{name: "a pin of a version that is to be fetched, below the minimum", rules: policy("minimum: 1.2.0\n"),
			command: []string{"pin", "1.1.0"}, says: overruled, follow: flag("--below-minimum", "pin", "1.1.0"), becomes: "1.1.0"},
		{name: "a pin of a version that was withdrawn", rules: policy("withdrawn: [1.1.0]\n"),
			command: []string{"pin", "1.1.0"}, says: overruled, follow: flag("--below-minimum", "pin", "1.1.0"), becomes: "1.1.0"},

		{name: "the minimum is lowered", rules: policy("minimum: 1.2.0\n"),
			command: update, says: lower, follow: edits("minimum: 1.1.0\n"), becomes: "1.1.0"},
		{name: "a version is taken out of those that were withdrawn", rules: policy("withdrawn: [1.1.0, 1.0.9]\n"),
			command: update, says: take, follow: edits("withdrawn: [1.0.9]\n"), becomes: "1.1.0"},
		{name: "the cluster names another version", rules: policy("minimum: 1.2.0\n"),
			command: update, says: "have the cluster name a newer version", becomes: "1.2.0",
			follow: func(w *world, _ string) []string {
				w.answer, w.tarball = answerFor("1.2.0"), sound("1.2.0")
				return nil
			}},
		{name: "an unsigned release is listed by its digest", rules: with(key, "minimum: 1.0.0\n"), serves: unsigned,
			command: update, says: list, follow: edits("releases: {1.1.0: " + digestOf(good) + "}\n"), becomes: "1.1.0"},
		{name: "the digest that the error names is listed, too", rules: policy("releases: {1.1.0: " + strings.Repeat("a", 64) + "}\n"),
			command: update, says: "add it to releases: if it is right", becomes: "1.1.0",
			follow: func(w *world, text string) []string {
				digest := lists.FindStringSubmatch(text)
				if digest == nil {
					w.t.Fatalf("no digest in\n%s", text)
				}
				return edits("releases: {1.1.0: ["+strings.Repeat("a", 64)+", "+digest[1]+"]}\n")(w, text)
			}},
		{name: "the vendor's present key is put into the folder", rules: foreign, serves: signed,
			command: update, says: "put the vendor's present key into keys.d", follow: puts("b.pem", vendor), becomes: "1.1.0"},
		{name: "the vendor's present key is given to enable", rules: foreign, serves: signed,
			command: update, says: "put the vendor's present key into keys.d", becomes: "1.1.0",
			follow: func(w *world, _ string) []string {
				w.write(w.outside("b.pem"), vendor.public, 0o644)
				return []string{"enable", "--release-key", w.outside("b.pem")}
			}},
		{name: "a key is given to enable where signatures are required without one", rules: policy("signatures: require\n"), serves: signed,
			command: update, says: "there is no key in", becomes: "1.1.0",
			follow: func(w *world, _ string) []string {
				w.write(w.outside("b.pem"), vendor.public, 0o644)
				return []string{"enable", "--release-key", w.outside("b.pem")}
			}},
		{name: "enable raises the minimum too far, and lowers it", rules: key, serves: signed,
			command: []string{"enable", "--minimum", "1.2.0"}, says: lower, becomes: "1.1.0",
			follow: func(*world, string) []string { return []string{"enable", "--minimum", "1.1.0"} }},
		{name: "enable lowers the minimum that stops an update", rules: policy("# ours\nminimum: 1.2.0\n"),
			command: update, says: lower, becomes: "1.1.0",
			follow: func(*world, string) []string { return []string{"enable", "--minimum", "1.0.0"} }},
		{name: "a policy that others may write is given to root alone", rules: policy("minimum: 1.0.0\n"),
			before:  func(w *world) { w.chmod(w.owner("policy.yaml"), 0o666) },
			command: update, says: "repair the policy", becomes: "1.1.0",
			follow: func(w *world, _ string) []string { w.chmod(w.owner("policy.yaml"), 0o644); return nil }},
		{name: "a policy that cannot be read is repaired", rules: policy("minimun: 1.0.0\n"),
			command: update, says: "minimun", follow: edits("minimum: 1.0.0\n"), becomes: "1.1.0"},
		{name: "the help that a broken policy names", rules: policy("minimun: 1.0.0\n"),
			command: update, says: "`teleport-update policy --help`", becomes: "1.1.0",
			follow: func(w *world, text string) []string {
				types("--help")(w, text)
				return edits("minimum: 1.0.0\n")(w, text)
			}},
	}
}
