package main

// cli lists all commands; each group of commands is implemented in a file of its own.
type cli struct {
	JSON bool `name:"json" variable:"" help:"Print JSON instead of text."`

	runCommands
	useCommands
	settingCommands
	loadCommands
	Version versionCmd `cmd:"" group:"about" help:"Print the version."`
}

// runCommands run services.
type runCommands struct {
	Up         upCmd         `cmd:"" group:"run" help:"Run everything in one process: NATS, the store, and all services."`
	Admission  admissionCmd  `cmd:"" group:"run" help:"Run an admission node on your NATS and DynamoDB."`
	Relay      relayCmd      `cmd:"" group:"run" help:"Run a relay: publish the table's changes to the change feed."`
	Aggregator aggregatorCmd `cmd:"" group:"run" help:"Run an aggregator: keep usage snapshots from the change feed."`
	Sharder    sharderCmd    `cmd:"" group:"run" help:"Run a sharder: split hot buckets before DynamoDB throttles them."`
	Archiver   archiverCmd   `cmd:"" group:"run" help:"Run an archiver: keep audit events that leave the table in a folder or S3."`
	DynamoDB   dynamodbCmd   `cmd:"" name:"dynamodb" group:"run" help:"Run only the embedded DynamoDB-compatible store."`
	Health     healthCmd     `cmd:"" group:"run" help:"Ask whether a service on this machine is ready."`
}

// useCommands acquire, settle and look at balances.
type useCommands struct {
	Acquire  acquireCmd  `cmd:"" group:"use" help:"Spend tokens from several limits at once, all or nothing."`
	Adjust   adjustCmd   `cmd:"" group:"use" help:"Settle a lease: spend more, or give back."`
	Release  releaseCmd  `cmd:"" group:"use" help:"Give back all tokens of a lease."`
	Status   statusCmd   `cmd:"" group:"use" help:"Show balances without spending."`
	Capacity capacityCmd `cmd:"" group:"use" help:"Sum up the balances of all entities on a resource."`
	Shards   shardsCmd   `cmd:"" group:"use" help:"Show each shard of a bucket: its split level, its balance, its write rate."`
	Bucket   bucketCmd   `cmd:"" group:"use" help:"Refill a bucket."`
	Usage    usageCmd    `cmd:"" group:"use" help:"Show the usage of an entity by hour, day or month."`
}

// settingCommands configure and administer the system.
type settingCommands struct {
	Limits    limitsCmd    `cmd:"" group:"set" help:"Stored limits."`
	Policy    policyCmd    `cmd:"" group:"set" help:"Policies of config levels: behaviour in an outage, retention of audit events."`
	Namespace namespaceCmd `cmd:"" group:"set" help:"Tenants (operators)."`
	Key       keyCmd       `cmd:"" group:"set" help:"Lease signing keys (operators)."`
	Entity    entityCmd    `cmd:"" group:"set" help:"Entities: parents, names, metadata."`
	Audit     auditCmd     `cmd:"" group:"set" help:"Audit log of changes."`
	DLQ       dlqCmd       `cmd:"" name:"dlq" group:"set" help:"Dead letters: changes that a service could not apply (operators)."`
	Services  servicesCmd  `cmd:"" group:"set" help:"List the running services and how far each is behind (operators)."`
	Table     tableCmd     `cmd:"" group:"set" help:"The DynamoDB table."`
	Check     checkCmd     `cmd:"" group:"set" help:"Check that this release, the table and NATS fit each other."`
}

// loadCommands put load on a running system.
type loadCommands struct {
	Replay replayCmd `cmd:"" group:"load" help:"Replay an LLM trace: reserve, adjust, and report."`
	Bench  benchCmd  `cmd:"" group:"load" help:"Measure: acquire under load, and report."`
}

type auditCmd struct {
	List auditListCmd `cmd:"" help:"List changes with their authors, newest first."`
	Show auditShowCmd `cmd:"" help:"Show a change with the state before and after."`

	Export auditExportCmd `cmd:"" help:"Export changes as JSON lines."`
	Verify auditVerifyCmd `cmd:"" help:"Verify that no change is missing, doubled or altered."`
}

type bucketCmd struct {
	Reset bucketResetCmd `cmd:"" help:"Refill a bucket. The change is recorded in the audit log."`
}

type dlqCmd struct {
	List   dlqListCmd   `cmd:"" help:"List dead letters, oldest first."`
	Show   dlqShowCmd   `cmd:"" help:"Show a dead letter and its change as far as it can be decoded."`
	Replay dlqReplayCmd `cmd:"" help:"Deliver dead letters to their services again."`
}

type entityCmd struct {
	Create   entityCreateCmd   `cmd:"" help:"Create an entity with a parent, a name and metadata."`
	Get      entityGetCmd      `cmd:"" help:"Show an entity."`
	Update   entityUpdateCmd   `cmd:"" help:"Change an entity; fields without a flag stay."`
	Delete   entityDeleteCmd   `cmd:"" help:"Delete an entity; its limits and balances stay."`
	Children entityChildrenCmd `cmd:"" help:"List the children of an entity."`
	List     entityListCmd     `cmd:"" help:"List all entities."`
}

type keyCmd struct {
	List   keyListCmd   `cmd:"" help:"List the keys without their secrets."`
	Rotate keyRotateCmd `cmd:"" help:"Create the next signing key, which is used once all nodes know it. Leases of older keys stay valid."`
	Revoke keyRevokeCmd `cmd:"" help:"Refuse the leases of a key that leaked."`
}

type limitsCmd struct {
	Set     limitsSetCmd     `cmd:"" help:"Replace all limits of a config level."`
	Get     limitsGetCmd     `cmd:"" help:"Show a config level."`
	Delete  limitsDeleteCmd  `cmd:"" help:"Delete all limits of a config level; the next level applies."`
	List    limitsListCmd    `cmd:"" help:"List the config levels that have limits, of all or of an entity or a resource."`
	Resolve limitsResolveCmd `cmd:"" help:"Show which config level applies to an entity and a resource."`
	Plan    limitsPlanCmd    `cmd:"" help:"Show the changes that would bring the limits to those declared in a file."`
	Apply   limitsApplyCmd   `cmd:"" help:"Create, change and delete limits as declared in a file."`
}

type namespaceCmd struct {
	Create  namespaceCreateCmd  `cmd:"" help:"Create a namespace."`
	List    namespaceListCmd    `cmd:"" help:"List all namespaces, including deleted."`
	Get     namespaceGetCmd     `cmd:"" help:"Show a namespace."`
	Delete  namespaceDeleteCmd  `cmd:"" help:"Delete a namespace: refuse all its requests, keep its data until a purge."`
	Recover namespaceRecoverCmd `cmd:"" help:"Restore a deleted namespace with all its data."`
	Purge   namespacePurgeCmd   `cmd:"" help:"Remove all data of a deleted namespace permanently, and free its name."`
}

type policyCmd struct {
	Get policyGetCmd `cmd:"" help:"Show the policies of a config level."`
	Set policySetCmd `cmd:"" help:"Change the policies of a config level; its limits stay."`
}

type tableCmd struct {
	Create   tableCreateCmd   `cmd:"" help:"Create the table and the namespace default, unless they exist."`
	Status   tableStatusCmd   `cmd:"" help:"Show whether the table exists and is usable."`
	Delete   tableDeleteCmd   `cmd:"" help:"Delete the table with all its data."`
	Template tableTemplateCmd `cmd:"" help:"Print the table as a CloudFormation template."`
}
