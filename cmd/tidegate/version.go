package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCmd struct{}

// Run prints which program this is.
func (versionCmd) Run(o output) error {
	v := thisVersion()
	return o.write(v, func(p *page) {
		p.line("tidegate %s (%s)", v.Version, v.Go)
	})
}

// version is which program this is.
type version struct {
	// Version is semantic, without a v in front.
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// unreleased is the version of a build outside version control.
const unreleased = "0.0.0-devel"

func thisVersion() version {
	v := version{Version: unreleased, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if number, tagged := strings.CutPrefix(info.Main.Version, "v"); tagged {
		v.Version = number
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
