//go:build hosts

package others

import (
	"regexp"
	"strings"
)

// exception is an action against which no program could help as long as it is in
// force: then no agent need run, and status has to say something about it. One that
// served soundly before the run serves on, and one that is started has to run on its own
// database. Once the action is undone there is no exception.
type exception struct {
	why  string
	says string // a pattern of what status says
}

const (
	unhealthy = `is not healthy either|is not undone|was cut off|the agent of version \S+ (fails|crashes)|the agent is enabled at boot and does not run`
	notThere  = "the agent's data are not there"
)

// exceptions are by the name of the action, whoever does it.
var exceptions = map[string]exception{
	"the agent is masked":                                  {"systemd starts nothing that is masked", `mask|` + unhealthy},
	"a drop-in has the agent start another program":        {"systemd starts what the administrator says", `90-other\.conf|` + unhealthy},
	"systemd is away":                                      {"nobody but systemd starts or stops an agent", `unknown: reach systemd`},
	"the agent's user is gone":                             {"systemd starts nothing as a user that is not there", unhealthy},
	"both versions are removed":                            {"there is no program to start", `no longer on disk|not whole|` + unhealthy},
	"the data are unmounted":                               {notThere, unhealthy},
	"the data are read-only":                               {"no agent starts on data that it cannot write", unhealthy},
	"the data's file system is full":                       {"no agent starts on data that it cannot write", unhealthy},
	"a link to a folder of root's takes the place of proc": {notThere, unhealthy},
	"an empty folder takes the place of proc":              {notThere, unhealthy},
	"a file takes the place of proc":                       {notThere, unhealthy},
	"nothing takes the place of proc":                      {notThere, unhealthy},
	"the database becomes a link to a file of root's":      {notThere, unhealthy},
	"the database becomes a pipe":                          {notThere, unhealthy},
	"the database becomes a folder":                        {notThere, unhealthy},
	"teleport.yaml is broken":                              {"no agent starts with it", `teleport\.yaml|` + unhealthy},
	"teleport.yaml is emptied":                             {"where the data have a folder of their own, no agent starts without it", `teleport\.yaml|` + unhealthy},
	"teleport.yaml is removed":                             {"no agent starts without it", `teleport\.yaml|` + unhealthy},
	"a write transaction on the database is open":          {"no agent starts that may not write", unhealthy},
}

// excuse says why no agent runs, and whether status says so: it must not say that the
// host is idle.
func (r *trial) excuse(status string) (x exception, excused, told bool) {
	x, excused = exceptions[strings.TrimPrefix(r.action.name, byUserPrefix)]
	return x, excused, excused && !strings.Contains(status, " idle: ") && regexp.MustCompile(x.says).MatchString(status)
}

// open are combinations that fail as yet: they are counted apart, and go from this
// table once what they found is mended. Each is a pattern of a combination's name.
var open = []struct{ name, why string }{}

func openBecause(name string) (why string) {
	for _, o := range open {
		if regexp.MustCompile(o.name).MatchString(name) {
			return o.why
		}
	}
	return ""
}
