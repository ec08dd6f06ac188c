//go:build !unix

package main

import "os"

var hangUps = []os.Signal{os.Interrupt} // which main heeds, too

func inBackground() {}
