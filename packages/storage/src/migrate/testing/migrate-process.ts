import { writeSync } from 'node:fs'
import { migrate } from '../migrate.ts'

/** A process for tests: migrates, and prints a line for each step. */
const [, , from = '', to = ''] = process.argv
await migrate({ from, to, onProgress: ({ events }) => writeSync(1, `${events}\n`) })
