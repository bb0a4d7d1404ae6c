import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { fetchText, observe, probeScript, runInside, waitAlive, waitForValue } from '../backend.contract.ts'
import { openKubernetes, skipText, testCluster } from './testing/test-cluster.ts'

const cluster = testCluster()
if (cluster === undefined) test.skip(`kubernetes: ${skipText}`, () => {})
else
  test('a Pod continues soon when the server ends while its files are copied', {
    timeout: 240_000,
  }, async () => {
    const at = await openKubernetes(cluster)
    onTestFinished(() => at.close())
    const { backend, ledgerId, namespace } = at
    const [from, to] = [0, 1].map(() => at.createConfig({ command: at.node(probeScript) }))
    if (from === undefined || to === undefined) throw new Error('two configs')
    for (const config of [from, to]) await backend.start(config)
    for (const { id } of [from, to]) await waitAlive(backend, id)
    const write = `require('node:fs').writeFileSync('big', require('node:crypto').randomBytes(100_000_000))`
    await runInside(backend, from.id, write)
    const address = (await observe(backend, from.id)).addresses.AGENT_SERVER ?? ''
    const isAlive = () =>
      Promise.race([
        fetchText(address, '/alive').then(
          () => true,
          () => false,
        ),
        sleep(500, false),
      ])
    const module = new URL('kubernetes-backend.ts', import.meta.url).href
    const options = {
      ledgerId,
      kubeconfig: namespace.kubeconfig,
      reach: 'pod',
      directory: namespace.directory,
    }
    const copy = `const { KubernetesBackend } = await import(${JSON.stringify(module)})
const backend = new KubernetesBackend({ ...${JSON.stringify(options)}, log() {}, defaultImage: '' })
await backend.copyFiles(${JSON.stringify(from.id)}, ${JSON.stringify(to.id)}, 0)`
    const server = spawn(process.execPath, ['--input-type=module', '-e', copy], { stdio: 'inherit' })
    onTestFinished(() => void server.kill('SIGKILL'))
    await waitForValue(async () => ((await isAlive()) ? undefined : true), 'it is frozen')
    server.kill('SIGKILL')
    const killedAt = Date.now()
    await waitForValue(async () => ((await isAlive()) ? true : undefined), 'it continues')
    expect(Date.now() - killedAt).toBeLessThan(60_000)
  })
