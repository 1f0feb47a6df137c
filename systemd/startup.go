package systemd

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// Startup is what a unit's processes need before they can do anything: systemd looks at it with each start, and not before.
type Startup struct {
	Group            string
	WorkingDirectory string   // empty: none that has to be there
	EnvironmentFiles []string // that have to be there
	TooLow           []string // limits under which no program as this one comes to its end, as a unit file has them
}

// least are the values of limits below which this program does not come to its end, with any work.
var least = []struct {
	name, property string
	value          uint64
	format         func(uint64) string
}{
	{"LimitAS", "LimitAS", 64 << 20, number},
	{"LimitDATA", "LimitDATA", 16 << 20, number},
	{"LimitFSIZE", "LimitFSIZE", 1 << 20, number},
	{"LimitNOFILE", "LimitNOFILE", 16, number},
	{"LimitCPU", "LimitCPU", 1, number},
	{"MemoryMax", "MemoryMax", 16 << 20, number},
	{"TasksMax", "TasksMax", 4, number},
	{"TimeoutStartSec", "TimeoutStartUSec", 1_000_000, func(usec uint64) string { return limit(usec).String() }},
	{"RuntimeMaxSec", "RuntimeMaxUSec", 1_000_000, func(usec uint64) string { return limit(usec).String() }},
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func parseStartup(p properties) Startup {
	s := Startup{Group: property[string](p, "Group")}
	if dir := property[string](p, "WorkingDirectory"); !strings.HasPrefix(dir, "!") && !strings.HasPrefix(dir, "-") {
		s.WorkingDirectory = dir
	}
	for _, fields := range property[[][]any](p, "EnvironmentFiles") {
		if len(fields) == 2 && fields[1] == false { // the other ones may be missing
			s.EnvironmentFiles = append(s.EnvironmentFiles, text(fields, 0))
		}
	}
	for _, l := range least {
		if value, there := p[l.property].Value().(uint64); there && value < l.value {
			s.TooLow = append(s.TooLow, l.name+"="+l.format(value))
		}
	}
	return s
}

// Prevents returns a setting that keeps a program as this one from starting, or from coming to its end; empty if none does.
func (s Startup) Prevents() string {
	if s.Group != "" {
		if _, err := strconv.Atoi(s.Group); err != nil {
			if _, err := user.LookupGroup(s.Group); err != nil {
				return "Group=" + s.Group
			}
		}
	}
	if s.WorkingDirectory != "" && s.WorkingDirectory != "~" {
		if info, err := os.Stat(s.WorkingDirectory); os.IsNotExist(err) || err == nil && !info.IsDir() {
			return "WorkingDirectory=" + s.WorkingDirectory
		}
	}
	for _, pattern := range s.EnvironmentFiles {
		if found, err := filepath.Glob(pattern); err == nil && len(found) == 0 {
			return "EnvironmentFile=" + pattern
		}
	}
	if len(s.TooLow) > 0 {
		return s.TooLow[0]
	}
	return ""
}
