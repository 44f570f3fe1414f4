package simnats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// crlf ends every line.
var crlf = []byte("\r\n") //nolint:gochecknoglobals // a constant

// parse returns the complete frames at the start of b, and the rest.
func parse(b []byte) (frames []frame, rest []byte) {
	for {
		line, after, ok := bytes.Cut(b, crlf)
		if !ok {
			return frames, b
		}
		f, size, err := parseLine(string(line))
		if err != nil {
			panic(fmt.Sprintf("simnats: %v in %q", err, line)) // nats.go writes no such line
		}
		if f.kind == kindPub {
			if len(after) < size+2 {
				return frames, b
			}
			body := bytes.Clone(after[:size])
			f.header, f.data = body[:f.max], body[f.max:]
			f.max, after = 0, after[size+2:]
		}
		frames, b = append(frames, f), after
	}
}

// parseLine parses a control line. For a message it returns the size of the body, and the
// size of the header in max.
func parseLine(line string) (f frame, size int, err error) {
	verb, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch strings.ToUpper(verb) {
	case "CONNECT":
		return frame{kind: kindConnect, data: []byte(rest)}, 0, nil
	case "PING":
		return frame{kind: kindPing}, 0, nil
	case "PONG":
		return frame{kind: kindPong}, 0, nil
	case "SUB":
		f = frame{kind: kindSub, subject: args[0], sid: args[len(args)-1]}
		if len(args) == 3 {
			f.group = args[1]
		}
		return f, 0, nil
	case "UNSUB":
		f = frame{kind: kindUnsub, sid: args[0]}
		if len(args) == 2 {
			f.max, err = strconv.Atoi(args[1])
		}
		return f, 0, err
	case "PUB":
		f = frame{kind: kindPub, subject: args[0]}
		if len(args) == 3 {
			f.reply = args[1]
		}
		size, err = strconv.Atoi(args[len(args)-1])
		return f, size, err
	case "HPUB":
		f = frame{kind: kindPub, subject: args[0]}
		if len(args) == 4 {
			f.reply = args[1]
		}
		if f.max, err = strconv.Atoi(args[len(args)-2]); err != nil {
			return f, 0, err
		}
		size, err = strconv.Atoi(args[len(args)-1])
		return f, size, err
	}
	return f, 0, fmt.Errorf("the unknown command %q", verb)
}

// info is the server's greeting.
func (s *Server) info(client uint64) []byte {
	b, err := json.Marshal(map[string]any{
		"server_id": s.id, "server_name": "sim", "version": "2.15.2", "proto": 1, "headers": true,
		"max_payload": 1 << 20, "jetstream": true, "client_id": client, "api_lvl": 3,
	})
	if err != nil {
		panic(err) // of strings and numbers
	}
	return append(append([]byte("INFO "), b...), crlf...)
}

// messageFrame returns a message in the server's form.
func messageFrame(sid string, m *message) []byte {
	var b bytes.Buffer
	if len(m.header) == 0 {
		fmt.Fprintf(&b, "MSG %s %s ", m.subject, sid)
	} else {
		fmt.Fprintf(&b, "HMSG %s %s ", m.subject, sid)
	}
	if m.reply != "" {
		b.WriteString(m.reply + " ")
	}
	if len(m.header) > 0 {
		fmt.Fprintf(&b, "%d ", len(m.header))
	}
	fmt.Fprintf(&b, "%d\r\n", len(m.header)+len(m.data))
	b.Write(m.header)
	b.Write(m.data)
	b.Write(crlf)
	return b.Bytes()
}

// headerLine begins every header.
const headerLine = "NATS/1.0"

// headers returns the values of a header by name, as they are spelled.
func headers(b []byte) map[string]string {
	if len(b) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, line := range strings.Split(string(b), "\r\n")[1:] {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[name] = strings.TrimSpace(value)
		}
	}
	return values
}

// header writes a header with a status line and pairs of names and values.
func header(status string, pairs ...string) []byte {
	var b strings.Builder
	b.WriteString(headerLine)
	if status != "" {
		b.WriteString(" " + status)
	}
	b.WriteString("\r\n")
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(pairs[i] + ": " + pairs[i+1] + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// extended returns a header with another pair.
func extended(b []byte, name, value string) []byte {
	if len(b) == 0 {
		return header("", name, value)
	}
	return []byte(strings.TrimSuffix(string(b), "\r\n") + name + ": " + value + "\r\n\r\n")
}

// matches reports whether a subject matches a pattern.
func matches(pattern, subject string) bool {
	if pattern == subject {
		return true
	}
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		s, srest, smore := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s, pmore != smore:
			return false
		case !pmore:
			return true
		}
		pattern, subject = prest, srest
	}
}

func isPattern(subject string) bool {
	return strings.HasSuffix(subject, ">") || strings.Contains(subject, "*")
}
