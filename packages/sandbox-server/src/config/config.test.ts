import { expect, test } from 'vitest'
import { readConfig } from './config.ts'

test('without a setting 10 sandboxes of a user may run at a start, on Kubernetes any number', () => {
  const limits = (env: Record<string, string>) => {
    const { maxSandboxes, limitsResumes } = readConfig(env)
    return [maxSandboxes, limitsResumes]
  }
  expect(limits({})).toEqual([10, false])
  expect(limits({ SLIPWAY_BACKEND: 'docker' })).toEqual([10, false])
  for (const backend of ['kubernetes', 'agent-sandbox'])
    expect(limits({ SLIPWAY_BACKEND: backend })).toEqual([0, false])
  expect(limits({ SLIPWAY_MAX_SANDBOXES: '0' })).toEqual([0, true])
  expect(limits({ SLIPWAY_MAX_SANDBOXES: '3' })).toEqual([3, true])
})
