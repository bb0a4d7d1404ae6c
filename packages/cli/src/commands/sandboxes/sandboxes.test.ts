import type { SandboxInfo } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { sandboxLines } from './sandboxes.ts'

const info: SandboxInfo = {
  ...{
    id: 'sb-1',
    created_by_user_id: 'ann',
    sandbox_spec_id: 'gpu',
    status: 'ERROR',
    working_dir: '/workspace',
  },
  ...{ session_api_key: 'sk-session', exposed_urls: null, created_at: '2026-01-02T03:04:05.678901Z' },
  status_detail: 'It ended with exit code 1:\n\u001b[31mENOSPC',
  status_reason: { code: 'disk_full', message: 'Its disk is full.', next_command: 'df -h' },
  ...{
    isolation: { kind: 'namespaces', enforced: [], notes: [] },
    resources: {},
    archived: false,
    deletes_at: null,
  },
  ...{ paused_after_idle_seconds: null, paused_after_seconds: null, deleted_after_paused_seconds: null },
}

test('a sandbox that does not run is shown with the cause, the next command and no key', () => {
  expect(sandboxLines(info).split('\n')).toEqual([
    'Sandbox:      sb-1',
    'Status:       ERROR',
    'Why:          Its disk is full.',
    'Next:         df -h',
    'Detail:       It ended with exit code 1:',
    expect.stringMatching(/^ {14}.*ENOSPC$/),
    'Spec:         gpu',
    'Isolation:    namespaces',
    'Created:      2026-01-02 03:04:05',
    'Folder:       /workspace',
  ])
  expect(sandboxLines(info)).not.toContain('\u001b')
})

test('one that runs is shown with its addresses', () => {
  const exposed_urls = [{ name: 'AGENT_SERVER', url: 'http://127.0.0.1:4711', port: 4711 }]
  const shown = sandboxLines({
    ...info,
    status: 'RUNNING',
    status_detail: null,
    status_reason: null,
    exposed_urls,
  })
  expect(shown).toContain('AGENT_SERVER: http://127.0.0.1:4711')
  expect(shown).not.toMatch(/Why|Next|sk-session/)
})
