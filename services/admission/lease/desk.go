package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Config configures a Desk. All fields are required.
type Config struct {
	NATS         *nats.Conn
	DynamoDB     *dynamodb.Client
	Table        string
	Clock        *store.Clock
	Log          *slog.Logger
	Metrics      prometheus.Registerer
	Nonce        func() string // returns a name that no other write of any node has
	Replicas     int           // of the records in JetStream
	CreditWindow time.Duration // after its acquire, in which a lease can give tokens back
	WriteTimeout time.Duration // of a debit's write to the table
}

// Desk issues the leases of a node and settles the leases of all nodes. It is safe for
// concurrent use.
type Desk struct {
	Records Records // replaced, if at all, before the first settlement

	keys         *keyring
	epochs       *rollback.Epochs // of the records
	recent       *lru.Cache[string, Version]
	guard        *rollback.Guard
	stop         func()
	clock        *store.Clock
	log          *slog.Logger
	nonce        func() string
	creditWindow time.Duration
	writeTimeout time.Duration
}

// recentRecords is the number of lease records that a node remembers as it stored them.
const recentRecords = 8192

// Open reads the signing keys, opens the lease records and runs their guard until Stop.
// It waits until the guard has looked at the records for the first time.
func Open(ctx context.Context, c Config) (*Desk, error) {
	recent, err := lru.New[string, Version](recentRecords)
	if err != nil {
		return nil, fmt.Errorf("remember lease records: %w", err)
	}
	d := &Desk{
		keys: newKeyring(c.DynamoDB, c.Table, c.Clock), epochs: rollback.NewEpochs(c.DynamoDB, c.Table), recent: recent,
		clock: c.Clock, log: c.Log, nonce: c.Nonce, creditWindow: c.CreditWindow, writeTimeout: c.WriteTimeout,
	}
	if err := d.keys.load(ctx); err != nil {
		return nil, err
	}
	records, err := openRecords(ctx, c, d.epochs)
	if err != nil {
		return nil, err
	}
	d.Records, d.guard = records, records.guard
	if err := d.runGuard(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// runGuard starts the guard and waits for its first look at the records.
func (d *Desk) runGuard(ctx context.Context) error {
	guarding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.guard.Run(guarding); err != nil {
			d.log.ErrorContext(ctx, "lease records are not guarded: nothing can be given back", "error", err)
		}
	}()
	d.stop = func() { cancel(); <-ended }
	select {
	case <-d.guard.Ready():
		return nil
	case <-ended:
		cancel()
		return errors.New("the lease records are not guarded")
	case <-ctx.Done():
		d.stop()
		return fmt.Errorf("look at the lease records: %w", ctx.Err())
	}
}

// Stop ends the guard, which writes records: no settlement may be under way.
func (d *Desk) Stop() { d.stop() }

// Follow keeps the signing keys up to date until ctx ends.
func (d *Desk) Follow(ctx context.Context) { d.keys.follow(ctx, d.log) }

// KeysChanged makes Follow read the signing keys now.
func (d *Desk) KeysChanged() { d.keys.readSoon() }

// Issue returns the token of a new lease on the levels that an acquire has spent from.
func (d *Desk) Issue(namespaceID string, at bucket.Instant, levels []Level) (token string, err error) {
	return d.keys.signing(at).seal(&Lease{
		ID: d.nonce(), Epoch: d.epochs.Current(), Number: 1, Namespace: namespaceID, At: at, Levels: levels,
	})
}

// Open returns the settlement of a token's lease by op. The refusal says that the lease is
// forged or another namespace's, that it does not know a limit, or that it has expired.
func (d *Desk) Open(ctx context.Context, namespaceID, token string, op Operation) (*Settlement, *api.Error) {
	l, err := d.keys.open(ctx, token)
	if err == nil {
		err = d.epochs.AdoptSigned(ctx, l.Epoch) // another node may have issued it in a new epoch
	}
	switch {
	case errors.Is(err, errForged) || errors.Is(err, rollback.ErrUnknownEpoch) || (err == nil && l.Namespace != namespaceID):
		return nil, api.Errorf(api.CodeInvalidLease, "lease", "%v", reason(err))
	case err != nil:
		d.log.ErrorContext(ctx, "a lease cannot be checked against the table", "error", err)
		return nil, unavailable(errors.New("the store cannot be reached"))
	}
	op.number = l.Number
	if refusal := unknownTo(l, op.deltas); refusal != nil {
		return nil, refusal
	}
	if op.gives() {
		if refusal := d.expired(l); refusal != nil {
			return nil, refusal
		}
	}
	return &Settlement{desk: d, op: op, token: token, Lease: l}, nil
}

// reason returns the reason of a refused lease that its holder is told. All but a revoked
// key look alike, because they are of use to forgers alone.
func reason(err error) error {
	if errors.Is(err, errRevokedKey) {
		return errRevokedKey
	}
	return errForged
}

// expired refuses a lease that can give nothing back any more.
func (d *Desk) expired(l *Lease) *api.Error {
	now, _ := d.clock.Now() // an unchecked clock is good enough for an hour
	switch {
	case now.Time().Sub(l.At.Time()) > d.creditWindow:
		return api.Errorf(api.CodeExpiredLease, "lease",
			"the acquire was more than %s ago: nothing can be given back any more", d.creditWindow)
	case l.Epoch < d.epochs.Current():
		return api.Errorf(api.CodeExpiredLease, "lease",
			"NATS lost settlements after the acquire: nothing can be given back any more")
	}
	return nil
}

// settleTime is the time after the beginning of an operation in which its node begins
// writes.
func (d *Desk) settleTime() time.Duration { return 2*d.writeTimeout + recordTimeout }
