package installer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// owner has the host's owner say something.
func (w *world) owner(files map[string]string) {
	w.Helper()
	w.Installer.owner(w.T, files)
}

// owner has the host's owner say something, and nothing that was said before.
func (i *Installer) owner(t *testing.T, files map[string]string) {
	t.Helper()
	i.Machine.Host.Paths.PolicyDir = filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "etc")
	must(t, os.RemoveAll(i.Machine.Host.Paths.PolicyDir))
	for name, text := range files {
		writeFile(t, filepath.Join(i.Machine.Host.Paths.PolicyDir, name), text)
	}
}

// A version that the policy refuses is not even asked for at the mirrors: the run of the timer
// fails once, and says so in status from then on.
func TestAVersionThatThePolicyRefusesIsNotFetched(t *testing.T) {
	for name, tc := range map[string]struct{ policy, rule, fix string }{
		"below the minimum":    {"minimum: 1.2.0\n", "minimum", "have the cluster name a newer version"},
		"withdrawn":            {"withdrawn: [1.1.0]\n", "withdrawn", "have the cluster name another version"},
		"a policy of nonsense": {"minimum: newest\n", "cannot be relied on", "repair the policy"},
		"an empty policy":      {"", "cannot be relied on", "repair the policy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.owner(map[string]string{"policy.yaml": tc.policy})
			for n := range 3 {
				asked, err := w.tick()
				if asked || len(w.asked) > 0 {
					t.Errorf("run %d: the mirror was asked for %v", n, w.asked)
				}
				if refused := failure.Is[*failure.RefusedError](err); refused != (n == 0) || n > 0 && err != nil {
					t.Errorf("run %d ends with %v", n, err)
				}
			}
			r := w.state()
			about := ""
			for _, c := range r.Conditions {
				if c.Type == decision.TargetRefused {
					about = c.Message
				}
			}
			if r.State != decision.NeedsAttention || !strings.Contains(about, tc.rule) || !strings.Contains(about, tc.fix) {
				t.Errorf("status is %s: %q; want %q and %q", r.State, about, tc.rule, tc.fix)
			}
		})
	}
}

// An operator who follows the advice sees at once that it helped, and not after the next change
// of the version.
func TestStatusComparesWhatWasRefusedWithThePolicyOfNow(t *testing.T) {
	w := newWorld(t)
	w.owner(map[string]string{"policy.yaml": "minimum: 1.2.0\n"})
	if _, err := w.tick(); !failure.Is[*failure.RefusedError](err) {
		t.Fatalf("the run ends with %v", err)
	}
	for _, tc := range []struct{ policy, want string }{ // empty: it is not refused
		{"minimum: 1.2.0\n", "below 1.2.0"},
		{"minimum: 1.0.0\n", ""},
		{"minimum: 1.1.5\n", "below 1.1.5"},
		{"withdrawn: [1.1.0]\n", "withdrew the version"},
		{"minimum: newest\n", "cannot be relied on"},
		{"signatures: off\n", ""},
	} {
		w.owner(map[string]string{"policy.yaml": tc.policy})
		r := w.state()
		about := ""
		for _, c := range r.Conditions {
			if c.Type == decision.TargetRefused {
				about = c.Message
			}
		}
		refused := tc.want != ""
		if (about != "") != refused || !strings.Contains(about, tc.want) || (r.RefusedVersion != nil) != refused {
			t.Errorf("%q: the condition says %q, and refused_version is there: %v; want %q", tc.policy, about, r.RefusedVersion != nil, tc.want)
		}
		if refused && (r.RefusedReason == nil || !strings.Contains(*r.RefusedReason, tc.want)) {
			t.Errorf("%q: refused_reason is another than %q", tc.policy, tc.want)
		}
	}
}

// A listed version that was published again is refused by its digest: the record keeps that.
func TestStatusKeepsARefusalByDigest(t *testing.T) {
	w := newWorld(t)
	w.owner(map[string]string{"policy.yaml": "releases: {1.1.0: " + strings.Repeat("a", 64) + "}\n"})
	c, err := w.Machine.Host.Paths.LoadConfig()
	must(t, err)
	p, err := w.ownerRules().policy(c)
	must(t, err)
	refusal := refusedByOwner(p.Floors(oss("1.1.0"), strings.Repeat("b", 64)))
	if err := w.Machine.ReportRefusal(&c, oss("1.1.0"), refusal); err == nil || c.Status.Refused == nil {
		t.Fatalf("%v; recorded is %+v", err, c.Status.Refused)
	}
	if why := w.ownerRules().aboutPolicy(c).Target; !strings.Contains(why, "lists others") {
		t.Errorf("it is refused now because %q", why)
	}
	w.owner(map[string]string{"policy.yaml": "releases: {1.1.0: " + strings.Repeat("b", 64) + "}\n"})
	if why := w.ownerRules().aboutPolicy(c).Target; why != "" {
		t.Errorf("the digest is on the list, and it is refused because %q", why)
	}
}

