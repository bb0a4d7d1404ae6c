import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'
import { expect, onTestFinished, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive, waitForValue } from '../backend.contract.ts'
import { openDocker, type TestEngine, testEngine } from './docker-backend.contract.ts'
import { Engine } from './engine.ts'

const testedEngine = testEngine('SLIPWAY_TEST_DOCKER_SOCKET')

/** A Docker engine that may be ended and started again: the tests' one is used by others at the same time. */
async function openDockerDaemon({ socketPath, image }: TestEngine) {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-dockerd-'))
  const own = { socketPath: join(directory, 'docker.sock'), image }
  let daemon: ChildProcess | undefined
  const isOver = () => daemon === undefined || daemon.exitCode !== null || daemon.signalCode !== null
  // Right after one that was killed the next one may find its things in use and end: whoever minds it starts
  // it again.
  const start = async () => {
    const engine = new Engine(own.socketPath)
    await waitForValue(async () => {
      if (isOver()) daemon = spawn('dockerd', daemonArguments(directory, own.socketPath), { stdio: 'ignore' })
      return engine.callOrThrow('GET', '/_ping').catch(() => undefined)
    }, 'dockerd answers')
  }
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    if (daemon === undefined || isOver()) return
    const ended = once(daemon, 'exit')
    daemon.kill(signal)
    await ended
  }
  onTestFinished(async () => {
    // One that was killed leaves its containers to the next one, which ends them in an orderly way.
    if (daemon?.signalCode === 'SIGKILL') await start()
    await stop('SIGTERM')
    // One that was killed once leaves its data mounted.
    for (const line of (await readFile('/proc/self/mounts', 'utf8')).split('\n')) {
      const place = line.split(' ')[1]
      if (place?.startsWith(`${directory}/`)) await once(spawn('umount', ['-l', place]), 'exit')
    }
    await rm(directory, { recursive: true, force: true })
  })
  await start()
  const from = new Docker({ host: '', protocol: 'http', socketPath })
  const to = new Docker({ host: '', protocol: 'http', socketPath: own.socketPath })
  const loading = await to.loadImage(await from.getImage(image).get())
  await new Promise<void>((resolve, reject) => {
    to.modem.followProgress(loading, (error) => (error ? reject(error) : resolve()))
  })
  return { own, start, stop }
}

/** Without its own rules in the host's firewall, which are the other one's. */
const daemonArguments = (directory: string, socketPath: string) => [
  ...['-H', `unix://${socketPath}`],
  ...['--data-root', join(directory, 'data'), '--exec-root', join(directory, 'run')],
  ...['--pidfile', join(directory, 'pid'), '--bridge', 'none', '--iptables=false', '--ip6tables=false'],
  ...['--default-address-pool', 'base=10.213.0.0/16,size=24', '--default-ulimit', 'nofile=4096:20000'],
]

if (testedEngine === undefined) {
  test.skip('restart: SLIPWAY_TEST_DOCKER_SOCKET is not set; `.ci/engines npx vitest run <file>` starts an engine and sets it', () => {})
} else {
  test('what ran or was paused when the engine was restarted starts again on its files', {
    timeout: 300_000,
  }, async () => {
    const engine = await openDockerDaemon(testedEngine)
    const at = await openDocker(engine.own)
    onTestFinished(() => at.close())
    const orders = ['one', 'two'].map((id) => at.createConfig({ id, command: at.node(probeScript) }))
    for (const order of orders) {
      await at.backend.start(order)
      await waitAlive(at.backend, order.id)
      await runInside(at.backend, order.id, `require('node:fs').writeFileSync('stored', '${order.id}')`)
    }
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await at.backend.pause('two')
      const before = await Promise.all(orders.map(({ id }) => observe(at.backend, id)))
      expect(before).toMatchObject([{ state: 'running' }, { state: 'paused' }])

      await engine.stop(signal)
      await expect(at.backend.list()).rejects.toThrow(`${engine.own.socketPath} is not reachable`)
      await expect(at.backend.resume(at.createConfig())).rejects.toThrow('is not reachable')
      await engine.start()

      const after = await Promise.all(orders.map(({ id }) => observe(at.backend, id)))
      expect(after).toMatchObject([
        { state: 'stopped', addresses: {} },
        { state: 'stopped', addresses: {} },
      ])
      for (const [index, order] of orders.entries()) {
        await at.backend.resume(order)
        const again = await waitAlive(at.backend, order.id)
        expect(again.epoch).not.toBe(before[index]?.epoch)
        const read = await runInside(
          at.backend,
          order.id,
          "return require('node:fs').readFileSync('stored', 'utf8')",
        )
        expect(read).toEqual({ result: order.id })
      }
    }
  })
}
