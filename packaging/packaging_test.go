package packaging

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/version"
)

func TestVersionsOfPackagesSortLikeThoseOfReleases(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("there is no dpkg here")
	}
	ascending := []string{
		"0.0.0-git20260101120000.g0123456789ab", "0.0.0-git20260101120001.g000000000000",
		"1.0.0-alpha.1", "1.0.0-alpha-1.2", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.10.0",
	}
	for i, v := range ascending {
		if err := checkVersion(v); err != nil {
			t.Error(err)
		}
		if i == 0 {
			continue
		}
		older, newer := packageVersion(ascending[i-1]), packageVersion(v)
		if out, err := exec.Command(dpkg, "--compare-versions", older, "lt", newer).CombinedOutput(); err != nil {
			t.Errorf("dpkg does not take %s for older than %s: %v %s", older, newer, err, out)
		}
	}
	for _, v := range []string{"", "v1.0.0", "1.0", "1.0.0/../x", "latest"} {
		if checkVersion(v) == nil {
			t.Errorf("version %q is taken", v)
		}
	}
}

func TestTheVersionIsTheCommits(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	file, named := filepath.Join(dir, "f"), filepath.Join(dir, "packaging", "VERSION")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() {
		t.Helper()
		git("add", ".")
		git("commit", "--quiet", "--no-gpg-sign", "--message", "m")
	}
	write(file, "1")
	write(named, "1.2.3-dev\n")
	git("init", "--quiet")
	commit()
	says := func(pattern string) {
		t.Helper()
		v, date, err := Commit(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile("^" + pattern + "$").MatchString(v) {
			t.Errorf("the version is %s; want %s", v, pattern)
		}
		// A program that make builds says the same.
		makefile, err := filepath.Abs("../Makefile")
		if _, missing := os.Stat(makefile); err != nil || missing != nil {
			t.Fatal(err, missing)
		}
		build := exec.Command("make", "--no-print-directory", "--dry-run", "--file", makefile, "build")
		build.Dir, build.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
		out, err := build.CombinedOutput()
		if want := "-X main.releaseVersion=" + v + " -X main.version=" + v + "'"; err != nil || strings.Count(string(out), want) != 2 {
			t.Errorf("make builds, %v\n%s; want %s", err, out, want)
		}
		if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !date.Equal(want) {
			t.Errorf("the date is %v; want %v", date, want)
		}
	}
	const next = `1\.2\.3-git20260102030405\.g[0-9a-f]{12}`
	says(next)
	git("tag", "v7.0.0") // which other clones have not
	says(next)
	write(file, "2")
	says(next + `\.dirty`)
	write(named, "1.2.3\n")
	commit()
	says(`1\.2\.3`)
	write(file, "3")
	says(`1\.2\.3-dirty`)
}

// A release has a section of its own, and what is built after it another version.
func TestTheChangelogHasTheRelease(t *testing.T) {
	named, err := os.ReadFile("VERSION")
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^## (Unreleased|(\S+) - \d{4}-\d\d-\d\d)$`).FindAllStringSubmatch(string(changelog), -1)
	if len(sections) == 0 {
		t.Fatal("the changelog has no section")
	}
	at, dev := strings.CutSuffix(strings.TrimSpace(string(named)), developing)
	first := sections[0]
	if !dev && first[2] != at {
		t.Errorf("VERSION is %s, and the changelog begins with %s", at, first[1])
	}
	if dev && (first[1] != "Unreleased" || len(sections) > 1 && version.Compare(at, sections[1][2]) <= 0) {
		t.Errorf("VERSION leads to %s; the changelog has %q", at, sections)
	}
}

// What a person types is in the manual and in the completions of each shell. The flags of teleport-find are in its help.
func TestTheManualAndTheCompletionsKnowEveryCommandAndFlag(t *testing.T) {
	for program, texts := range map[string][]string{
		"teleport-update": {"teleport-update.8", "completions/bash", "completions/zsh", "completions/fish"},
		"teleport-find":   {"teleport-find.8", "completions/bash", "completions/zsh", "completions/fish"},
	} {
		t.Run(program, func(t *testing.T) {
			words := usage(t, program)
			if len(words) < 10 || !slices.Contains(words, "--log-format") {
				t.Fatalf("%s --help was not understood: %q", program, words)
			}
			for _, name := range texts {
				data, err := os.ReadFile(filepath.Join(program, name))
				if err != nil {
					t.Fatal(err)
				}
				text := strings.ReplaceAll(string(data), "Fl -", "--")
				if name == "completions/fish" {
					text = strings.ReplaceAll(text, " -l ", " --")
				}
				for _, word := range words {
					if name == "teleport-find.8" && strings.HasPrefix(word, "--") {
						continue
					}
					if !regexp.MustCompile(`(?m)(^|[^\w-])` + word + `($|[^\w-])`).MatchString(text) {
						t.Errorf("%s does not know %s", name, word)
					}
				}
			}
		})
	}
}

// skipBuild skips a test of a built program with -short.
func skipBuild(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a program takes seconds to build")
	}
}

