package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A look is a way to read the host, and the places in the code that may take it: functions as "file function", or
// whole rooms as "room/", each with the reason.
type look struct {
	what      string
	functions []string // by their names
	field     string   // or a field of the paths
	arguments int      // that a call has; -1 for any number
	places    map[string]string
}

const (
	lockTaken = "has just taken the update lock: another updater may have written the file before"
	ownUnits  = "asks for other units, too"
)

// Who tells and who decides read the host by one survey, and so cannot speak of two hosts.
var looks = []look{
	{"reads updates.yaml", []string{"LoadConfig", "LoadConfigOr"}, "", -1, map[string]string{
		"installer/state/":                              "is the reader",
		"installer/survey.go Config":                    "is the survey's",
		"installer/transaction/canstart.go FreshConfig": "is for who has to read it again, and says why",
		"installer/transaction/transact.go config":      "has the journal's text of it, should the file be lost",
		"installer/unitsatboot.go UnitsAtBoot":          "names the folder of units, before there is a survey of it",
	}},
	{"reads updates.yaml again", []string{"FreshConfig"}, "", 0, map[string]string{
		"installer/transaction/":            "has its own process, and holds the update lock in it",
		"installer/desired.go changeStatus": lockTaken,
		"installer/token.go placeToken":     lockTaken,
		"installer/oldversions.go makeRoom": lockTaken,
		"installer/owner.go ForgetPolicy":   lockTaken,
		"installer/report.go enroll":        lockTaken,
		"installer/setup.go Setup":          lockTaken,
		"installer/enable.go enableActive":  "goes on after a transaction that may have written it",
	}},
	{"plans what becomes of the database", []string{"planDatabase"}, "", -1, map[string]string{
		"installer/transaction/preflightchecks.go planned": "is the check that all commands ask",
	}},
	{"takes the usual configuration for the agent's", nil, "AgentConfig", -1, map[string]string{
		"installer/host/places.go AgentPlaces":               "asks the unit, which may name no other",
		"installer/transaction/agentfiles.go saveAgentFiles": "saves what the package removes",
	}},
	{"reads the agent's configuration", []string{"ReadAgentSettings"}, "", -1, map[string]string{
		"installer/host/":                      "asks the unit where it is",
		"installer/enable.go askAgentSettings": "asks where it is",
		"installer/desired.go askFirst":        "asks where it is",
	}},
	{"looks at the agent", []string{"Look"}, "", -1, map[string]string{
		"installer/survey/agent.go Agent":           "is the survey's",
		"installer/transaction/":                    "has its own process, and looks again after each change",
		"installer/repair.go startWithout":          "looks again after systemd has read the unit that was put back",
		"cmd/teleport-update/image.go imageCommand": "is another look: into an image",
	}},
	{"looks at the agent for a check", []string{"Sight"}, "", 1, map[string]string{
		"installer/transaction/pair.go CheckPair":            "is told by its caller, as the survey",
		"installer/transaction/pair.go checkGone":            "is told by its caller, as the survey",
		"installer/transaction/pair.go CheckLed":             "is told by its caller, as the survey",
		"installer/transaction/keepagent.go checkKeepsOwn":   "is told by its caller, as the survey",
		"installer/transaction/databaseowner.go CheckTables": "is told by its caller, as the survey",
		"installer/transaction/uninstall.go CheckUninstall":  "gets the survey from its caller",
		"installer/transaction/pair.go RecordSchema":         "goes on after repairs under the update lock",
		"installer/transaction/retain.go mayHaveDatabase":    "asks before a version is removed that is newer than the active one",
	}},
	{"reads the schema of the agent's database", []string{"Schema"}, "", 1, map[string]string{
		"installer/survey.go Schema":                         "is the survey's",
		"installer/transaction/retain.go liveSchema":         "makes the plan for the database",
		"installer/transaction/databaseowner.go has":         "makes the plan for the database",
		"installer/transaction/databaseowner.go otherTables": "is told by its caller, as the survey",
		"installer/transaction/retain.go mayHaveDatabase":    "asks before a version is removed that is newer than the active one",
		"installer/tick.go prove":                            "asks the survey of the run",
		"installer/oldversions.go recordTables":              "asks the survey of the run",
		"installer/survey/":                                  "has it once",
		"installer/transaction/pair.go Schema":               "is the reader",
		"installer/transaction/pair.go digestNow":            "notes it of a version that is proven, or whose agent runs",
		"installer/transaction/pair.go CheckPair":            "is told by its caller, as the survey",
		"installer/transaction/pair.go checkGone":            "is told by its caller, as the survey",
		"installer/transaction/open.go CheckEnded":           "is told by its caller, as the survey",
		"installer/transaction/keepagent.go checkKeepsOwn":   "is told by its caller, as the survey",
	}},
	{"asks systemd for the properties of a unit", []string{"Unit"}, "", 2, map[string]string{
		"installer/transaction/look.go look":                      "is the look at the agent",
		"installer/survey/agent.go unit":                          ownUnits,
		"installer/transaction/boot.go thisBoot":                  "asks which start of the units this is",
		"installer/transaction/dependents.go goesDown":            "asks for units that depend on the agent",
		"installer/transaction/dependents.go down":                "asks for units that depend on the agent",
		"installer/transaction/preflightchecks.go recoveryStarts": "asks for the unit of the recovery",
		"installer/transaction/canary.go try":                     "asks for the units that come before the one that is tried",
		"installer/transaction/preflightchecks.go unread":         "asks for the unit of the recovery",
		"installer/transaction/preflightchecks.go undoingHasTime": "asks for the unit of a run, and for the one that it is in",
		"systemd/": ownUnits,
		"health/":  "watches, and takes its own samples",
	}},
}

