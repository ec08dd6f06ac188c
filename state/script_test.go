package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestStoreScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/store", func(t *testing.T, path string) {
		files := vfs.NewCrashableMem()
		s := openStore(t, Options{FS: files})
		handles := map[string]*Partition{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var handle string
			d.MaybeScanArgs(t, "handle", &handle)
			p := handles[handle]
			var err error
			switch d.Cmd {
			case "open":
				id := orders(0)
				d.ScanArgs(t, "partition", &id.Partition)
				d.MaybeScanArgs(t, "topic-id", &id.TopicID[0])
				handles[handle], err = s.Partition(id)
			case "put":
				for line := range strings.Lines(d.Input) {
					text, value, _ := strings.Cut(strings.TrimSpace(line), " ")
					err = p.Put(scriptKey(t, text), []byte(value))
				}
			case "delete":
				p.Delete(scriptKey(t, d.Input))
			case "commit":
				var pos Position
				d.MaybeScanArgs(t, "resume", &pos.Resume)
				d.MaybeScanArgs(t, "offset", &pos.Offset)
				d.MaybeScanArgs(t, "low", &pos.LowWater)
				d.MaybeScanArgs(t, "epoch", &pos.Epoch)
				pos.Watermark = argKey(t, d, "watermark")
				err = p.Commit(pos)
			case "trim":
				err = p.Trim(scriptKey(t, d.Input))
			case "drop":
				err = p.Drop()
			case "flush":
				err = s.Flush()
			case "scan":
				var b strings.Builder
				err = p.Scan(argKey(t, d, "after"), func(k Key, value []byte) bool {
					fmt.Fprintf(&b, "%v %s\n", k, value)
					return true
				})
				if err == nil {
					return b.String()
				}
			case "position":
				pos, ok := p.Position()
				if !ok {
					return "none\n"
				}
				return fmt.Sprintf("resume=%d offset=%d watermark=%v low=%d\n", pos.Resume, pos.Offset, pos.Watermark, pos.LowWater)
			case "restart", "power-loss":
				if d.Cmd == "power-loss" {
					files = files.CrashClone(vfs.CrashCloneCfg{})
				} else {
					must(t, s.Close())
				}
				s = openStore(t, Options{FS: files})
				clear(handles)
			case "bytes":
				return rawBytes(t, s)
			default:
				d.Fatalf(t, "unknown command")
			}
			if err != nil {
				return fmt.Sprintf("%s: %v\n", kindOf(err), err)
			}
			return ""
		})
	})
}

func scriptKey(t *testing.T, text string) Key {
	k, err := parseKey(strings.TrimSpace(text))
	must(t, err)
	return k
}

func argKey(t *testing.T, d *datadriven.TestData, name string) Key {
	if arg, ok := d.Arg(name); ok {
		return scriptKey(t, arg.SingleVal(t))
	}
	return Key{}
}

// rawBytes lists what pebble holds.
func rawBytes(t *testing.T, s *Store) string {
	iter, err := s.engine.db.NewIter(nil)
	must(t, err)
	var b strings.Builder
	for iter.First(); iter.Valid(); iter.Next() {
		fmt.Fprintf(&b, "%x = %q\n", iter.Key(), iter.Value())
	}
	must(t, iter.Close())
	return b.String()
}
