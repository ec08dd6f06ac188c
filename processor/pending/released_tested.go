//go:build race || synctests

package pending

// overwrites has what is released overwritten at once. So unit tests, which are built with one of these, and the simulation see that nothing looks at
// it any more: in a program it is used again only when all of its chunk is released, and mostly for a record of the same form.
const overwrites = true