func TestTheHostIsReadFromOnePlaceEach(t *testing.T) {
	used := make([]map[string]bool, len(looks))
	sources(t, func(_ string, files *token.FileSet, file *ast.File) {
		path := filepath.ToSlash(files.Position(file.Pos()).Filename)
		path = strings.TrimPrefix(path, "../../")
		if strings.HasPrefix(path, "find/") || strings.HasPrefix(path, "cmd/teleport-find/") {
			return // the server reads no host
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				for number, l := range looks {
					if n == nil || !l.is(n) {
						continue
					}
					place := l.placeOf(path, function.Name.Name)
					if place == "" {
						t.Errorf("%s: %s %s by itself: the survey of the run has that, or its caller", files.Position(n.Pos()),
							function.Name.Name, l.what)
						continue
					}
					if used[number] == nil {
						used[number] = map[string]bool{}
					}
					used[number][place] = true
				}
				return true
			})
		}
	})
	for n, l := range looks {
		for place := range l.places {
			if !used[n][place] {
				t.Errorf("nothing in %s %s any more: it needs no exception", place, l.what)
			}
		}
	}
}

// is reports whether a call, or the use of a field, is such a look.
func (l look) is(n ast.Node) bool {
	if l.field != "" {
		field, ok := n.(*ast.SelectorExpr)
		if !ok || field.Sel.Name != l.field {
			return false
		}
		of, ok := field.X.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "Paths"
	}
	call, ok := n.(*ast.CallExpr)
	if !ok || l.arguments >= 0 && len(call.Args) != l.arguments {
		return false
	}
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return slices.Contains(l.functions, function.Name)
	case *ast.SelectorExpr:
		return slices.Contains(l.functions, function.Sel.Name)
	}
	return false
}

// placeOf is the place that a function is in or is; empty if it is none of them.
func (l look) placeOf(path, function string) string {
	for place := range l.places {
		if place == path+" "+function || strings.HasSuffix(place, "/") && strings.HasPrefix(path, place) {
			return place
		}
	}
	return ""
}
