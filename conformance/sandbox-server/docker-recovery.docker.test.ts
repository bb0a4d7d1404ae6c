import { expect, test } from 'vitest'
import { killContainers, testEngine } from '../support/sandbox-server/container-engine.ts'
import {
  beforeAndAfter,
  ClientState,
  crashAtEveryStep,
  expectConsistent,
  writeMarkerFile,
} from '../support/sandbox-server/crash-rounds.ts'
import { lifecycleScenario } from '../support/sandbox-server/crash-scenarios.ts'
import { readControlPlaneId } from '../support/sandbox-server/process-resources.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 1_200_000
const engine = testEngine('SLIPWAY_TEST_DOCKER_SOCKET')

if (engine === undefined) {
  test.skip('docker: SLIPWAY_TEST_DOCKER_SOCKET is not set; `.ci/engines npx vitest run <file>` starts an engine and sets it', () => {})
} else {
  test(
    'a kill around any engine call loses nothing and leaves no container and no volume',
    async () => {
      await using server = await SandboxServer.prepare({ engine })
      const calls = ['start', 'pause', 'resume', 'remove']
      const wanted = beforeAndAfter(...calls)
      const isCall = (step: string) => wanted.includes(step.replace(/^\d+ /, ''))
      await crashAtEveryStep([server], lifecycleScenario, (steps) => steps.filter(isCall), wanted)
    },
    limitMs,
  )

  test(
    'a killed container is ERROR with a reason and never PAUSED, and a resume starts it with its files',
    async () => {
      await using server = await SandboxServer.open({ engine, env: { SLIPWAY_RECONCILE_SECONDS: '1' } })
      const known = new ClientState('victim')
      known.sandbox = await server.startRunningSandbox()
      await writeMarkerFile(known.sandbox, known)
      const { id } = known.sandbox
      for (const isDown of [false, true]) {
        if (isDown) await server.stop('SIGKILL')
        expect(await killContainers(engine, String(readControlPlaneId(server.data)), id)).toBe(1)
        if (isDown) await server.start()
        const dead = await server.waitForStatus(id, 'ERROR', ['PAUSED', 'MISSING'])
        expect(String(dead.status_detail).length).toBeGreaterThan(5)
        expect((await server.requestJson('POST', `/api/v1/sandboxes/${id}/resume`)).status).toBe(200)
        known.sandbox = await server.waitForStatus(id, 'RUNNING', ['PAUSED', 'MISSING'])
        await expectConsistent(server, known.sandbox, known)
      }
    },
    limitMs,
  )
}
