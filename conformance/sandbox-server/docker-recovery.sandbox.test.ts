import { expect, test } from 'vitest'
import { engineOf, killInEngine } from '../support/sandbox-server/container-engine.ts'
import { agrees, everyStep, Known, pairs, writeFile } from '../support/sandbox-server/crash-rounds.ts'
import { life } from '../support/sandbox-server/crash-scenarios.ts'
import { ledgerOf } from '../support/sandbox-server/process-resources.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 1_200_000
const engine = engineOf('SLIPWAY_TEST_DOCKER_SOCKET')

if (engine === undefined) {
  test.skip('docker: SLIPWAY_TEST_DOCKER_SOCKET is not set; `.ci/engines npx vitest run <file>` starts an engine and sets it', () => {})
} else {
  test(
    'killed around any call of the engine, it loses nothing and leaves no container and no volume behind',
    async () => {
      await using server = await SandboxServer.prepare({ engine })
      const calls = ['start', 'pause', 'resume', 'remove']
      const isCall = (step: string) => pairs(...calls).includes(step.replace(/^\d+ /, ''))
      const seen = await everyStep(server, life, (steps) => steps.filter(isCall))
      expect([...seen]).toEqual(expect.arrayContaining(pairs(...calls)))
    },
    limitMs,
  )

  test(
    'a container that is killed is ERROR with words and never PAUSED, and a resume brings it back with its files',
    async () => {
      await using server = await SandboxServer.open({ engine, env: { SLIPWAY_RECONCILE_SECONDS: '1' } })
      const known = new Known('victim')
      known.box = await server.running()
      await writeFile(known.box, known)
      const { id } = known.box
      for (const isDown of [false, true]) {
        if (isDown) await server.stop('SIGKILL')
        expect(await killInEngine(engine, String(ledgerOf(server.data)), id)).toBe(1)
        if (isDown) await server.start()
        const dead = await server.until(id, 'ERROR', ['PAUSED', 'MISSING'])
        expect(String(dead.status_detail).length).toBeGreaterThan(5)
        expect((await server.call('POST', `/api/v1/sandboxes/${id}/resume`)).status).toBe(200)
        known.box = await server.until(id, 'RUNNING', ['PAUSED', 'MISSING'])
        await agrees(server, known.box, known)
      }
    },
    limitMs,
  )
}
