package engine_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/dirtest"
)

var (
	kills      = flag.Int("kills", 50, "how often TestKill kills")
	limitedDir = flag.String("limited.dir", "", "be the process of TestFileSizeLimit, on this directory")
	victimDir  = flag.String("victim.dir", "", "be the process that TestKill kills, on this directory")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *victimDir != "" {
		fmt.Fprintln(os.Stderr, beVictim(*victimDir))
		os.Exit(1)
	}
	if *limitedDir != "" {
		if err := beLimited(*limitedDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	victims     = 16 // writers in the process
	fewKills    = 8  // with -short
	victimTable = "victim"
)

// victimDurability makes snapshots frequent, so that kills meet them too.
func victimDurability(dir string) engine.Durability {
	return engine.Durability{Dir: dir, CutBytes: 100_000}
}

// victimOptions make stream shards roll over between two kills, and have the
// stream read from the disk.
func victimOptions(now func() time.Time) engine.Options {
	return engine.Options{Now: now, Streams: engine.StreamOptions{ShardRecords: 200, OpenShards: 3, WindowBytes: 20_000}}
}

// beVictim writes until it is killed. Each writer adds 1 to its own counter in
// two items by one transaction, then 1 to a third by an update, and prints what
// it has reached once that is acknowledged.
func beVictim(dir string) error {
	embedded, err := engine.Open(victimOptions(time.Now), victimDurability(dir))
	if err != nil {
		return err
	}
	db := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	ctx := context.Background()
	_, err = db.CreateTable(ctx, definition(victimTable, true))
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		return err
	}
	failed := make(chan error)
	acks := make(chan string)
	for w := range victims {
		go func() { failed <- victimWriter(ctx, db, w, acks) }()
	}
	for {
		select {
		case err := <-failed:
			return err
		case ack := <-acks:
			if _, err := io.WriteString(os.Stdout, ack); err != nil {
				return err
			}
		}
	}
}

func victimWriter(ctx context.Context, db *dynamodb.Client, w int, acks chan<- string) error {
	pk := fmt.Sprint("writer-", w)
	add := func(sk string) *types.Update {
		return &types.Update{
			TableName: aws.String(victimTable), Key: key(pk, sk),
			UpdateExpression: aws.String("ADD n :n SET g1 = :g"), ExpressionAttributeValues: attrs{":n": num(1), ":g": text("g")},
		}
	}
	for {
		_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{{Update: add("left")}, {Update: add("right")}},
		})
		if err != nil {
			return err
		}
		u := add("single")
		out, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeValues: u.ExpressionAttributeValues, ReturnValues: types.ReturnValueAllNew,
		})
		if err != nil {
			return err
		}
		acks <- fmt.Sprintf("%d %s\n", w, numberOf(out.Attributes["n"]))
	}
}

// TestKill kills a process with SIGKILL in the middle of its load, again and
// again on one directory. Every acknowledged write is there, no transaction is
// half there, the sequence counts exactly the changes that are, and the stream
// shows each of them once: to a reader who goes on after each kill, and to one who
// reads it all in the end. It does not run beside other tests: until it has become
// another program, a new process holds the locks on directories that they open anew.
func TestKill(t *testing.T) {
	dir := dirtest.New(t)
	acknowledged := make([]int, victims)
	reader := newWitness()
	rounds := *kills
	if testing.Short() {
		rounds = min(rounds, fewKills)
	}
	for round := range rounds {
		killVictim(t, dir, 20+13*round%200, acknowledged)
		k := &keeping{o: victimOptions(newClock().Now), d: victimDurability(dir), streamed: &streamed{backend: backend{clock: newClock()}}}
		k.open(t)
		x := &table{t: t, backend: k.backend, db: k.db, name: aws.String(victimTable)}
		sum := 0
		reader.read(t, k.streamed)
		for w := range victims {
			pk := fmt.Sprint("writer-", w)
			left, right, single := counter(x, pk, "left"), counter(x, pk, "right"), counter(x, pk, "single")
			require.Equal(t, left, right, "a transaction is half there")
			require.GreaterOrEqual(t, single, acknowledged[w], "an acknowledged update is lost")
			require.GreaterOrEqual(t, left, acknowledged[w], "an acknowledged transaction is lost")
			sum += left + right + single
			for sk, n := range map[string]int{"left": left, "right": right, "single": single} {
				require.Equal(t, n, reader.counters[pk+"/"+sk], "the stream of %s/%s", pk, sk)
			}
		}
		require.EqualValues(t, sum, k.engine.Sequence(), "the sequence has a gap or a repeat")
		require.EqualValues(t, sum, reader.sequence, "the stream has a gap or a repeat")
		if round == rounds-1 {
			late := newWitness()
			late.read(t, k.streamed)
			require.Equal(t, reader.counters, late.counters)
			require.Equal(t, reader.sequence, late.sequence)
		}
		require.NoError(t, k.engine.Close())
	}
}

