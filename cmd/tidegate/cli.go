package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// Exit codes.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitDenied = 3
)

// envPrefix begins the name of every environment variable that stands for a
// flag. Only connections and the settings of services have variables: a variable that is
// forgotten in a shell must not choose what a command changes.
const envPrefix = "TIDEGATE_"

const description = `Rate-limit admission over NATS, kept in DynamoDB.

Start with "tidegate up": everything in one process, nothing else needed.`

// process holds the environment, the streams and the name of the running program.
type environment struct {
	getenv         func(string) string
	self           string // how people call this program, for commands to paste
	stdin          io.Reader
	terminal       bool // stdin is a person's
	stdout, stderr io.Writer
}

// run executes a command line (without the program's name) and returns the exit code.
func run(ctx context.Context, args []string, p environment) int {
	var c cli
	parser, helped, err := newParser(&c, p)
	if err != nil {
		return output{environment: p}.end(nil, fmt.Errorf("the command line's own definition: %w", err))
	}
	command, err := parser.Parse(asMeant(args))
	switch {
	case *helped:
		return exitDone
	case err != nil:
		return p.misuse(err)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	o := output{environment: p, json: c.JSON, atEnd: new(tasks)}
	defer o.atEnd.run()
	command.Bind(o)
	return o.end(command.Selected(), command.Run())
}

// asMeant maps an empty command line, `help` and `--version` to their commands.
func asMeant(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// newParser makes the parser; *helped is set once it has printed help.
func newParser(c *cli, p environment) (parser *kong.Kong, helped *bool, err error) {
	helped = new(bool)
	variables := map[*kong.Flag]bool{}
	parser, err = kong.New(c,
		kong.Name("tidegate"),
		kong.Description(description),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { *helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(func(value *kong.Value) string { return describe(value, variables) }),
		kong.Vars{
			"nats": defaultNATS, "natsListen": defaultNATSListen,
			"namespace": api.DefaultNamespace, "table": table.DefaultName, "archive": localArchive,
		},
		kong.Resolvers(fromEnvironment(p.getenv, variables)),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run it:"},
			{Key: "use", Title: "Use it:"},
			{Key: "set", Title: "Set it up:"},
			{Key: "load", Title: "Put load on it:"},
			{Key: "about", Title: "About it:"},
		}),
	)
	if err == nil {
		markVariables(parser.Model.Node, variables)
	}
	return parser, helped, err
}

// markVariables collects the flags that a variable can stand for: all flags of the commands
// that run services, and of other commands the flags tagged `variable`.
func markVariables(node *kong.Node, variables map[*kong.Flag]bool) {
	runs := node.Group != nil && node.Group.Key == "run"
	for _, flag := range node.Flags {
		if flag.Name != "help" && (runs || flag.Tag.Has("variable")) {
			variables[flag] = true
		}
	}
	for _, child := range node.Children {
		markVariables(child, variables)
	}
}

// environmentName is the environment variable that stands for a flag.
func environmentName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment gives flags that are not typed the value of their variable.
func fromEnvironment(getenv func(string) string, variables map[*kong.Flag]bool) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if value := getenv(environmentName(flag.Name)); value != "" && variables[flag] {
			return value, nil
		}
		return nil, nil
	})
}

// describe is the help of a flag or an argument, with its environment variable if any.
func describe(value *kong.Value, variables map[*kong.Flag]bool) string {
	if value.Flag == nil || !variables[value.Flag] {
		return value.Help
	}
	return strings.TrimSuffix(value.Help, ".") + " ($" + environmentName(value.Flag.Name) + ")."
}

// usageError is a command line that cannot be meant.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// errDenied ends a command that was answered with a denial. The command has already
// printed the reason.
var errDenied = errors.New("denied")

// misuse reports a command line that does not parse.
func (p environment) misuse(err error) int {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		return p.showUsage(parse.Context.Selected(), err)
	}
	return p.showUsage(nil, err)
}

func (p environment) showUsage(command *kong.Node, err error) int {
	help := "tidegate --help"
	if command != nil {
		help = command.FullPath() + " --help"
	}
	_, _ = fmt.Fprintf(p.stderr, "tidegate: %v\nHow to use it: %s\n", err, help)
	return exitUsage
}

// end reports how a command ended.
func (o output) end(command *kong.Node, err error) int {
	var misused usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDenied):
		return exitDenied
	case errors.As(err, &misused):
		return o.showUsage(command, misused.err)
	}
	o.failure(err)
	return exitError
}