// With a policy and keys, a run with nothing to do asks find once, as without them, and no
// mirror for a signature.
func TestARunWithNothingToDoAsksOnceWhateverThePolicy(t *testing.T) {
	_, key := signingKey(t)
	for name, files := range map[string]map[string]string{
		"none": nil, "policy and keys": {"policy.yaml": "minimum: 1.0.0\nsignatures: require\n", "keys.d/a.pem": key},
	} {
		w := newWorld(t)
		if files != nil {
			w.owner(files)
		}
		w.wants.Version = ""
		for run := range 3 {
			if _, err := w.tick(); err != nil || w.finds != run+1 || len(w.asked) > 0 {
				t.Errorf("%s: run %d: %v; find was asked %d times, the mirror for %v", name, run, err, w.finds, w.asked)
			}
		}
	}
}

// A policy that is gone is not the absence of a policy, until root says so.
func TestAPolicyThatWasThereIsMissed(t *testing.T) {
	w := newWorld(t)
	w.owner(map[string]string{"policy.yaml": "minimum: 1.0.0\n"})
	w.wants.Version = ""
	if _, err := w.tick(); err != nil {
		t.Fatal(err)
	}
	c, err := w.Machine.Host.Paths.LoadConfig()
	must(t, err)
	if c.Status.PolicySeen == nil || !c.Status.PolicySeen.File {
		t.Fatalf("a run with nothing to do remembers %+v", c.Status.PolicySeen)
	}
	w.owner(nil)
	w.wants.Version = "1.1.0"
	if _, err := w.tick(); err == nil || !strings.Contains(err.Error(), "it is gone") || len(w.asked) > 0 {
		t.Errorf("a run without the policy: %v; asked was %v", err, w.asked)
	}
	if r := w.state(); !slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.PolicyBroken }) {
		t.Errorf("status says %+v", r.Conditions)
	}
	must(t, w.ForgetPolicy(t.Context()))
	if _, err := w.tick(); len(w.asked) == 0 {
		t.Errorf("after --forget the mirror is not asked: %v", err)
	}
}

// A rule that went with an edit of policy.yaml stops nothing, and status says so until root says that it may go.
func TestARuleThatIsGoneIsSaid(t *testing.T) {
	w := newWorld(t)
	w.wants.Version = ""
	said := func() string {
		for _, c := range w.state().Conditions {
			if c.Type == decision.RuleGone {
				return c.Message
			}
		}
		return ""
	}
	w.owner(map[string]string{"policy.yaml": "minimum: 1.0.0\nwithdrawn: [1.0.9]\nsignatures: off\n"})
	_, err := w.tick()
	must(t, err)
	if about := said(); about != "" {
		t.Errorf("with all rules: %s", about)
	}
	w.owner(map[string]string{"policy.yaml": "withdrawn: [1.0.8]\nsignatures: off\n", "keys.d/old.pem.bak": "x"})
	if about := said(); !strings.Contains(about, "gone: minimum;") {
		t.Errorf("without the minimum: %q", about)
	}
	_, err = w.tick() // does not forget
	must(t, err)
	if about := said(); !strings.Contains(about, "gone: minimum;") {
		t.Errorf("after a run: %q", about)
	}
	report, err := w.PolicyReport()
	must(t, err)
	if !slices.Equal(report.Ignored, []string{"old.pem.bak"}) {
		t.Errorf("ignored are %q", report.Ignored)
	}
	must(t, w.ForgetPolicy(t.Context()))
	_, err = w.tick()
	must(t, err)
	if about := said(); about != "" {
		t.Errorf("after --forget: %s", about)
	}
}

// Who asked, and for what, decides which rules there are.
func TestWhoeverDidNotAskForTheVersionAsksThePolicy(t *testing.T) {
	unsigned := versions.Tree{Release: oss("1.1.0"), SHA256: strings.Repeat("a", 64), Dir: t.TempDir()}
	_, key := signingKey(t)
	const below, gone, sign, other = "minimum", "gone", "signatures", "releases"
	for _, tc := range []struct {
		policy    string // what there is
		kind      transaction.Kind
		scheduled bool
		overruled bool   // --below-minimum
		want      string // part of the error; empty: it is allowed
	}{
		{"none", transaction.Update, true, false, ""},
		{below, transaction.Update, true, false, "below 1.2.0"},
		{below, transaction.Update, false, false, "below 1.2.0"}, // update --now: find named it
		{below, transaction.Downgrade, true, false, "below 1.2.0"},
		{below, transaction.Enable, false, false, "below 1.2.0"},
		{below, transaction.Rollback, true, false, "below 1.2.0"}, // --rollback-window
		{below, transaction.Rollback, false, false, "--below-minimum"},
		{below, transaction.Rollback, false, true, ""},
		{below, transaction.Pin, false, false, "--below-minimum"},
		{below, transaction.Pin, false, true, ""},
		{gone, transaction.Update, true, false, "it is gone"},
		{gone, transaction.Rollback, true, false, "it is gone"},
		{gone, transaction.Rollback, false, false, "it is gone"},
		{gone, transaction.Rollback, false, true, ""},
		{sign, transaction.Update, true, false, "has none on disk"},
		{sign, transaction.Rollback, true, false, "has none on disk"},
		{sign, transaction.Rollback, false, false, ""}, // root named what is on disk
		{sign, transaction.Enable, false, false, "has none on disk"},
		{other, transaction.Update, true, false, "lists others"},
		{other, transaction.Rollback, true, false, "lists others"},
		{other, transaction.Rollback, false, false, "--below-minimum"},
		{other, transaction.Rollback, false, true, ""},
		{other, transaction.Pin, false, false, "lists others"},
	} {
		w := newWorld(t)
		c := state.EmptyConfig()
		switch tc.policy {
		case below:
			w.owner(map[string]string{"policy.yaml": "minimum: 1.2.0\n"})
		case gone:
			w.owner(nil)
			c.Status.PolicySeen = &state.PolicySeen{File: true}
		case other:
			w.owner(map[string]string{"policy.yaml": "releases: {1.1.0: " + strings.Repeat("b", 64) + "}\n"})
		case sign:
			w.owner(map[string]string{"keys.d/a.pem": key})
		}
		w.Machine.Scheduled = tc.scheduled
		r := transaction.Request{Kind: tc.kind, To: state.Tree{Release: unsigned.Release, SHA256: unsigned.SHA256}, BelowMinimum: tc.overruled}
		err := w.ownerRules().allow(c, r, unsigned)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s, %s, by the timer %v, overruled %v: %v; want %q", tc.policy, tc.kind, tc.scheduled, tc.overruled, err, tc.want)
		}
		if err != nil && !failure.Is[*failure.RefusedError](err) {
			t.Errorf("%s: %T is no refusal", tc.policy, err)
		}
	}
}