// witness reads a stream and goes on where it was, by sequence numbers alone, as
// a reader does who was killed as well.
type witness struct {
	last     map[string]string // sequence number of the last record, by shard
	counters map[string]int    // by item
	sequence uint64            // all changes up to it were shown
}

func newWitness() *witness { return &witness{last: map[string]string{}, counters: map[string]int{}} }

func (w *witness) read(t *testing.T, x *streamed) {
	t.Helper()
	out, err := x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(victimTable)})
	require.NoError(t, err)
	arn := *out.Table.LatestStreamArn
	var shown []uint64
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	for more := true; more; more = in.ExclusiveStartShardId != nil {
		out, err := x.streams.DescribeStream(t.Context(), in)
		require.NoError(t, err)
		for _, s := range out.StreamDescription.Shards {
			shown = append(shown, w.shard(t, x, arn, *s.ShardId)...)
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
	slices.Sort(shown)
	for _, n := range shown {
		w.sequence++
		require.Equal(t, w.sequence, n, "the stream has a gap or a repeat")
	}
}

// shard reads what is new in a shard. Each record is the next step of its item.
func (w *witness) shard(t *testing.T, x *streamed, arn, shard string) (shown []uint64) {
	t.Helper()
	at := horizon
	if last := w.last[shard]; last != "" {
		at = from{streamtypes.ShardIteratorTypeAfterSequenceNumber, last}
	}
	records, _ := x.drain(t, x.iterator(t, arn, &shard, at))
	for _, r := range records {
		item := textOfStream(r.Dynamodb.Keys["pk"]) + "/" + textOfStream(r.Dynamodb.Keys["sk"])
		before, after := w.counters[item], streamCounter(t, r.Dynamodb.NewImage)
		require.Equal(t, before, streamCounter(t, r.Dynamodb.OldImage), item)
		require.Equal(t, before+1, after, item)
		w.counters[item], w.last[shard] = after, *r.Dynamodb.SequenceNumber
		shown = append(shown, number(t, *r.Dynamodb.SequenceNumber))
	}
	return shown
}

func streamCounter(t *testing.T, image map[string]streamtypes.AttributeValue) int {
	t.Helper()
	n, ok := image["n"].(*streamtypes.AttributeValueMemberN)
	if !ok {
		return 0
	}
	count, err := strconv.Atoi(n.Value)
	require.NoError(t, err)
	return count
}

func counter(x *table, pk, sk string) int {
	n := 0
	if v, ok := x.get(pk, sk)["n"]; ok {
		_, err := fmt.Sscan(numberOf(v), &n)
		require.NoError(x.t, err)
	}
	return n
}

// killVictim lets a process write until it has acknowledged so much, and kills it.
func killVictim(t *testing.T, dir string, after int, acknowledged []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-victim.dir", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for seen := 0; lines.Scan(); seen++ {
		var w, n int
		if c, _ := fmt.Sscan(lines.Text(), &w, &n); c == 2 { // the kill may cut the last line
			acknowledged[w] = max(acknowledged[w], n)
		}
		if seen == after {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	require.Empty(t, stderr.String())
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "it ended by itself")
}
