package rollout

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// all are the pages of a plan.
func (p *Plan) all(t *testing.T, name func() uint64) []Page {
	pages, err := p.Pages(name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(pages)
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
