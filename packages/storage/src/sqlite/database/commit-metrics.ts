import { Counter, Histogram, type Metric } from 'prom-client'

const durationBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]

/** Metrics of the writer. Each transaction costs three readings of the clock, a change in it nothing. */
export class CommitMetrics {
  readonly events = new Counter({
    name: 'slipway_events_appended_total',
    help: 'Events that were appended to the log, imported ones left out.',
    registers: [],
  })
  /** From the first change that waits for a transaction until it is durable: the longest wait of its changes. */
  readonly wait = new Histogram({
    name: 'slipway_append_duration_seconds',
    help: 'Time until a group of changes was durable.',
    buckets: durationBuckets,
    registers: [],
  })
  /** The commit alone, with the sync of the disk. */
  readonly commit = new Histogram({
    name: 'slipway_commit_duration_seconds',
    help: 'Time of a commit with the sync of the disk.',
    buckets: durationBuckets,
    registers: [],
  })
  readonly changes = new Histogram({
    name: 'slipway_commit_changes',
    help: 'Changes of one commit.',
    buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500],
    registers: [],
  })
  readonly all: readonly Metric[] = [this.events, this.wait, this.commit, this.changes]
}
