// Command tidegate runs the services of Tidegate and administers them.
//
//	main ─▶ run(ctx, args, process) ─▶ a command's Run(ctx, output) ─▶ exit code
//	            cli.go                   up.go, use.go, limits.go, …
//
// # Words
//
//   - process: the environment, the streams and the program's name.
//   - output: the destination of a command's result, as text or JSON.
//   - A usage error is a malformed command line; it ends with 2.
//   - A denial is an answer, not an error; it ends with 3.
//
// # An example
//
//	tidegate up                                              # in a terminal
//	tidegate limits set --resource gpt-4 rpm=100/min         # in a second terminal
//	tidegate acquire key-1 gpt-4 rpm=1 && call-the-model
//
// Connections and the settings of services have environment variables: --nats is
// TIDEGATE_NATS.
package main
