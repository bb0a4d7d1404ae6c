import { hash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { applicationManifestFile } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ApplicationBackends } from './application-backends.ts'
import { currentPlatform } from './artifact.ts'

test.runIf(currentPlatform() !== undefined)(
  'a revision counts as approved where it may be started, and nowhere else',
  async () => {
    using directory = temporaryDirectory()
    const manifest = '{}'
    writeFileSync(join(directory.path, applicationManifestFile), manifest)
    const backend = { secrets: ['MAIL_TOKEN'] }
    const application = { install_path: directory.path, resolved_ref: 'r', manifest: { backend } }
    await using backends = new ApplicationBackends({
      ...{ directory: directory.path, environment: {} },
      find: async () => application as never,
      findSecret: async () => undefined,
    })
    const approval = {
      ...{ revision: 'r', manifest: `sha256:${hash('sha256', manifest)}`, platform: currentPlatform() },
      ...{ artifact_sha256: 's', artifact_dir: 'd', secrets: backend.secrets },
    }
    mkdirSync(join(directory.path, 'approvals'))
    const ask = async (changed: Partial<typeof approval>) => {
      const stored = JSON.stringify({ ...approval, ...changed })
      writeFileSync(join(directory.path, 'approvals/notes.json'), stored, { mode: 0o600 })
      const { revision, prepared_revision } = await backends.status('notes')
      expect(revision).toBe('r')
      const refusal: unknown = await backends.start('notes', 'r').catch((error) => error)
      return [prepared_revision, (refusal as Error).message]
    }
    // Approved, it lacks its secret alone.
    expect(await ask({})).toEqual(['r', 'The secret MAIL_TOKEN is not stored on this server'])
    for (const changed of [
      { revision: 'of another commit' },
      { manifest: 'sha256:of another file' },
      { secrets: [] },
      { platform: 'linux-of-another-machine' as never },
    ])
      expect(await ask(changed)).toEqual([null, 'backend revision must be prepared before start'])
  },
)
