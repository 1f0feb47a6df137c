package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
)

// A plan is kept in pages of at most MaxPage bytes: the head under the name of the
// group, PlanKey, and the others under random names, PageKey. Each names the next
// one and repeats everything but the hosts:
//
//	{"kind": "agent_rollout_plan", "version": "v1", "metadata": {"name": "prod"},
//	 "spec": {"start_time": "2025-05-28T11:22:41Z", "version": "17.2.1", "schedule": "regular",
//	          "host_count": 127, "hosts": ["c757ad82-95f2-4416-ae9d-a20ffd9b5a54"], "next_page": "8745823"}}
//
// They are written from the last one to the head, so a plan is complete once its head
// is there. They expire PlanLife later. RFD 0169 speaks of 100,000 UUIDs a page and of
// 100 KiB as well; that many are 3.9 MB, and bytes are what stores limit.

const (
	// MaxPage is the size of a page as it is stored.
	MaxPage = 100 << 10
	// PlanLife is how long pages are kept.
	PlanLife = 14 * 24 * time.Hour
)

// PlanKey is where the head of a group's plan is kept.
func PlanKey(group string) string { return KindPlan + "/" + group }

// PageKey is where another page is kept.
func PageKey(name string) string { return KindPlan + "_page/" + name }

// Page is a part of a plan as it is stored. The head has no name.
type Page struct {
	Name  string
	Value []byte
}

// Key is where the page of a plan is kept.
func (p *Plan) Key(page Page) string {
	if page.Name == "" {
		return PlanKey(p.Group)
	}
	return PageKey(page.Name)
}

