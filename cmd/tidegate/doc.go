// Command tidegate runs Tidegate and is how people talk to it.
//
//	main ─▶ run(ctx, args, process) ─▶ a command's Run(ctx, output) ─▶ exit code
//	            cli.go                   up.go, use.go, limits.go, …
//
// # Words
//
//   - process is the world outside: environment, streams, how it was called.
//   - output is where a command says what came out, to people or to programs.
//   - A usage error is a command line that cannot be meant; it ends with 2.
//   - A denial is an answer, not an error; it ends with 3.
//
// # An example
//
//	tidegate up                                              # in one terminal
//	tidegate limits set --resource gpt-4 rpm=100/min         # in another
//	tidegate acquire key-1 gpt-4 rpm=1 && call-the-model
//
// Every flag has an environment variable: --nats is TIDEGATE_NATS.
package main
