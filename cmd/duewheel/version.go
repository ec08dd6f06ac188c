package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/duewheel/duewheel/state"
)

// release is set when a release is built: -ldflags "-X main.release=v1.2.3".
var release string

// build is what this program was made from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Time     string `json:"time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Checkpoints says which versions of the checkpoint it reads and writes: neighbours in a rollout must read each other's.
	Checkpoints string `json:"checkpoints"`
}

func readBuild() build {
	b := build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Checkpoints: state.Versions()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	return fmt.Sprintf("duewheel %s (%s, %s)\ncheckpoints: %s\n", b.Version, b.Go, b.Platform, b.Checkpoints)
}

func version() string { return readBuild().Version }

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			if asJSON {
				return newJSON(cmd.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b)
			return err
		},
	}
	jsonFlag(cmd.Flags(), &asJSON)
	return cmd
}