// PlanResource is the resource agent_rollout_plan. A store holds it page by page;
// people see it without the hosts, and with its progress from the rollout.
type PlanResource struct {
	Kind     string      `json:"kind" yaml:"kind"`
	Version  string      `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata    `json:"metadata" yaml:"metadata"`
	Spec     PlanSpec    `json:"spec" yaml:"spec"`
	Status   *PlanStatus `json:"status,omitempty" yaml:"status,omitempty"`
}

// PlanSpec holds the purpose of a plan, and its hosts.
type PlanSpec struct {
	StartTime time.Time `json:"start_time" yaml:"start_time"`
	Version   Semver    `json:"version" yaml:"version"`
	Schedule  Schedule  `json:"schedule" yaml:"schedule"`
	HostCount int       `json:"host_count" yaml:"host_count"`
	Hosts     []string  `json:"hosts,omitempty" yaml:"hosts,omitempty"`
	NextPage  string    `json:"next_page,omitempty" yaml:"next_page,omitempty"`
}

// PlanStatus is how far a plan has come.
type PlanStatus struct {
	LastActiveHostIndex int `json:"last_active_host_index" yaml:"last_active_host_index"`
	FailedHostCount     int `json:"failed_host_count" yaml:"failed_host_count"`
	TimeoutHostCount    int `json:"timeout_host_count" yaml:"timeout_host_count"`
}

// GetKind implements Resource.
func (p *PlanResource) GetKind() string { return KindPlan }

// GetMetadata implements Resource.
func (p *PlanResource) GetMetadata() *Metadata { return &p.Metadata }

// Check implements Resource.
func (p *PlanResource) Check() error {
	if err := checkHead(p.Kind, KindPlan, p.Version, p.Metadata, ""); err != nil {
		return err
	}
	if p.Spec.HostCount < len(p.Spec.Hosts) {
		return fmt.Errorf("spec.host_count: %d is less than the hosts of this page", p.Spec.HostCount)
	}
	return nil
}

// maxNextPage is room for ,"next_page":"…" with a name of 20 digits, and the end.
const maxNextPage = 48

// maxPlan is how many hosts room is made for before they are read.
const maxPlan = 1 << 20

// Pages divides the plan, the last page first and the head last. name gives each page
// but the head a random number. Each page is made on demand: all pages of a million
// hosts are 40 MB.
func (p *Plan) Pages(name func() uint64) (iter.Seq[Page], error) {
	frame, err := json.Marshal(&PlanResource{
		Kind: KindPlan, Version: apiVersion, Metadata: Metadata{Name: p.Group},
		Spec: PlanSpec{StartTime: p.StartTime, Version: p.Version, Schedule: p.Schedule, HostCount: len(p.Hosts)},
	})
	if err != nil {
		return nil, err
	}
	frame, ok := bytes.CutSuffix(frame, []byte("}}"))
	if !ok {
		return nil, errors.New("the plan is malformed")
	}
	frame = append(frame, `,"hosts":[`...)
	const quoted = len(`"c757ad82-95f2-4416-ae9d-a20ffd9b5a54",`)
	perPage := (MaxPage - maxNextPage - len(frame)) / quoted
	return func(yield func(Page) bool) {
		next := ""
		for at := max(len(p.Hosts)-1, 0) / perPage * perPage; at >= 0; at -= perPage {
			hosts := p.Hosts[at:min(at+perPage, len(p.Hosts))]
			page := Page{Value: append(make([]byte, 0, len(frame)+len(hosts)*quoted+maxNextPage), frame...)}
			for i, id := range hosts {
				if i > 0 {
					page.Value = append(page.Value, ',')
				}
				page.Value = append(id.append(append(page.Value, '"')), '"')
			}
			page.Value = append(page.Value, ']')
			if at > 0 {
				page.Name = strconv.FormatUint(name(), 10)
			}
			if next != "" {
				page.Value = append(page.Value, `,"next_page":"`+next+`"`...)
			}
			page.Value = append(page.Value, "}}"...)
			if !yield(page) {
				return
			}
			next = page.Name
		}
	}, nil
}

// ReadPlan puts a plan together again. get returns the page of a name. names are the
// pages after the head that were found, also on an error. A chain that is broken, or
// whose pages belong to different plans, is an error.
func ReadPlan(head []byte, get func(name string) ([]byte, error)) (p *Plan, names []string, err error) {
	p = new(Plan)
	var first PlanResource
	for value := head; ; {
		page, err := parsePage(value)
		if err != nil {
			return nil, names, fmt.Errorf("page %d: %w", len(names), err)
		}
		if len(names) == 0 {
			first = page
		} else if page.Metadata.Name != first.Metadata.Name || !page.Spec.StartTime.Equal(first.Spec.StartTime) ||
			page.Spec.Version != first.Spec.Version || page.Spec.Schedule != first.Spec.Schedule || page.Spec.HostCount != first.Spec.HostCount {
			return nil, names, fmt.Errorf("page %d belongs to another plan", len(names))
		}
		if p.Hosts == nil {
			p.Hosts = make([]HostID, 0, min(first.Spec.HostCount, maxPlan))
		}
		for _, host := range page.Spec.Hosts {
			p.Hosts = append(p.Hosts, ParseHostID(host))
		}
		if page.Spec.NextPage == "" {
			break
		}
		if len(p.Hosts) > first.Spec.HostCount || len(page.Spec.Hosts) == 0 {
			break // a chain that goes round would never end
		}
		names = append(names, page.Spec.NextPage)
		if value, err = get(page.Spec.NextPage); err != nil {
			return nil, names, fmt.Errorf("page %d: %w", len(names), err)
		}
	}
	if len(p.Hosts) != first.Spec.HostCount {
		return nil, names, fmt.Errorf("it has %d hosts, and says %d", len(p.Hosts), first.Spec.HostCount)
	}
	p.Group, p.StartTime, p.Version, p.Schedule = first.Metadata.Name, first.Spec.StartTime.UTC(), first.Spec.Version, first.Spec.Schedule
	return p, names, nil
}

// parsePage is Parse for pages with thousands of hosts, which servers write for one
// another. Its errors have no position in the text.
func parsePage(value []byte) (page PlanResource, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&page); err != nil {
		return page, err
	}
	return page, page.Check()
}
