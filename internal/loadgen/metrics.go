package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The admission nodes' metrics that tell cost. Both have a label form, which is
// "read" for reads and else names a form of write.
const (
	metricCalls = "tidegate_admission_store_calls_total"
	metricUnits = "tidegate_admission_capacity_units_total"
	labelForm   = "form"
	formRead    = "read"
)

// usage holds the totals of the nodes' metrics since they started.
type usage struct {
	writes, reads         float64
	writeUnits, readUnits float64
}

func (u usage) minus(v usage) usage {
	return usage{u.writes - v.writes, u.reads - v.reads, u.writeUnits - v.writeUnits, u.readUnits - v.readUnits}
}

// scrape sums the metrics of all nodes, with an endpoint for each node.
func scrape(ctx context.Context, endpoints []string) (usage, error) {
	if len(endpoints) == 0 {
		return usage{}, errors.New("no metrics endpoint was given")
	}
	var sum usage
	for _, url := range endpoints {
		families, err := fetch(ctx, url)
		if err != nil {
			return usage{}, fmt.Errorf("read the metrics at %s: %w", url, err)
		}
		if families[metricCalls] == nil && families["tidegate_admission_pending_requests"] == nil {
			return usage{}, fmt.Errorf("the metrics at %s are not those of an admission node", url)
		}
		addByForm(families[metricCalls], &sum.writes, &sum.reads)
		addByForm(families[metricUnits], &sum.writeUnits, &sum.readUnits)
	}
	return sum, nil
}

func fetch(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end, or not needed
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

func addByForm(family *dto.MetricFamily, writes, reads *float64) {
	for _, m := range family.GetMetric() {
		into := writes
		for _, label := range m.GetLabel() {
			if label.GetName() == labelForm && label.GetValue() == formRead {
				into = reads
			}
		}
		*into += m.GetCounter().GetValue()
	}
}

// costSince is the difference between two scrapes.
func costSince(before usage, errBefore error, after usage, errAfter error) Cost {
	if err := cmp.Or(errBefore, errAfter); err != nil {
		return Cost{NotMeasured: err.Error()}
	}
	d := after.minus(before)
	if d.writes < 0 || d.reads < 0 {
		return Cost{NotMeasured: "an admission node restarted meanwhile"}
	}
	return Cost{Writes: int64(d.writes), Reads: int64(d.reads), WriteUnits: d.writeUnits, ReadUnits: d.readUnits}
}
