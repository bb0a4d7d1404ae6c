import { expect, test } from 'vitest'
import { readConfig } from '../config/config.ts'
import { unlimitedNotes } from './unlimited-notes.ts'

test('the operator is told which resources no limit keeps a sandbox from taking', () => {
  expect(unlimitedNotes(readConfig({}).specs)).toEqual([
    'process: no limit of CPUs (SLIPWAY_SANDBOX_CPUS), disk (SLIPWAY_SANDBOX_DISK_MB): one sandbox may take all that there is.',
  ])
  const limited = { SLIPWAY_SANDBOX_CPUS: '1.5', SLIPWAY_SANDBOX_DISK_MB: '1000' }
  expect(unlimitedNotes(readConfig(limited).specs)).toEqual([])
})
