package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func planOf(n int) *Plan {
	r := NewRollout(nil, versionWith(Enabled, Regular), monday)
	return newPlan(r, &GroupStatus{Name: "prod"}, someHosts(n), monday)
}

func someHosts(n int) []HostID {
	hosts := make([]HostID, n)
	for i := range hosts {
		hosts[i] = ParseHostID(hostID(fmt.Sprint(i)))
	}
	return hosts
}

// all are the pages of a plan.
func (p *Plan) all(t *testing.T, name func() uint64) []Page {
	pages, err := p.Pages(name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(pages)
}

func TestAPlansOrderIsByLotAndCanBeComputedAgain(t *testing.T) {
	r := NewRollout(nil, versionWith(Enabled, Regular), monday)
	hosts := someHosts(1000)
	g := &GroupStatus{Name: "prod"}
	first := newPlan(r, g, hosts, monday)
	shuffled := slices.Clone(hosts)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if again := newPlan(r, g, shuffled, monday); !reflect.DeepEqual(again, first) {
		t.Error("the order depends on that of the hosts")
	}
	sorted := slices.Clone(first.Hosts)
	slices.SortFunc(sorted, func(a, b HostID) int { return bytes.Compare(a[:], b[:]) })
	if n := len(slices.Compact(sorted)); n != 1000 {
		t.Errorf("the plan has %d hosts", n)
	}
	other := versionWith(Enabled, Regular)
	other.Spec.Agents.TargetVersion = "17.2.2"
	for name, p := range map[string]*Plan{
		"another start":   newPlan(r, g, hosts, monday.Add(time.Second)),
		"another group":   newPlan(r, &GroupStatus{Name: "stage"}, hosts, monday),
		"another version": newPlan(NewRollout(nil, other, monday), g, hosts, monday),
		"another rollout": newPlan(NewRollout(nil, versionWith(Enabled, Regular), monday.Add(time.Second)), g, hosts, monday),
	} {
		same := 0
		for i := range p.Hosts {
			if p.Hosts[i] == first.Hosts[i] {
				same++
			}
		}
		if same > 20 {
			t.Errorf("%s: %d of 1000 hosts have the same place", name, same)
		}
	}
	// By lot: neither end of the list of hosts has the better places.
	sum := 0
	for place, id := range first.Hosts {
		if slices.Contains(hosts[:500], id) {
			sum += place
		}
	}
	if mean := float64(sum) / 500; math.Abs(mean-499.5) > 60 {
		t.Errorf("the mean place of the first half is %.0f", mean)
	}
}

func TestPagesAreSmallAndReadAgain(t *testing.T) {
	for _, n := range []int{0, 1, 2, 2600, 2700, 20_000} {
		p := planOf(n)
		p.Group = `a "group"/Ä` + strings.Repeat("g", 100)
		number := uint64(math.MaxUint64)
		pages := p.all(t, func() uint64 { number--; return number })
		stored := make(map[string][]byte)
		for i, page := range pages {
			if len(page.Value) > 100<<10 {
				t.Errorf("%d hosts: a page has %d bytes", n, len(page.Value))
			}
			if (page.Name == "") != (i == len(pages)-1) {
				t.Errorf("%d hosts: page %d of %d is %q: the head is written last", n, i, len(pages), page.Name)
			}
			if i > 0 && !strings.Contains(string(page.Value), `"next_page":"`+pages[i-1].Name+`"`) {
				t.Errorf("%d hosts: page %d does not name the one that was written before it", n, i)
			}
			if _, err := Parse(page.Value); err != nil {
				t.Errorf("%d hosts: page %d is not the resource: %v", n, i, err)
			}
			stored[page.Name] = page.Value
		}
		if want := (n + 2600) / 2601; n > 0 && (len(pages) < want || len(pages) > want+1) {
			t.Errorf("%d hosts are in %d pages", n, len(pages))
		}
		read, names, err := ReadPlan(stored[""], func(name string) ([]byte, error) { return stored[name], nil })
		if err != nil || read.Group != p.Group || !read.StartTime.Equal(p.StartTime) || !slices.Equal(read.Hosts, p.Hosts) || len(names) != len(pages)-1 {
			t.Errorf("%d hosts: %v, %d names", n, err, len(names))
		}
	}
}

func TestABrokenChainIsNoPlan(t *testing.T) {
	pagesOf := func(p *Plan) ([]Page, map[string][]byte) {
		number := uint64(0)
		pages := p.all(t, func() uint64 { number++; return number })
		stored := make(map[string][]byte)
		for _, page := range pages {
			stored[page.Name] = page.Value
		}
		return pages, stored
	}
	later := planOf(9000)
	later.StartTime = later.StartTime.Add(time.Second)
	_, others := pagesOf(later)
	for name, tc := range map[string]struct {
		damage func(stored map[string][]byte)
		want   string
	}{
		"a page is missing":       {func(s map[string][]byte) { delete(s, "2") }, "page 2: it is gone"},
		"the last one is missing": {func(s map[string][]byte) { delete(s, "1") }, "page 3: it is gone"},
		"a page of another plan":  {func(s map[string][]byte) { s["2"] = others["2"] }, "page 2 belongs to another plan"},
		"a page in a circle": {func(s map[string][]byte) {
			s["2"] = []byte(strings.Replace(string(s["2"]), `"next_page":"1"`, `"next_page":"2"`, 1))
		}, "hosts, and says 9000"},
		"a page that is cut":     {func(s map[string][]byte) { s["1"] = s["1"][:500] }, "page 3: unexpected EOF"},
		"a page that ends early": {func(s map[string][]byte) { s["2"] = []byte(strings.Replace(string(s["2"]), `,"next_page":"1"`, "", 1)) }, "hosts, and says 9000"},
		"a field too many":       {func(s map[string][]byte) { s["2"] = []byte(strings.Replace(string(s["2"]), `"hosts"`, `"guests"`, 1)) }, `unknown field "guests"`},
		"another resource": {func(s map[string][]byte) {
			s["2"] = []byte(`{"kind":"autoupdate_config","metadata":{"name":"a"},"spec":{}}`)
		}, "kind: autoupdate_config is not agent_rollout_plan"},
		"nothing": {func(map[string][]byte) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, stored := pagesOf(planOf(9000))
			tc.damage(stored)
			p, _, err := ReadPlan(stored[""], func(name string) ([]byte, error) {
				if page, ok := stored[name]; ok {
					return page, nil
				}
				return nil, errors.New("it is gone")
			})
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || p != nil) {
				t.Errorf("got %v; want %s", err, tc.want)
			}
		})
	}
}

