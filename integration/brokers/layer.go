package brokers

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// writeLayer writes the image's file system.
func (i *ownImage) writeLayer(w io.Writer, java string, libraries []string) error {
	t := tar.NewWriter(w)
	if err := addTree(t, java, "opt/java"); err != nil {
		return err
	}
	if err := addTree(t, i.libs, "opt/kafka/libs"); err != nil {
		return err
	}
	for _, library := range libraries { // at the path where the loader looks, whatever it links to
		if err := addFile(t, library, library[1:], 0o755); err != nil {
			return err
		}
	}
	entry := &tar.Header{Typeflag: tar.TypeReg, Name: "entrypoint", Mode: 0o755, Size: int64(len(i.entry))}
	if err := t.WriteHeader(entry); err != nil {
		return err
	}
	if _, err := t.Write(i.entry); err != nil {
		return err
	}
	for _, dir := range []string{"tmp", dataDir[1:]} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o1777}); err != nil {
			return err
		}
	}
	return t.Close()
}

func addTree(t *tar.Writer, dir, as string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path) // what a link points to
		if err != nil {
			return err
		}
		return addFile(t, path, filepath.Join(as, name), int64(info.Mode().Perm()))
	})
}

func addFile(t *tar.Writer, path, as string, mode int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: as, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

var (
	lddLine  = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)
	javaCode = []string{"bin/java", "lib/*.so", "lib/server/libjvm.so"}
)

// sharedLibraries are those that the runtime loads from outside itself, the loader among them.
func sharedLibraries(ctx context.Context, java string) ([]string, error) {
	seen := map[string]bool{}
	var found []string
	for _, pattern := range javaCode {
		files, err := filepath.Glob(filepath.Join(java, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			out, err := exec.CommandContext(ctx, "ldd", file).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("ldd %s: %w\n%s", file, err, out)
			}
			for _, m := range lddLine.FindAllSubmatch(out, -1) {
				library := string(m[1])
				if !seen[library] && !within(java, library) {
					seen[library] = true
					found = append(found, library)
				}
			}
		}
	}
	return found, nil
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
