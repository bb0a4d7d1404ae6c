import { durationBuckets, Histogram, type MetricFamily, metricFamily } from '@slipway/protocol'

const bounds = [0.0001, 0.00025, 0.0005, ...durationBuckets.filter((bound) => bound <= 10)]

/** What a writer has done. Each transaction costs three readings of the clock, a change in it nothing. */
export class CommitMetrics {
  events = 0
  /** From the first change that waits for a transaction until it is durable: as long as any change of it has waited. */
  readonly wait = new Histogram(bounds)
  /** What the commit takes of it, the sync of the disk. */
  readonly commit = new Histogram(bounds)
  /** Changes of one transaction. */
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