// What an open transaction goes back to, and what runs already, is nobody's to refuse.
func TestNobodyIsAskedAboutTheWayBack(t *testing.T) {
	w := newWorld(t)
	w.owner(map[string]string{"policy.yaml": "broken"})
	c, err := w.Machine.Host.Paths.LoadConfig()
	must(t, err)
	g, err := w.ownerRules().guardOf(wanted{Release: oss("1.0.0"), Config: c, Unasked: true})
	if err != nil || g.verifier != nil {
		t.Errorf("a verifier %v, %v; want none", g.verifier, err)
	}
	var broken *policy.BrokenError
	if _, err := w.ownerRules().guardOf(wanted{Release: oss("1.0.0"), Config: c}); !errors.As(err, &broken) {
		t.Errorf("without a policy that can be read: %v", err)
	}
	w.owner(map[string]string{"policy.yaml": "minimum: 2.0.0\n"})
	c.Spec.ActiveVersion, c.Status.ActiveEdition = "1.0.0", "oss"
	if g, err = w.ownerRules().guardOf(wanted{Release: oss("1.0.0"), Config: c}); err != nil || !g.verifier.NoFloors {
		t.Errorf("the repair of the active version asks the floors: %+v, %v", g.verifier, err)
	}
	if g, err = w.ownerRules().guardOf(wanted{Release: oss("1.1.0"), Config: c}); err != nil || g.verifier.NoFloors {
		t.Errorf("another version does not: %+v, %v", g.verifier, err)
	}
}

// signingKey is a key pair, the public half as a host has it.
func signingKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	must(t, err)
	return k, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// A find server learns which hosts run what their owner would refuse: before signatures are
// required, that is who would stop updating.
func TestReportsSayWhatTheOwnerWouldRefuse(t *testing.T) {
	_, key := signingKey(t)
	for name, tc := range map[string]struct {
		policy          map[string]string
		below, unsigned bool
	}{
		"no policy":              {nil, false, false},
		"below the minimum":      {map[string]string{"policy.yaml": "minimum: 1.2.0\n"}, true, false},
		"withdrawn":              {map[string]string{"policy.yaml": "withdrawn: [1.1.0]\n"}, true, false},
		"not the listed tarball": {map[string]string{"policy.yaml": "signatures: warn\nreleases: {1.1.0: " + strings.Repeat("b", 64) + "}\n"}, true, false},
		"only warned of":         {map[string]string{"policy.yaml": "signatures: warn\n", "keys.d/a.pem": key}, false, true},
		"required":               {map[string]string{"keys.d/a.pem": key}, false, true},
		"nobody looks":           {map[string]string{"policy.yaml": "signatures: off\n", "keys.d/a.pem": key}, false, false},
	} {
		w := newWorld(t)
		w.owner(tc.policy)
		c := state.EmptyConfig()
		c.Spec.ActiveVersion, c.Status.ActiveEdition = "1.1.0", "oss"
		for file, word := range map[string]string{"edition": "oss\n", "manifest": "", "sha256": strings.Repeat("a", 64) + "\n"} {
			writeFile(t, filepath.Join(w.Machine.Host.Paths.Versions(), "1.1.0", file), word)
		}
		if b := w.heartbeats().heartbeat(c, c.Spec); b.BelowMinimum != tc.below || b.Unsigned != tc.unsigned {
			t.Errorf("%s: below %v, unsigned %v; want %v, %v", name, b.BelowMinimum, b.Unsigned, tc.below, tc.unsigned)
		}
	}
}
