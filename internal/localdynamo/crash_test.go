package localdynamo_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/localdynamo"
)

var (
	kills     = flag.Int("kills", 10, "how often TestKill kills")
	victimDir = flag.String("victim.dir", "", "be the process that TestKill kills, on this directory")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *victimDir != "" {
		fmt.Fprintln(os.Stderr, beVictim(*victimDir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	victims     = 16 // writers in the process
	victimTable = "victim"
)

// victimDurability makes snapshots frequent, so that kills meet them too.
func victimDurability(dir string) localdynamo.Durability {
	return localdynamo.Durability{Dir: dir, CutBytes: 100_000}
}

// beVictim writes until it is killed. Each writer adds 1 to its own counter in
// two items by one transaction, then 1 to a third by an update, and prints what
// it has reached once that is acknowledged.
func beVictim(dir string) error {
	engine, err := localdynamo.Open(localdynamo.Options{Now: time.Now}, victimDurability(dir))
	if err != nil {
		return err
	}
	db := dynamodb.NewFromConfig(localdynamo.Config(engine.HTTPClient(), "us-east-1"))
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
// half there, and the sequence counts exactly the changes that are.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acknowledged := make([]int, victims)
	for round := range *kills {
		killVictim(t, dir, 50+37*round%400, acknowledged)
		b := openBackend(t, newClock(), victimDurability(dir))
		x := &table{t: t, backend: b, db: b.db, name: aws.String(victimTable)}
		sum := 0
		for w := range victims {
			pk := fmt.Sprint("writer-", w)
			left, right, single := counter(x, pk, "left"), counter(x, pk, "right"), counter(x, pk, "single")
			require.Equal(t, left, right, "a transaction is half there")
			require.GreaterOrEqual(t, single, acknowledged[w], "an acknowledged update is lost")
			require.GreaterOrEqual(t, left, acknowledged[w], "an acknowledged transaction is lost")
			sum += left + right + single
		}
		require.EqualValues(t, sum, b.engine.Sequence(), "the sequence has a gap or a repeat")
		require.NoError(t, b.engine.Close())
	}
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
