package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"teleport-update/internal/durable"
	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions/signature"
)

// SetMinimum writes the minimum into policy.yaml in a folder, and makes both if they are not
// there. Everything else in the file stays, comments too. A file that cannot be read as a policy
// is not touched.
func SetMinimum(dir, minimum string) error {
	v, err := version.Parse(minimum)
	if err != nil {
		return err
	}
	if err := makeFolder(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, fileName)
	old, err := regular.Read(path, maxFile, regular.NoLink|regular.Sealed)
	if errors.Is(err, fs.ErrNotExist) {
		return durable.WriteFile(path, []byte("minimum: "+v+"\n"), 0o644)
	}
	if err != nil {
		return err
	}
	if _, _, err := Parse(old); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	data, err := withMinimum(plaintext.UTF8(old), v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bytes.Equal(data, old) {
		return nil
	}
	return durable.WriteFile(path, data, 0o644)
}

// withMinimum returns the text of a policy with another minimum.
func withMinimum(text []byte, minimum string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, plain(err)
	}
	fields := document.Content[0]
	value := &yaml.Node{Kind: yaml.ScalarNode, Value: minimum}
	for n := 0; n+1 < len(fields.Content); n += 2 {
		if fields.Content[n].Value == "minimum" {
			if fields.Content[n+1].Value == minimum {
				return text, nil
			}
			fields.Content[n+1] = value
			return encode(&document)
		}
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Value: "minimum"}
	fields.Content = append(fields.Content, name, value)
	return encode(&document)
}

func encode(document *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(document)
	return out.Bytes(), err
}

// AddKeys copies files of public keys into keys.d in a folder, each under its own name. All of
// them are read before the first is written.
func AddKeys(dir string, files []string) error {
	to := filepath.Join(dir, keysName)
	keys := make(map[string][]byte)
	for _, file := range files {
		data, err := regular.Read(file, signature.MaxKeys, 0)
		if err != nil {
			return err
		}
		if _, err := signature.ParseKeys(file, data); err != nil {
			return err
		}
		name := filepath.Base(file)
		if !isKeyFile(name) {
			return fmt.Errorf("%s: a key of this name would be ignored; give the file a name that ends in .pem", file)
		}
		other, err := regular.Read(filepath.Join(to, name), signature.MaxKeys, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if twice := keys[name]; twice != nil {
			other = twice
		}
		if other != nil && !bytes.Equal(other, data) {
			return fmt.Errorf("%s: %s would have two keys of this file name; give one of them another name", file, to)
		}
		keys[name] = data
	}
	if err := makeFolder(to); err != nil {
		return err
	}
	for name, data := range keys {
		if err := durable.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// CleanUp removes leftovers of an interrupted SetMinimum or AddKeys. The caller must hold the lock that keeps other commands of the updater
// out of the folder.
func CleanUp(dir string) error {
	return errors.Join(durable.CleanTempFiles(dir), durable.CleanTempFiles(filepath.Join(dir, keysName)))
}

// makeFolder makes a folder that root alone can write, unless it is there.
func makeFolder(dir string) error {
	err := trust.Path(dir)
	if err == nil {
		err = durable.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = trust.Path(dir)
	}
	if err != nil && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w; give %s to root alone", err, dir)
	}
	return err
}
