import { test } from 'vitest'
import { backendContract } from '../backend.contract.ts'
import { copyFilesContract } from '../copy-files.contract.ts'
import { pauseAboveContract } from '../pause-above.contract.ts'
import { dockerBackendContract, openDocker, testEngine } from './docker-backend.contract.ts'

const engine = testEngine('SLIPWAY_TEST_PODMAN_SOCKET')
if (engine === undefined) {
  test.skip('podman: SLIPWAY_TEST_PODMAN_SOCKET is not set; `.ci/engines npx vitest run <file>` starts an engine and sets it', () => {})
} else {
  backendContract('podman', () => openDocker(engine))
  copyFilesContract('podman', () => openDocker(engine))
  pauseAboveContract('podman', () => openDocker(engine))
  dockerBackendContract('podman', engine)
}
