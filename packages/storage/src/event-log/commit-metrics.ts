import { createCounter, createHistogram, type Metric } from '@slipway/shared/metrics'

const durationBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const sizeBuckets = [1, 2, 5, 10, 20, 50, 100, 200, 500]

/** Metrics of the writer. Each transaction costs three readings of the clock, a change in it nothing. */
export class CommitMetrics {
  readonly events = createCounter(
    'slipway_events_appended_total',
    'Events that were appended to the log, imported ones left out.',
  )
  /**
   * From the first change that waits for a transaction until it is durable: the longest wait of its changes.
   */
  readonly wait = createHistogram(
    'slipway_append_duration_seconds',
    'Time until a group of changes was durable.',
    durationBuckets,
  )
  readonly commit = createHistogram(
    'slipway_commit_duration_seconds',
    'Time of a commit with the sync of the disk.',
    durationBuckets,
  )
  readonly changes = createHistogram('slipway_commit_changes', 'Changes of one commit.', sizeBuckets)
  readonly all: readonly Metric[] = [this.events, this.wait, this.commit, this.changes]
}
