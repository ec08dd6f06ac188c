package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// keeper is a process that restores the terminal when this one has ended without doing so: by a panic anywhere, a second Ctrl-C, or kill -9.
// It reads a pipe whose other end we have. When that ends without the word that all is well, it sets the terminal as it found it. What Go
// says of a crash goes through the same pipe, so that it is still there when the screen is not.
type keeper struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// allWell is what a keeper is told when the terminal was restored.
const allWell = "all well\n"

func startKeeper(tty *os.File) (*keeper, error) {
	cmd := demoChild("keeper")
	unheard(cmd)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd.Stdin, cmd.Stderr = read, tty
	ready, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		if _, err = bufio.NewReader(ready).ReadString('\n'); err != nil {
			err = errors.Join(err, cmd.Wait())
		}
	}
	if err == nil {
		err = debug.SetCrashOutput(write, debug.CrashOptions{})
	}
	if err != nil {
		write.Close()
		return nil, fmt.Errorf("start what keeps the terminal: %w", err)
	}
	return &keeper{cmd, write}, nil
}

// dismiss says that the terminal was restored.
func (k *keeper) dismiss() error {
	_, err := io.WriteString(k.pipe, allWell)
	return errors.Join(err, debug.SetCrashOutput(nil, debug.CrashOptions{}), k.pipe.Close(), k.cmd.Wait())
}

// newDemoKeeperCommand is what the demo starts as its keeper.
func newDemoKeeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inBackground()
			tty, ok := cmd.ErrOrStderr().(*os.File)
			if !ok {
				return errors.New("a keeper has a terminal as its standard error")
			}
			was, err := term.GetState(int(tty.Fd()))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			said, err := io.ReadAll(cmd.InOrStdin())
			if err != nil || string(said) == allWell {
				return err
			}
			_, err = io.WriteString(tty, leaveScreen)
			err = errors.Join(err, term.Restore(int(tty.Fd()), was))
			_, _ = tty.Write(said)
			return err
		},
	}
}
