package wheel_test

import (
	"fmt"

	"github.com/duewheel/duewheel/wheel"
)

func Example() {
	w := wheel.New(0)
	w.Add(250, 1, 100)
	w.Add(1000, 2, 200)
	w.Add(250, 0, 300)

	next, _ := w.Next()
	fmt.Println("next at", next)
	for _, e := range w.Take(500, nil, 10) {
		fmt.Println("due", e.Due, "seq", e.Seq, "ref", e.Ref)
	}
	next, _ = w.Next()
	fmt.Println("next at", next)
	// Output:
	// next at 250
	// due 250 seq 0 ref 300
	// due 250 seq 1 ref 100
	// next at 1000
}