// usage reads the commands and the flags of a program from its own help.
func usage(t *testing.T, program string) []string {
	t.Helper()
	skipBuild(t)
	path := filepath.Join(t.TempDir(), program)
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/"+program).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	var words []string
	var read func(args ...string)
	read = func(args ...string) {
		out, err := exec.Command(path, append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("%s %v --help: %v", program, args, err)
		}
		section := ""
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, " ") {
				section = strings.TrimSpace(line)
				continue
			}
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch section {
			case "COMMANDS:":
				if strings.HasSuffix(line, ":\n") {
					continue // a heading
				}
				words = append(words, word)
				read(append(args, word)...)
			case "OPTIONS:", "GLOBAL OPTIONS:":
				if strings.HasPrefix(word, "--") && word != "--help," { // the others are headings
					words = append(words, word)
				}
			}
		}
	}
	read()
	return words
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	store := storeToComplete(t)
	for line, want := range map[string]string{
		"teleport-update en":                       "enable",
		"teleport-update --log-format ":            "text json",
		"teleport-update --debug --data-dir / upd": "update",
		"teleport-update enable --al":              "--allow-downgrade --allow-auth-server --allow-proxy-conflict",
		"teleport-update update --":                "--now --dry-run --restart --skip-backup --help",
		"teleport-update rollback --f":             "--force",
		"teleport-update status --format j":        "json",
		"teleport-update enable --proxy ":          "",
		"teleport-update --d":                      "--data-dir --debug",
		"teleport-update pin 1":                    "14.0.0 15.1.0 15.1.1",
		"teleport-update rollback 15.1.1":          "15.1.1",
		"teleport-update pin --":                   "--allow-downgrade --below-minimum --help",
	} {
		script := `source ./teleport-update/completions/bash; IFS=' ' read -ra COMP_WORDS <<<"$1"
			[[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			cd() { [[ $1 == /var/lib/teleport/versions ]] && builtin cd "$STORE"; }
			_teleport_update; echo "${COMPREPLY[*]}"`
		cmd := exec.Command(bash, "-euc", script, "bash", line)
		cmd.Env = append(os.Environ(), "STORE="+store)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q is completed to %q, %v; want %q", line, got, err, want)
		}
	}
}

// rpm removes the folders that a package owns, and dpkg those that are empty.
func TestAnRPMOwnsItsFolders(t *testing.T) {
	for _, program := range []string{"teleport-update", "teleport-find"} {
		text, err := os.ReadFile(filepath.Join(program, "nfpm.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			Contents []struct{ Dst, Type, Packager string }
		}
		if err := yaml.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		owned, needed := map[string]bool{}, map[string]bool{}
		for _, c := range spec.Contents {
			if c.Packager == "deb" {
				continue
			}
			owned[c.Dst] = owned[c.Dst] || c.Type == "dir"
			for dir := filepath.Dir(c.Dst); strings.Contains(dir, program); dir = filepath.Dir(dir) {
				needed[dir] = true
			}
		}
		if len(needed) == 0 {
			t.Error("it has no folders: this shows nothing")
		}
		for dir := range needed {
			if !owned[dir] {
				t.Errorf("%s: nobody owns %s", program, dir)
			}
		}
	}
}
