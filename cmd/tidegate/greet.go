package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tidegate/tidegate/pkg/api"
)

// howToStop is the last line that a server prints when it is ready.
const howToStop = "Ctrl-C stops it."

// greet prints that all services are up, and commands to try.
func (c upCmd) greet(o output, address string) {
	addresses := map[string]any{"ready": true, "nats": address, "metrics": "http://" + c.AdminListen + "/metrics", "dir": c.Dir}
	store := ""
	if c.DynamoDBListen != "" {
		addresses["dynamodb"] = "http://" + c.DynamoDBListen
		store = "DynamoDB http://" + c.DynamoDBListen + ", "
	}
	_ = o.write(addresses, func(p *page) { // a terminal that is gone is no reason to stop serving
		p.line("Tidegate is ready: NATS %s, %smetrics http://%s/metrics, data in %s",
			address, store, c.AdminListen, c.Dir)
		p.line("\nTry it in another terminal:\n")
		for _, command := range tryCommands(o.self, address) {
			p.line("  %s", command)
		}
		p.line("\n%s", howToStop)
	})
}

// tryCommands are a first tour: give a resource limits, spend, look.
func tryCommands(self, address string) []string {
	f := clientFlags{natsFlags: natsFlags{NATS: address}, Namespace: api.DefaultNamespace}
	return []string{
		f.command(self, "limits", "set", "--resource", "gpt-4", "rpm=100/min", "tpm=10000/min:20000"),
		f.command(self, "acquire", "api-key-123", "gpt-4", "rpm=1", "tpm=500"),
		f.command(self, "status", "api-key-123", "gpt-4"),
	}
}

// invocation is how to call this program from any directory: by its name if
// that is found, else by where it is.
func invocation(arg0 string) string {
	program, err := os.Executable()
	if err != nil {
		return arg0
	}
	name := filepath.Base(arg0)
	if found, err := exec.LookPath(name); err == nil && sameFile(found, program) {
		return name
	}
	return program
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
