package events

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/pkg/keys"
)

// The feed's names.
const (
	// StreamName is the JetStream stream that holds events and checkpoints.
	StreamName = "TIDEGATE_CHANGES"
	// Lanes is the number of lanes of a kind. It is recorded in the stream's metadata
	// under LanesMetadata: consumers with another number would read other lanes.
	Lanes         = 64
	LanesMetadata = "tidegate-lanes"

	// ChangesAll and CheckpointsAll match every event and every checkpoint.
	ChangesAll     = changesPrefix + ">"
	CheckpointsAll = checkpointPrefix + ">"

	changesPrefix    = "tidegate.changes.v1."
	checkpointPrefix = "tidegate.checkpoint.v1."
	deadPrefix       = "tidegate.dlq.v1."
)

// Subject returns the subject of the events of a kind and a lane.
func Subject(kind Kind, lane int) string {
	return changesPrefix + string(kind) + "." + strconv.Itoa(lane)
}

// KindSubject returns the wildcard that matches the events of a kind in all lanes.
func KindSubject(kind Kind) string { return changesPrefix + string(kind) + ".*" }

// ParseSubject splits an event's subject into kind and lane.
func ParseSubject(subject string) (kind Kind, lane int, err error) {
	rest, ok := strings.CutPrefix(subject, changesPrefix)
	name, number, cut := strings.Cut(rest, ".")
	lane, errLane := strconv.Atoi(number)
	if !ok || !cut || name == "" || errLane != nil || lane < 0 || lane >= Lanes || Subject(Kind(name), lane) != subject {
		return "", 0, fmt.Errorf("%.200q is no subject of the change feed", subject)
	}
	return Kind(name), lane, nil
}

// CheckpointSubject returns the subject of a stream shard's checkpoint. The subject
// encodes the shard's name, because the name is not a valid subject token.
func CheckpointSubject(streamShard string) string {
	return checkpointPrefix + base64.RawURLEncoding.EncodeToString([]byte(streamShard))
}

// ParseCheckpointSubject returns the stream shard of a checkpoint.
func ParseCheckpointSubject(subject string) (streamShard string, err error) {
	token, ok := strings.CutPrefix(subject, checkpointPrefix)
	name, errName := base64.RawURLEncoding.Strict().DecodeString(token)
	if !ok || errName != nil || len(name) == 0 {
		return "", fmt.Errorf("%.200q is no subject of a checkpoint", subject)
	}
	return string(name), nil
}

// DeadLetters returns the subject for events that a service cannot apply.
func DeadLetters(service string) string { return deadPrefix + service }

// DeadLettersAll is the wildcard that matches the dead letters of all services.
const DeadLettersAll = deadPrefix + ">"

// Lane returns the lane of an item's events: the 64-bit FNV-1a hash of its partition
// key modulo Lanes. For a bucket, the hashed key leaves out the shard, so that all
// shards of a bucket share a lane.
func Lane(key keys.Item) int {
	pk := key.Key().PK
	if _, isBucket := key.(keys.Bucket); isBucket {
		pk = pk[:strings.LastIndexByte(pk, '#')]
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(pk)) // never fails
	return int(h.Sum64() % Lanes)
}

// ReplaysAll matches every dead letter that is being redelivered to its service.
const ReplaysAll = replayPrefix + ">"

const replayPrefix = "tidegate.replay.v1."

// ReplaySubject returns the subject that redelivers a dead letter to its service, in
// its lane and to that service only.
func ReplaySubject(service string, lane int) string {
	return replayPrefix + service + "." + strconv.Itoa(lane)
}

// Replays returns the wildcard that matches the dead letters redelivered to a service.
func Replays(service string) string { return replayPrefix + service + ".*" }
