import { createCounter, createHistogram, type Metric } from '@slipway/shared/metrics'

const durationBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const sizeBuckets = [1, 2, 5, 10, 20, 50, 100, 200, 500]

/** Metrics of a commit queue. Cost: three clock readings for each transaction. */
export class CommitMetrics {
  events = 0
  /** From the queueing of a transaction's first change until the transaction is durable. */
  readonly wait = new Histogram(bounds)
  /** The commit itself, with the sync of the disk. */
  readonly commit = new Histogram(bounds)
  /** Changes in one transaction. */
  readonly changes = new Histogram([1, 2, 5, 10, 20, 50, 100, 200, 500])

  metricFamilies(): readonly MetricFamily[] {
    const histogram = (name: string, help: string, value: Histogram): MetricFamily => {
      return metricFamily(name, 'histogram', help, [{ value }])
    }
    return [
      metricFamily(
        'events_appended_total',
        'counter',
        'Events that were appended to the log, imported ones left out.',
        [{ value: this.events }],
      ),
      histogram('append_duration_seconds', 'Time until a group of changes was durable.', this.wait),
      histogram('commit_duration_seconds', 'Time of a commit with the sync of the disk.', this.commit),
      histogram('commit_changes', 'Changes of one commit.', this.changes),
    ]
  }
}
