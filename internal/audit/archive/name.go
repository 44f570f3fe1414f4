package archive

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	root      = "audit/"
	extension = ".jsonl.gz"
	dayLayout = "2006/01/02"
)

// name holds the parts of an object's key.
type name struct {
	namespace   string // id
	day         string // of the events, UTC: 2026/03/01
	lane        int
	first, last int64  // the lowest and the highest sequence
	sum         string // of the content, where another object has the name without it
}

// dayOf is the day of a time in Unix milliseconds.
func dayOf(atMs int64) string { return time.UnixMilli(atMs).UTC().Format(dayLayout) }

// laneOf is the lane of the change feed that the events of a target are in.
func laneOf(namespace, target string) int {
	return events.Lane(keys.Audit{Namespace: namespace, ID: target})
}

// folder is where the objects of a day are.
func folder(namespace, day string) string { return root + namespace + "/" + day + "/" }

func (n name) key() string {
	sum := ""
	if n.sum != "" {
		sum = "-" + n.sum
	}
	return fmt.Sprintf("%s%d-%d-%d%s%s", folder(n.namespace, n.day), n.lane, n.first, n.last, sum, extension)
}

// form matches the key of an object. Files with other names, such as a partly written
// file, are not objects of the archive.
var form = regexp.MustCompile(`^audit/([^/]+)/(\d{4}/\d{2}/\d{2})/(\d+)-(\d+)-(\d+)(?:-([0-9a-f]{16}))?\.jsonl\.gz$`)

// parseName parses a key; ok is false if the key is not an object's.
func parseName(key string) (n name, ok bool) {
	m := form.FindStringSubmatch(key)
	if m == nil {
		return name{}, false
	}
	n = name{namespace: m[1], day: m[2], sum: m[6]}
	var errLane, errFirst, errLast error
	n.lane, errLane = strconv.Atoi(m[3])
	n.first, errFirst = strconv.ParseInt(m[4], 10, 64)
	n.last, errLast = strconv.ParseInt(m[5], 10, 64)
	if errLane != nil || errFirst != nil || errLast != nil || n.lane >= events.Lanes || n.first > n.last || n.key() != key {
		return name{}, false
	}
	return n, true
}

// part is the last part of a folder's key, such as a month.
func part(key string) string {
	key = strings.TrimSuffix(key, "/")
	return key[strings.LastIndexByte(key, '/')+1:]
}