func idsOf(names ...string) (ids []HostID) {
	for _, name := range names {
		ids = append(ids, ParseHostID(name))
	}
	return ids
}

func namesOf(p *Plan) (names []string) {
	for _, id := range p.Hosts {
		names = append(names, id.String())
	}
	return names
}

func TestTheIndexFindsEveryPlace(t *testing.T) {
	hosts := append(namesOf(planOf(5000)), "278576220453-i-01234567890abcdef", "a host", strings.ToUpper(hostID("in capitals")))
	x, err := NewIndex(idsOf(hosts...))
	if err != nil {
		t.Fatal(err)
	}
	for i, host := range hosts {
		for _, spelling := range []string{host, strings.ToLower(host)} {
			if place, there := x.Place(ParseHostID(spelling)); (place != i || !there) && (spelling == host || len(host) == 36) {
				t.Fatalf("host %s is at %d, %v; want %d", spelling, place, there, i)
			}
			for _, last := range []int{-1, 0, i - 1, i, i + 1, i / 2, 2 * i} {
				if place, there := x.Place(ParseHostID(spelling)); x.Within(ParseHostID(spelling), last) != (there && place <= last) {
					t.Fatalf("host %s at %d, %v, is within %d: %v", spelling, place, there, last, there && place > last)
				}
			}
		}
	}
	for i := range 5000 {
		if place, there := x.Place(ParseHostID(hostID(fmt.Sprint("stranger ", i)))); there {
			t.Fatalf("a stranger has place %d", place)
		}
		if x.Within(ParseHostID(hostID(fmt.Sprint("stranger ", i))), len(hosts)) {
			t.Fatal("a stranger is within all")
		}
	}
	if _, there := (*Index)(nil).Place(HostID{}); there || (*Index)(nil).Within(HostID{}, 1) {
		t.Error("there is a host in no plan")
	}
	if empty, err := NewIndex(nil); err != nil || empty.Len() != 0 {
		t.Errorf("an empty plan: %v", err)
	} else if _, there := empty.Place(HostID{}); there {
		t.Error("there is a host in an empty plan")
	}
	if _, err := NewIndex(idsOf(hosts[0], hosts[1], strings.ToUpper(hosts[0]))); err == nil || !strings.Contains(err.Error(), "appears twice") {
		t.Errorf("a host with two places: %v", err)
	}
}

func TestHostIDs(t *testing.T) {
	const text = "c757ad82-95f2-4416-ae9d-a20ffd9b5a54"
	id := ParseHostID(text)
	if id.String() != text || ParseHostID(strings.ToUpper(text)) != id {
		t.Errorf("%s is read as %s", text, id)
	}
	seen := map[HostID]string{id: text}
	for _, other := range []string{"", "a", text[:35], text + "0", strings.Replace(text, "-", "0", 1), strings.Replace(text, "c", "g", 1), text[1:] + "-", "278576220453-i-01234567890abcdef"} {
		got := ParseHostID(other)
		if before, there := seen[got]; there {
			t.Errorf("%q is the same host as %q", other, before)
		}
		seen[got] = other
	}
}

func TestShares(t *testing.T) {
	for _, tc := range []struct {
		text  string
		hosts int
		want  int
	}{
		{"10%", 25, 2}, {"10%", 9, 1}, {"10%", 0, 1}, {"0%", 100, 0}, {"0", 100, 0}, {"5", 2, 5}, {"100%", 7, 7}, {"1%", 1_000_000, 10_000}, {"33%", 100, 33},
	} {
		var s Share
		if err := s.UnmarshalText([]byte(tc.text)); err != nil || s.Of(tc.hosts) != tc.want || s.String() != tc.text {
			t.Errorf("%s of %d hosts is %d, %v; want %d", tc.text, tc.hosts, s.Of(tc.hosts), err, tc.want)
		}
	}
}
