import { expect, onTestFinished, test } from 'vitest'
import { type BackendUnderTest, probeScript, runInside, waitAlive, waitForValue } from './backend.contract.ts'
import { FilesError, type SandboxConfig } from './backend.ts'
import { describeTree, makeRandomTree } from './testing/random-tree.ts'

/** A process of its own session with an open file, into which it writes the moment again and again. */
const startWriter = `
const script = "const f = require('node:fs').openSync('stamps', 'a'); setInterval(() => require('node:fs').writeSync(f, Date.now() + '\\\\n'), 3)"
require('node:child_process').spawn(process.execPath, ['-e', script], { detached: true, stdio: 'ignore' }).unref()`

const readStamps = `return require('node:fs').readFileSync('stamps', 'utf8').trim().split('\\n').map(Number)`
const newestStamp = `return Number(require('node:fs').readFileSync('stamps', 'utf8').trim().split('\\n').at(-1))`

/** What `copyFiles` of each backend must keep. `open` makes its own empty place for each test. */
export function copyFilesContract(name: string, open: () => Promise<BackendUnderTest>, minutes = 4): void {
  const promise = (title: string, body: (at: BackendUnderTest) => Promise<void>) =>
    test(`${name}: ${title}`, { timeout: minutes * 60_000 }, async () => {
      const at = await open()
      onTestFinished(() => at.close())
      await body(at)
    })
  const started = async (at: BackendUnderTest, overrides: Partial<SandboxConfig> = {}) => {
    const config = at.createConfig({ command: at.node(probeScript), ...overrides })
    await at.backend.start(config)
    const { epoch } = await waitAlive(at.backend, config.id)
    return { ...config, epoch }
  }
  const requireCopy = ({ backend }: BackendUnderTest) => {
    if (backend.copyFiles === undefined) throw new Error('it does not copy files')
    return backend.copyFiles.bind(backend)
  }

  promise('copied files are equal to those of one moment while their sandbox works', async (at) => {
    const { backend } = at
    const copyFiles = requireCopy(at)
    const [from, to] = [await started(at), await started(at)]
    const seed = Number(process.env.SLIPWAY_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
    console.info(`${name}: SLIPWAY_TEST_SEED=${seed}`)
    expect(await runInside(backend, from.id, makeRandomTree(seed))).toMatchObject({
      result: expect.any(Number),
    })
    const before = await runInside(backend, from.id, describeTree('tree'))
    expect(before.error).toBeUndefined()
    await runInside(backend, to.id, `require('node:fs').writeFileSync('old', 'of the new one')`)
    await runInside(backend, from.id, startWriter)
    await waitForValue(async () => (await runInside(backend, from.id, readStamps)).result, 'a stamp')
    const begunAt = Date.now()
    const { takenAt } = await copyFiles(from.id, to.id, 0)
    const takenMs = takenAt / 1000
    expect(takenMs).toBeGreaterThanOrEqual(begunAt - 1)
    expect(takenMs).toBeLessThanOrEqual(Date.now())
    expect((await waitAlive(backend, from.id)).epoch).toBe(from.epoch)
    expect((await waitAlive(backend, to.id)).epoch).toBe(to.epoch)
    await waitForValue(async () => {
      const { result } = await runInside(backend, from.id, newestStamp)
      return Number(result) > takenMs + 50 ? result : undefined
    }, 'the first one continues')
    expect(await runInside(backend, to.id, describeTree('tree'))).toEqual(before)
    expect(await runInside(backend, from.id, describeTree('tree'))).toEqual(before)
    const all = (await runInside(backend, from.id, readStamps)).result as number[]
    const copied = (await runInside(backend, to.id, readStamps)).result as number[]
    expect(copied).toEqual(all.slice(0, copied.length))
    // One more may have been taken and not yet written.
    const missing = all.filter((each) => each < takenMs).length - copied.length
    expect([0, 1]).toContain(missing)
    const left = await runInside(backend, to.id, `return require('node:fs').readdirSync('.').sort()`)
    expect(left.result).toEqual(['stamps', 'tree'])
  })

  promise('files of a home directory are copied, and those of agent servers are not', async (at) => {
    const { backend } = at
    const copyFiles = requireCopy(at)
    const [from, to] = [await started(at), await started(at)]
    const write = (text: string) => `
const { writeFileSync, mkdirSync } = require('node:fs')
mkdirSync(values.data, { recursive: true })
writeFileSync(process.env.HOME + '/of-home', '${text}')
writeFileSync(values.data + '/of-agent', '${text}')`
    const read = `
const { readFileSync } = require('node:fs')
return [process.env.HOME, values.data].map((folder) => readFileSync(folder + (folder === values.data ? '/of-agent' : '/of-home'), 'utf8'))`
    await runInside(backend, from.id, write('first'))
    await runInside(backend, to.id, write('second'))
    await copyFiles(from.id, to.id, 0)
    expect(await runInside(backend, to.id, read)).toEqual({ result: ['first', 'second'] })
  })

  promise('more than may be copied, and what does not run, is refused', async (at) => {
    const { backend } = at
    const copyFiles = requireCopy(at)
    const [from, to] = [await started(at), await started(at)]
    await runInside(backend, from.id, `require('node:fs').writeFileSync('big', Buffer.alloc(5_000_000, 1))`)
    await expect(copyFiles(from.id, to.id, 1_000_000)).rejects.toThrow(FilesError)
    await expect(copyFiles(from.id, to.id, 1_000_000)).rejects.toThrow(/SLIPWAY_FORK_MAX_MB/)
    await expect(copyFiles('unknown', to.id, 0)).rejects.toThrow(FilesError)
    await expect(copyFiles(from.id, 'unknown', 0)).rejects.toThrow(FilesError)
    expect((await waitAlive(backend, from.id)).epoch).toBe(from.epoch)
    await backend.pause(from.id)
    await expect(copyFiles(from.id, to.id, 0)).rejects.toThrow(FilesError)
  })
}
