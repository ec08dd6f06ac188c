package brokers

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// cacheDir holds what is worth keeping between runs.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "duewheel", "brokers")
}

// cached returns the cache folder of this key and makes it with fill when it is not there. fill gets an empty folder that is
// renamed when it succeeds: what is half made is never used. A lock file lets parallel processes wait for each other.
func cached(key string, fill func(dir string) error) (string, error) {
	dir := filepath.Join(cacheDir(), key)
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cacheDir(), 0o755); err != nil {
		return "", err
	}
	lock, err := lockFile(dir+".lock", true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if exists(dir) {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(cacheDir(), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func keyOf(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:8])
}

// Cached returns a folder that fill has filled, by this run or an earlier one. Another key, or another part, is another folder. fill
// gets an empty one.
func Cached(kind string, fill func(dir string) error, parts ...string) (string, error) {
	return cached(keyOf(kind, parts...), fill)
}
