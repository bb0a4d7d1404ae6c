import { expect, test } from 'vitest'
import { readConfig } from '../config/config.ts'
import { unlimitedNotes } from './unlimited-notes.ts'

function notes(env: Readonly<Record<string, string>>): string[] {
  const { specs, maxDiskBytes } = readConfig(env)
  return unlimitedNotes(specs, maxDiskBytes)
}

test('the operator is told which resources no limit keeps a sandbox from taking', () => {
  expect(notes({ SLIPWAY_SANDBOX_MAX_DISK_MB: '0' })).toEqual([
    'process: no limit of CPUs (SLIPWAY_SANDBOX_CPUS), disk (SLIPWAY_SANDBOX_DISK_MB): one sandbox may take all that there is.',
  ])
  const cpus = { SLIPWAY_SANDBOX_CPUS: '1.5' }
  expect(notes({ ...cpus, SLIPWAY_SANDBOX_DISK_MB: '1000', SLIPWAY_SANDBOX_MAX_DISK_MB: '0' })).toEqual([])
  // Watched unless said otherwise; the volumes of a cluster are not.
  expect(notes(cpus)).toEqual([])
  expect(notes({ ...cpus, SLIPWAY_BACKEND: 'docker', SLIPWAY_SANDBOX_IMAGE: 'agent' })).toEqual([])
  const kubernetes = { ...cpus, SLIPWAY_BACKEND: 'kubernetes', SLIPWAY_SANDBOX_IMAGE: 'agent' }
  expect(notes(kubernetes)).toMatchObject([expect.stringContaining('no limit of disk')])
})
