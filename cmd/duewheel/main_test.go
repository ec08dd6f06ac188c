package main

import (
	"os"
	"testing"
)

// asProgram makes a test binary the program itself, for what starts itself as a child.
const asProgram = "DUEWHEEL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv(asProgram, "1") // for children: this process is the tests
	os.Exit(m.Run())
}
