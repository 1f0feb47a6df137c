package installer

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/integration/tarball"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// counted is an agent that counts the transactions which are carried out, and makes none.
type counted struct {
	seen
	n *int
}

func (c counted) RunTransient(context.Context, systemd.Transient) (int, bool, error) {
	*c.n++
	return 0, true, nil
}

// counts has transactions counted on a host whose agent runs by its link.
func (i *Installer) counts() (transactions *int) {
	if c, err := i.Machine.Host.Paths.LoadConfig(); err == nil {
		if tree, ok, err := i.Machine.Active(c); ok && err == nil {
			_ = os.MkdirAll(i.Machine.Host.Paths.LinkDir, 0o755)
			_ = os.Symlink(tree.Binary("teleport"), filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport"))
		}
	}
	i.Machine.Connect = sightOf(i, nil)
	return i.countsOnly()
}

// countsOnly has the transactions of a host counted that is as it is.
func (i *Installer) countsOnly() (transactions *int) {
	transactions = new(int)
	look := i.Machine.Connect
	i.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		a, err := look(ctx)
		return counted{a.(seen), transactions}, err
	}
	return transactions
}

// sign puts a signature beside a release on the shelf.
func (s *shelf) sign(k *ecdsa.PrivateKey, v string) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, v+".tar.gz"))
	must(s.T, err)
	sum := sha256.Sum256(data)
	der, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	must(s.T, err)
	writeFile(s.T, filepath.Join(s.dir, v+".tar.gz.sig"), base64.StdEncoding.EncodeToString(der)+"\n")
}

// back is a host that went from 1.0.0 to 1.1.0 ten minutes ago, and keeps both.
func back(t *testing.T) *shelf {
	s := newShelf(t)
	s.publish("1.1.0")
	s.has("1.1.0")()
	s.c.Spec.Enabled, s.c.Spec.ActiveVersion, s.c.Spec.Proxy = true, "1.1.0", "http://127.0.0.1:1"
	s.c.Spec.Health.RollbackWindow = state.Duration(time.Hour)
	s.c.Status = state.Status{ActiveEdition: version.OSS, PreviousVersion: "1.0.0", PreviousEdition: version.OSS, ActiveSince: noon.Add(-10 * time.Minute),
		LastUpdate: &state.LastUpdate{Time: noon.Add(-10 * time.Minute), Target: "1.1.0", TargetEdition: version.OSS, Result: state.Succeeded}}
	s.save()
	s.Machine.Host.Paths.RunDir = filepath.Join(filepath.Dir(s.Machine.Host.Paths.DataDir), "run")
	s.Machine.BootID = func() string { return "boot" }
	return s
}

// crashes has a run of the timer find that the active version crashes again and again.
func (s *shelf) crashes() *tick {
	s.Machine.Scheduled = true
	t := s.beginTick()
	t.memory.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon.Add(-5 * time.Minute), Last: noon}
	return t
}

// An old version that a mirror brought before there were keys lies on disk: whoever controls the
// find server names it, and no mirror is asked.
func TestAnUnsignedVersionOnDiskIsFetchedAgainWhereSignaturesAreRequired(t *testing.T) {
	s := newShelf(t)
	s.publish("1.1.0")
	s.has("1.1.0")()
	private, public := signingKey(t)
	s.Installer.owner(t, map[string]string{"keys.d/a.pem": public})
	if _, _, err := s.obtains("1.1.0"); err == nil || !strings.Contains(err.Error(), "there is no signature") {
		t.Errorf("what is on disk, without a signature anywhere: %v", err)
	}
	s.sign(private, "1.1.0")
	tree, unclaim, err := s.obtains("1.1.0")
	must(t, err)
	unclaim()
	if sig, err := tree.Signature(); err != nil || sig == nil {
		t.Errorf("the version was fetched again, and its signature is %q, %v", sig, err)
	}
}

// What runs already is fetched again without its signature, but nothing else is under its name.
func TestADamagedActiveVersionIsNotRepairedByAnotherTarball(t *testing.T) {
	s := newShelf(t)
	_, public := signingKey(t)
	s.Installer.owner(t, map[string]string{"keys.d/a.pem": public, "policy.yaml": "minimum: 2.0.0\n"})
	program := filepath.Join(s.Machine.Host.Paths.Versions(), "1.0.0", "bin", "tsh")
	must(t, os.Remove(program))
	damaged := wanted{Release: s.c.Active(), Config: s.c, Spec: s.c.Spec, Retried: true}

	s.publish("1.0.0", tarball.Item{Name: "teleport/another", Mode: 0o755, Data: "another"})
	if err := s.fetchAgain(t.Context(), damaged); err == nil || !strings.Contains(err.Error(), "there is no signature") {
		t.Errorf("by another tarball: %v", err)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("it is repaired by another tarball")
	}
	s.publish("1.0.0")
	must(t, s.fetchAgain(t.Context(), damaged))
	if _, err := os.Stat(program); err != nil {
		t.Errorf("by its own tarball: %v", err)
	}
}

// rollback asks before anything is changed, and again once the transaction is to begin.
func TestARollbackBelowTheMinimumNeedsRootsWord(t *testing.T) {
	s := back(t)
	n := s.counts()
	s.Installer.owner(t, map[string]string{"policy.yaml": "minimum: 1.1.0\n"})
	if _, err := s.considerRollback(t.Context(), RollbackOptions{}); !failure.Is[*failure.RefusedError](err) {
		t.Errorf("it is not refused before it begins: %v", err)
	}
	err := s.Rollback(t.Context(), RollbackOptions{})
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "below 1.1.0") || !strings.Contains(err.Error(), "--below-minimum") || *n > 0 {
		t.Errorf("%d transactions, %v", *n, err)
	}
	if err := s.Rollback(t.Context(), RollbackOptions{BelowMinimum: true}); err != nil || *n != 1 {
		t.Errorf("with --below-minimum: %d transactions, %v", *n, err)
	}
}

