package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

// A policy that requires signatures, and whose keys are gone: forgetting them does not help, and
// the error names what does.
func TestTheAdviceOfAPolicyWithoutItsKeysHelps(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, help := range map[string]func(o *outsider, typed func(...string) (int, string)){
		"a key": func(o *outsider, typed func(...string) (int, string)) {
			o.write(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "vendor.pem")
			if _, said := typed("enable", "--release-key", o.path("vendor.pem")); strings.Contains(said, "cannot be relied on") {
				t.Errorf("enable with the key: %s", said)
			}
		},
		"signatures: off": func(o *outsider, _ func(...string) (int, string)) {
			o.write([]byte("signatures: off\n"), "etc", "policy.yaml")
		},
	} {
		o := &outsider{t: t, dir: t.TempDir(), spec: map[string]any{"proxy": "127.0.0.1:1", "enabled": true, "active_version": "1.1.0"},
			status: map[string]any{"active_edition": "oss", "policy_seen": map[string]any{"file": true, "keys": true}}}
		o.writeYAML(map[string]any{"version": "v1", "kind": "agent_versions", "spec": o.spec, "status": o.status}, "data", "versions", "updates.yaml")
		o.write([]byte("signatures: require\n"), "etc", "policy.yaml")
		o.write(nil, "bin", ".keep")
		typed := func(command ...string) (int, string) {
			var out, said bytes.Buffer
			code := run(t.Context(), o.args(append([]string{"--policy-dir", o.path("etc")}, command...)), &out, &said)
			return code, out.String() + said.String()
		}
		const advice = "`teleport-update enable --release-key FILE`"
		for _, command := range [][]string{{"policy"}, {"policy", "--forget"}, {"policy"}} {
			if _, said := typed(command...); !strings.Contains(said, advice) || !strings.Contains(said, "`signatures: off`") {
				t.Errorf("%v: %s; want %q", command, said, advice)
			}
		}
		help(o, typed)
		if code, said := typed("policy"); code != 0 {
			t.Errorf("%s does not help: %s", name, said)
		}
	}
}
