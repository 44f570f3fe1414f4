package loadgen

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Row is a request of an LLM trace.
type Row struct {
	At        time.Duration // since the first request of the trace
	Context   int64         // tokens of the prompt
	Generated int64         // tokens of the answer
}

const (
	traceHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"
	traceTime   = "2006-01-02 15:04:05.0000000"
	// maxRowTokens bounds a row's numbers far above any model, so that sums of
	// them stay far from the largest amount of the wire.
	maxRowTokens = 1 << 30
	gzipMagic    = "\x1f\x8b" // RFC 1952, 2.3.1; no header of a trace begins so
)

// ReadTraceFile is ReadTrace of a file.
func ReadTraceFile(path string, limit int) ([]Row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the trace: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	rows, err := ReadTrace(file, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// ReadTrace reads a trace in the form of the Azure LLM inference trace 2023:
//
//	TIMESTAMP,ContextTokens,GeneratedTokens
//	2023-11-16 18:15:46.6805900,374,44
//
// gzipped or not.
//
// It reads limit requests at most, all if limit is 0. It is strict, so that no
// other file passes for a trace: a malformed line is an error with the line's number.
// Times must not decrease.
func ReadTrace(r io.Reader, limit int) ([]Row, error) {
	text, err := unzipped(r)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(text)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the trace is empty; its first line should be "+traceHeader), lines.Err())
	}
	if header := lines.Text(); header != traceHeader {
		return nil, fmt.Errorf("line 1: %.80q is not the header of a trace, %s", header, traceHeader)
	}
	var rows []Row
	var first time.Time
	for number := 2; lines.Scan(); number++ {
		if limit > 0 && len(rows) == limit {
			return rows, nil
		}
		at, row, err := parseRow(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(rows) == 0 {
			first = at
		}
		row.At = at.Sub(first)
		if len(rows) > 0 && row.At < rows[len(rows)-1].At {
			return nil, fmt.Errorf("line %d: the time %s is before that of the line above", number, at.Format(traceTime))
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(rows)+2, err)
	}
	if len(rows) == 0 {
		return nil, errors.New("the trace has a header but no requests")
	}
	return rows, nil
}

// unzipped returns the content of r, decompressed if it is gzipped.
func unzipped(r io.Reader) (io.Reader, error) {
	text := bufio.NewReader(r)
	if start, _ := text.Peek(len(gzipMagic)); string(start) != gzipMagic { // if Peek fails, reading fails too
		return text, nil
	}
	zipped, err := gzip.NewReader(text)
	if err != nil {
		return nil, fmt.Errorf("unzip the trace: %w", err)
	}
	return zipped, nil
}

func parseRow(line string) (time.Time, Row, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return time.Time{}, Row{}, fmt.Errorf("%.80q has %d fields, not the three of %s", line, len(fields), traceHeader)
	}
	at, err := time.Parse(traceTime, fields[0])
	if err != nil || len(fields[0]) != len(traceTime) {
		return time.Time{}, Row{}, fmt.Errorf("%.80q is no time such as %s", fields[0], traceTime)
	}
	var row Row
	if row.Context, err = parseTokens("ContextTokens", fields[1]); err != nil {
		return time.Time{}, Row{}, err
	}
	if row.Generated, err = parseTokens("GeneratedTokens", fields[2]); err != nil {
		return time.Time{}, Row{}, err
	}
	return at, row, nil
}

func parseTokens(column, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > maxRowTokens {
		return 0, fmt.Errorf("%s %.40q is no whole number from 0 to %d", column, text, maxRowTokens)
	}
	return int64(n), nil
}