// The owner may withdraw a version while it is being fetched.
func TestAPolicyThatComesBeforeTheTransactionIsObeyed(t *testing.T) {
	s := back(t)
	n := s.counts()
	in, err := s.considerRollback(t.Context(), RollbackOptions{})
	must(t, err)
	s.Installer.owner(t, map[string]string{"policy.yaml": "withdrawn: [1.0.0]\n"})
	for _, kind := range []transaction.Kind{transaction.Rollback, transaction.Update, transaction.Downgrade, transaction.Enable, transaction.Pin} {
		in.Request.Kind = kind
		if err := s.transact(t.Context(), in.Request); !failure.Is[*failure.RefusedError](err) || *n > 0 {
			t.Errorf("%s: %d transactions, %v", kind, *n, err)
		}
	}
	s.Installer.owner(t, nil)
	in.Request.Kind = transaction.Rollback
	if err := s.transact(t.Context(), in.Request); err != nil || *n != 1 {
		t.Errorf("without the policy: %d transactions, %v", *n, err)
	}
}

// A policy that goes before the first run of the timer is missed, whatever the host did last.
func TestEveryCommandRemembersThatThereIsAPolicy(t *testing.T) {
	_, public := signingKey(t)
	files := map[string]string{"policy.yaml": "minimum: 1.0.0\nsignatures: warn\n", "keys.d/a.pem": public}
	for name, run := range map[string]func(t *testing.T) *Installer{
		"a first enable": func(t *testing.T) *Installer {
			s, w := newShelf(t), newWorld(t)
			must(t, os.Remove(w.Machine.Host.Paths.Config()))
			s.publish("1.1.0")
			w.owner(files)
			w.countsOnly()
			w.Machine.Scheduled = false
			must(t, w.Enable(t.Context(), EnableOptions{Proxy: w.url, Templates: s.c.Spec.URLTemplates}))
			return w.Installer
		},
		"a rollback by hand": func(t *testing.T) *Installer {
			s := back(t)
			s.counts()
			s.Installer.owner(t, files)
			must(t, s.Rollback(t.Context(), RollbackOptions{}))
			return s.Installer
		},
		"a run of the timer with updates off": func(t *testing.T) *Installer {
			s := back(t)
			s.counts()
			s.c.Spec.Enabled = false
			s.save()
			s.Installer.owner(t, files)
			s.Machine.Scheduled = true
			must(t, s.Update(t.Context(), UpdateOptions{}))
			return s.Installer
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := run(t)
			c, err := i.Machine.Host.Paths.LoadConfig()
			must(t, err)
			if seen := c.Status.PolicySeen; seen == nil || !seen.File || !seen.Keys {
				t.Errorf("remembered is %+v", seen)
			}
			i.owner(t, nil)
			if _, err := i.ownerRules().policy(c); err == nil {
				t.Error("nobody misses the policy")
			}
		})
	}
}

// A host that was never enabled is left as it is.
func TestARunOnAHostThatWasNeverEnabledRemembersNothing(t *testing.T) {
	i := testInstaller(t)
	i.owner(t, map[string]string{"policy.yaml": "minimum: 1.0.0\n"})
	must(t, i.Update(t.Context(), UpdateOptions{}))
	if _, err := os.Lstat(i.Machine.Host.Paths.Config()); err == nil {
		t.Error("updates.yaml was written")
	}
}

// Root insists in the same way by pin as by rollback: warned and obeyed. Who signs releases is not
// overruled, as far as that can still be read.
func TestRootInsistsWithoutAPolicyThatCanBeReliedOn(t *testing.T) {
	_, public := signingKey(t)
	for name, tc := range map[string]struct {
		files  map[string]string
		below  bool
		refuse string // part of the error; empty: it is obeyed
		rolls  bool   // rollback is obeyed, for nothing is fetched
	}{
		"gone":                           {nil, true, "", true},
		"gone, and root does not insist": {nil, false, "it is gone", false},
		"broken":                         {map[string]string{"policy.yaml": "minimum: newest\n"}, true, "", true},
		"broken, and there are keys":     {map[string]string{"policy.yaml": "minimum: newest\n", "keys.d/a.pem": public}, true, "there is no signature", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := back(t)
			n := s.counts()
			s.publish("1.0.5")
			s.c.Status.PolicySeen = &state.PolicySeen{File: true}
			s.save()
			s.Installer.owner(t, tc.files)
			err := s.Pin(t.Context(), "1.0.5", PinOptions{BelowMinimum: tc.below, AllowDowngrade: true})
			if tc.refuse == "" && (err != nil || *n != 1) || tc.refuse != "" && (err == nil || *n != 0 || !strings.Contains(err.Error(), tc.refuse)) {
				t.Errorf("pin: %d transactions, %v; want %q", *n, err, tc.refuse)
			}
			*n = 0
			err = s.Rollback(t.Context(), RollbackOptions{BelowMinimum: tc.below})
			if (err == nil) != tc.rolls || (*n == 1) != tc.rolls {
				t.Errorf("rollback: %d transactions, %v; want it: %v", *n, err, tc.rolls)
			}
		})
	}
}
