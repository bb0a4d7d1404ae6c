import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { defineForEachEngine, type TestEngine } from '../support/sandbox-server/container-engine.ts'
import { runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { EngineSandboxServer } from '../support/sandbox-server/engine-server.ts'
import type { SandboxInfo } from '../support/sandbox-server/server.ts'
import { createUser } from '../support/sandbox-server/user.ts'

/**
 * What a tenant reaches from inside a container: nothing of this machine's loopback, its files, or another
 * tenant.
 */

const limit = { timeout: 300_000 }

defineForEachEngine((name, engine) => {
  test(`${name}: a tenant reaches neither this machine nor another tenant`, limit, () =>
    attackFromInside(engine),
  )
})

async function attackFromInside(engine: TestEngine): Promise<void> {
  const engineServer = await EngineSandboxServer.open(engine)
  onTestFinished(() => engineServer[Symbol.asyncDispose](), 200_000)
  const { server } = engineServer
  const [ann, bea] = [await createUser(server), await createUser(server)]
  const [attacker, victim] = [await ann.startRunningSandbox(), await bea.startRunningSandbox()]
  const secret = `of-bea-${victim.id}`
  await runInSandbox(victim, `echo ${secret} > ${victim.working_dir}/secret && sync`)

  // A service of this machine that trusts its loopback, as an inspector does, and the server itself.
  const inspector = createServer((socket) => socket.end('inspector'))
  inspector.listen(0, '127.0.0.1')
  await once(inspector, 'listening')
  onTestFinished(() => void inspector.close())
  const address = inspector.address()
  const inspectorPort = typeof address === 'object' ? Number(address?.port) : 0
  const gateway =
    (await runInSandbox(attacker, `getent hosts host.docker.internal || true`)).split(/\s/)[0] ?? ''
  const hosts = ['127.0.0.1', 'localhost', '::1', gateway].filter((host) => host !== '')
  // Its own agent server, so that a connection is known to be noticed.
  expect(await connect(attacker, '127.0.0.1', 8000)).toBe('open')
  for (const host of hosts) {
    expect([host, await connect(attacker, host, inspectorPort)]).toEqual([host, 'closed'])
    if (host !== gateway) expect([host, await connect(attacker, host, server.port)]).toEqual([host, 'closed'])
  }
  // The ports of agent servers are published on this machine's loopback.
  for (const { port } of victim.exposed_urls ?? [])
    for (const host of hosts)
      expect([host, port, await connect(attacker, host, port)]).toEqual([host, port, 'closed'])

  // A link-local address, as that of the metadata service of a cloud, unless a note says that it is reached.
  const { notes } = attacker.isolation as { readonly notes: readonly string[] }
  const linkLocal = '169.254.77.77'
  const isDenied = !notes.some((note) => note.includes('link-local'))
  if (isDenied && spawnSync('ip', ['address', 'add', `${linkLocal}/32`, 'dev', 'lo']).status === 0) {
    onTestFinished(() => void spawnSync('ip', ['address', 'del', `${linkLocal}/32`, 'dev', 'lo']))
    const metadata = createServer((socket) => socket.on('error', () => {}).end('credentials')).listen(
      0,
      linkLocal,
    )
    await once(metadata, 'listening')
    onTestFinished(() => void metadata.close())
    const own = metadata.address()
    const metadataPort = typeof own === 'object' ? Number(own?.port) : 0
    expect(await connect(attacker, linkLocal, metadataPort)).toBe('closed')
  }

  // Where the engine can separate containers, the other's address answers nothing.
  const addresses = (await runInSandbox(victim, 'hostname -i')).trim().split(/\s+/)
  expect(addresses.join()).toMatch(/^\d+\./)
  if (!notes.some((note) => note.includes('reach the ports of each other')))
    for (const host of addresses)
      expect([host, await connect(attacker, host, 8000)]).toEqual([host, 'closed'])

  // Files: neither those of this machine nor of the other; no engine, no devices, no rights.
  const found = await runInSandbox(
    attacker,
    [
      `ls -d ${server.data} ${server.data}/secret.key /var/run/docker.sock /run/podman/podman.sock 2>/dev/null`,
      `grep -rsl ${secret} / --include=secret --exclude-dir=proc --exclude-dir=sys`,
      `find /dev -type b 2>/dev/null`,
      `cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ${secret}`,
      'true',
    ].join('; '),
  )
  expect(found.trim()).toBe('0')
  const status = await runInSandbox(
    attacker,
    'grep -E "^(Cap(Eff|Bnd|Prm)|NoNewPrivs|Uid)" /proc/self/status',
  )
  expect(status).toMatch(/CapPrm:\s+0+\n/)
  expect(status).toMatch(/CapEff:\s+0+\n/)
  expect(status).toMatch(/CapBnd:\s+0+\n/)
  expect(status).toMatch(/NoNewPrivs:\s+1/)
  expect(status).not.toMatch(/Uid:\s+0\s/)
  // The other still works, with what it had.
  expect(await runInSandbox(victim, `cat ${victim.working_dir}/secret`)).toBe(`${secret}\n`)
}

/** Whether something accepts a connection from inside a sandbox. */
async function connect(sandbox: SandboxInfo, host: string, port: number): Promise<string> {
  const attempt = `timeout 3 bash -c 'exec 3<>/dev/tcp/${host}/${port}' 2>/dev/null`
  return (await runInSandbox(sandbox, `${attempt} && echo open || echo closed`)).trim()
}
