package process

import (
	"fmt"
	"io"
	"log/slog"
)

// Formats of log lines.
const (
	FormatText = "text" // key=value, for people
	FormatJSON = "json" // an object per line, for programs
)

// NewLogger returns a logger that writes to w. The level is debug, info, warn or
// error, in any case; the format is FormatText or FormatJSON. The error names
// the levels and formats to choose from.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	options := new(slog.HandlerOptions)
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("there is no log level %q: use debug, info, warn or error", level)
	}
	options.Level = least
	switch format {
	case FormatText:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("there is no log format %q: use %s or %s", format, FormatText, FormatJSON)
}
