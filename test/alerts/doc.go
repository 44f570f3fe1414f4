// Package alerts tests what deploy/prometheus and deploy/grafana have with
// Prometheus' own parser and rule engine: that alerts fire when they should and not
// else, and that all that is asked for, in them, in dashboards and in documents, are
// metrics, labels and values that docs/metrics.md lists.
//
// It is a module of its own, because Prometheus is large: nothing of it is in the
// program's go.mod. `make test-alerts` runs it. The first time it fetches some 90
// modules, 800 MB unpacked, because the storage that rules run on knows all clouds that
// Prometheus can write to, and builds for a minute or two; then it takes seconds.
//
// # An example
//
// A case of testdata/cases.yaml: series as promtool writes them, one value for every
// 30 seconds, and the labels of what fires at a moment.
//
//	alert: TidegateLate
//	when: all are
//	series: {'tidegate_admission_requests_total{outcome="deadline_exceeded"}': 0+10x40}
//	at: 15m
//	fires: [{}]
package alerts
