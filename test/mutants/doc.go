// Mutants changes a line of the system at a time, and runs the tests that should notice.
//
//	make mutants                     every mutant that was not killed before
//	make mutants ONLY='split|merge'  the mutants with such a name
//
// A mutant is a row of a table: a file, a text that the file has exactly once, and the
// text in its place. The go command compiles the changed file in place of the original
// (-overlay), so that the tree stays as it is. The suites of the file's folder run until
// a test fails, which kills the mutant. A mutant that no test kills has survived: a test is
// missing, or the mutant is equivalent to the original, for a reason that its row states.
//
// Results are kept in .cache/mutants.json, so that a run that was stopped goes on where
// it was. A mutant runs again when its row or its file has changed, or with FRESH=1.
package main
