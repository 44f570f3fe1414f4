package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
)

const benchTable = "tidegate"

// bucketTable has the shape of the program's own: four indexes, keys only.
func bucketTable() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(benchTable), BillingMode: types.BillingModePayPerRequest, KeySchema: schema("PK", "SK"),
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}
	names := []string{"PK", "SK"}
	for n := 1; n <= 4; n++ {
		pk, sk := fmt.Sprintf("GSI%dPK", n), fmt.Sprintf("GSI%dSK", n)
		names = append(names, pk, sk)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(fmt.Sprintf("GSI%d", n)), KeySchema: schema(pk, sk),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	for _, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

func bucketKey(i int) attrs {
	return attrs{"PK": text(fmt.Sprintf("Zm9vYmFyYmF/BUCKET#api-key-%06d#gpt-4#0", i)), "SK": text("#STATE")}
}

// bucketItem is a bucket shard of two limits, in three of the four indexes.
func bucketItem(i int) attrs {
	const ns = "Zm9vYmFyYmF"
	entity := fmt.Sprintf("api-key-%06d", i)
	it := attrs{
		"GSI2PK": text(fmt.Sprintf("%s/RESOURCE#gpt-4#%d", ns, i%16)), "GSI2SK": text("BUCKET#" + entity + "#0"),
		"GSI3PK": text(ns + "/ENTITY#" + entity), "GSI3SK": text("BUCKET#gpt-4#0"),
		"GSI4PK": text(fmt.Sprintf("%s#%d", ns, i%16)), "GSI4SK": text("BUCKET#" + entity + "#gpt-4#0"),
		"shard_count": num(1), "want": num(1), "an": num(17), "b_wcu_tc": num(19), "cfg": text("9f86d081884c7d65"),
		"lw": text("4bf92f3577b34da6-1234"), "ttl": num(1772366400),
	}
	for _, limit := range []string{"rpm", "tpm"} {
		it["b_"+limit+"_dr"], it["b_"+limit+"_cp"] = num(31536000000123), num(10000000)
		it["b_"+limit+"_ra"], it["b_"+limit+"_rp"], it["b_"+limit+"_tc"] = num(10000000), num(60000), num(500000+i)
	}
	maps.Copy(it, bucketKey(i))
	return it
}

// spend is the write of one acquire, as the program makes it.
func spend(i int, lw string) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(benchTable), Key: bucketKey(i),
		UpdateExpression:    aws.String("SET #n0 = :v0, #n1 = :v1 ADD #n2 :v2, #n3 :v3, #n4 :v2, #n5 :v3, #n6 :v4, #n7 :v4"),
		ConditionExpression: aws.String("#n8 = :v5 AND #n9 = :v6 AND #n2 BETWEEN :v7 AND :v8 AND #n3 BETWEEN :v7 AND :v8"),
		ExpressionAttributeNames: map[string]string{
			"#n0": "lw", "#n1": "ttl", "#n2": "b_rpm_dr", "#n3": "b_tpm_dr", "#n4": "b_rpm_tc", "#n5": "b_tpm_tc",
			"#n6": "an", "#n7": "b_wcu_tc", "#n8": "shard_count", "#n9": "cfg",
		},
		ExpressionAttributeValues: attrs{
			":v0": text(lw), ":v1": num(1772366460), ":v2": num(1000), ":v3": num(500000), ":v4": num(1), ":v5": num(1),
			":v6": text("9f86d081884c7d65"), ":v7": num(0), ":v8": num(9000000000000000000),
		},
		ReturnValues: types.ReturnValueAllNew, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func seed(b *testing.B, db *dynamodb.Client, items int) {
	b.Helper()
	if _, err := db.CreateTable(b.Context(), bucketTable()); err != nil {
		b.Fatal(err)
	}
	for i := range items {
		if _, err := db.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: aws.String(benchTable), Item: bucketItem(i)}); err != nil {
			b.Fatal(err)
		}
	}
}

// recordedReply answers every request with the same reply, so that what is
// left to measure is the SDK.
type recordedReply struct {
	header http.Header
	body   []byte
}

func (c *recordedReply) Do(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: c.header.Clone(), Body: io.NopCloser(bytes.NewReader(c.body)),
		ContentLength: int64(len(c.body)), Request: req,
	}, nil
}

// recorder keeps the last reply that passed.
type recorder struct {
	next *engine.InProcess
	last recordedReply
}

func (r *recorder) Do(req *http.Request) (*http.Response, error) {
	resp, err := r.next.Do(req)
	if err == nil {
		r.last.header = resp.Header
		r.last.body, _ = io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(r.last.body))
	}
	return resp, err
}

// BenchmarkUpdateItem is the write of an acquire, from 64 goroutines, on a table
// with a stream: through the SDK, and the SDK alone. The difference is the
// engine, in memory and with every commit forced to the disk.
func BenchmarkUpdateItem(b *testing.B) {
	const items = 2000
	embedded, db := newClient(engine.Options{Now: time.Now})
	seed(b, db, items)
	tap := &recorder{next: embedded.HTTPClient()}
	if _, err := dynamodb.NewFromConfig(engine.Config(tap, "us-east-1")).UpdateItem(b.Context(), spend(0, "boot-0")); err != nil {
		b.Fatal(err)
	}
	safe := openBackend(b, newClock(), engine.Durability{Dir: b.TempDir(), Sync: journal.Always})
	defer closeEngine(b, safe.engine)
	seed(b, safe.db, items)
	var sdk time.Duration
	b.Run("sdk alone", func(b *testing.B) {
		sdk = spendAll(b, dynamodb.NewFromConfig(engine.Config(&tap.last, "us-east-1")), items)
	})
	for name, client := range map[string]*dynamodb.Client{"in memory": db, "fsync always": safe.db} {
		b.Run(name, func(b *testing.B) {
			all := spendAll(b, client, items)
			b.ReportMetric(microseconds(sdk), "sdk-µs/op")
			b.ReportMetric(microseconds(all-sdk), "engine-µs/op")
		})
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// spendAll spends from 64 goroutines and reports the processor time of one.
func spendAll(b *testing.B, db *dynamodb.Client, items int) time.Duration {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	var n atomic.Int64
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			if _, err := db.UpdateItem(b.Context(), spend(i%items, "boot-"+strconv.Itoa(i))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	perOperation := (cpu(b) - before) / time.Duration(b.N)
	b.ReportMetric(microseconds(perOperation), "cpu-µs/op")
	b.ReportMetric(float64(time.Second)/float64(perOperation), "ops/s/core")
	return perOperation
}

// BenchmarkMemory reports what a stored bucket item costs, indexes included.
func BenchmarkMemory(b *testing.B) {
	const items = 200_000
	for b.Loop() {
		before := heap()
		embedded, db := newClient(engine.Options{Now: time.Now})
		seed(b, db, items)
		b.ReportMetric(float64(heap()-before)/items, "bytes/item")
		runtime.KeepAlive(embedded)
	}
}

// cpu is the processor time that this process has used: unlike the clock it
// does not count what the machine's other users do.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
