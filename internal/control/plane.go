package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// Options configure the control plane of a node. All but Archive and TrustRequestInfo
// are required.
type Options struct {
	DynamoDB aws.Config // the node's own, so that calls are counted and set Clock
	Table    string
	Clock    *store.Clock
	// Publish broadcasts changes, as nats.Conn's does; it must not block.
	Publish func(subject string, data []byte) error
	Log     *slog.Logger
	// Archive holds audit events that have left the table; nil if no archive is
	// configured. The plane does not close it.
	Archive *archive.Archive
	// TrustRequestInfo states that all callers come through service imports of NATS, so
	// that the header that identifies them is the server's. Changes without it are refused.
	TrustRequestInfo bool
}

// Plane is the control plane of a node: it serves admin verbs on the node's table.
type Plane struct {
	admin   *Service
	client  *dynamodb.Client
	table   string
	archive *archive.Archive // nil if not configured
	trust   bool
	log     *slog.Logger
}

// Open returns the control plane of a node. It asks the store nothing.
func Open(o Options) *Plane {
	lines := process.LogRequestIDs(o.Log)
	client := dynamodb.NewFromConfig(o.DynamoDB)
	// A write of a bucket that the SDK repeats after a lost reply is applied twice.
	once := dynamodb.NewFromConfig(o.DynamoDB, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	log := audit.NewLog(client, o.Table, o.Clock.Time)
	stores := Stores{
		Limits: config.NewLimitStore(client, o.Table, log), Audit: audit.NewReader(log, o.Archive),
		Entities:   config.NewEntityStore(client, o.Table, log),
		Namespaces: config.NewNamespaceOperator(config.NewNamespaces(client, o.Table), log, o.Clock.Time),
		Keys:       NewLeaseKeys(client, o.Table, log, o.Clock.Time),
		Capacity:   NewCapacity(client, o.Table, o.Clock.Now),
		Usage:      NewUsage(client, o.Table),
		Shards:     shards.NewOperator(shards.NewStore(once, o.Table, o.Clock.Now, rand.Text), log),
	}
	return &Plane{admin: New(stores, o.Publish, lines), client: client, table: o.Table, archive: o.Archive, trust: o.TrustRequestInfo, log: lines}
}

// Serves reports whether Serve knows a verb.
func (p *Plane) Serves(v api.Verb) bool { return p.admin.Serves(v) }

// Serve answers a request, as [Service.Handle] does.
func (p *Plane) Serve(ctx context.Context, q config.AdminRequest) ([]byte, *api.Error) {
	return p.admin.Handle(ctx, Caller{Name: q.Namespace, ID: q.NamespaceID, By: PrincipalOf(q.Info, p.trust), Named: p.trust}, q.Verb, q.Body)
}

// archiveTimeout bounds how long a node waits for the archive at its start.
const archiveTimeout = 10 * time.Second

// Check returns an error if the node must not start: the table is missing or of a newer
// schema, or the archive cannot be read. It tolerates an outage of the archive, because the
// node admits without it.
func (p *Plane) Check(ctx context.Context) error {
	if err := RefuseSchema(ctx, p.client, p.table); errors.Is(err, ErrTooNew) {
		return err
	} else if err != nil {
		return fmt.Errorf("is the table %q there (tidegate table create)? %w", p.table, err)
	}
	if p.archive == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	err := p.archive.CheckReadable(ctx)
	if errors.Is(err, archive.ErrUnreachable) {
		p.log.WarnContext(ctx, "audit events that have left the table cannot be shown for now", "error", err)
		return nil
	}
	return err
}
