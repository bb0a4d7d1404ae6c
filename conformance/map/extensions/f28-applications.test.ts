import { expect } from 'vitest'
import { endFamily, missing } from '../frame.ts'
import { openMapServer } from '../map-server.ts'

const map = openMapServer()
const base = '/api/canvas-extensions'
const none = 'installed applications with a bundle and a program of their own'
const install = (source: string) => map.requestStatus('POST', `${base}/install`, { body: { source } })

missing('F28.install-local', 'a directory with a manifest installs, disabled', none, async () => {
  const about = { schema_version: 1, name: 'map-app', display_name: 'Map', version: '1.0.0' }
  const at = `${map.directory}/map-app`
  await map.upload(`${at}/canvas-extension.json`, JSON.stringify({ ...about, entrypoint: 'index.js' }))
  await map.upload(`${at}/index.js`, 'export {}')
  expect(await install(at)).toBe(200)
})
missing('F28.install-errors', 'sources that cannot be fetched are 400', none, async () => {
  expect(await install(`${map.directory}/nothing`)).toBe(400)
})
missing('F28.unknown-name', 'unknown names are 404, names of another form 422', none, async () => {
  expect(await map.requestStatus('GET', `${base}/installed/map-none`)).toBe(404)
  expect(await map.requestStatus('GET', `${base}/installed/Map_None`)).toBe(422)
})
missing('F28.backend-status', 'the program of an unknown application is missing, not 404', none, async () => {
  const found = await map.requestOrThrow('GET', `${base}/installed/map-none/backend`)
  expect(found).toMatchObject({ state: 'missing' })
})
missing('F28.install-git', 'a repository installs with its commit', none)
missing('F28.install-ref', 'a ref pins the commit', none)
missing('F28.install-repo-path', 'a path of a repository installs', none)
missing('F28.bundle', 'the bundle is served byte for byte', none)
missing('F28.icon', 'the icon is served in a sandbox', none)
missing('F28.enable-disable', 'the flag is stored', none)
missing('F28.list-discovery', 'the list adopts directories', none)
missing('F28.broken-install', 'a damaged application stays listed', none)
missing('F28.backend-approval-gate', 'a program starts only after its revision was approved', none)
missing('F28.backend-prepare', 'approval checks the checksum and unpacks read-only', none)
missing('F28.backend-start', 'a prepared program runs with little environment', none)
missing('F28.backend-stop', 'a stop ends the whole group', none)
missing('F28.force-reinstall', 'force replaces the files and takes the approval back', none)
missing('F28.backend-logs', 'output of a program, bounded', none)
missing('F28.ts-client', 'the client of the package', none)
missing('F28.backend-start-fails', 'a program that is not healthy ends', none)
missing('F28.backend-inherit-environment', 'only allowed variables are inherited', none)
missing('F28.disable-stops-backend', 'a disabled application stops', none)
missing('F28.restart-persistence', 'installs and approvals survive a restart', none)
missing('F28.uninstall', 'an uninstall stops the program and keeps its data', none)
missing('F28.prepare-corrupt-archive', 'an archive that is none is 409', none)
missing('F28.install-ref-cached', 'an unknown ref is 400, also of a known source', none)
missing('F28.status-probe-latch', 'a slow answer is no lasting fault', none)
missing('F28.status-exit-hang', 'a dead program with a living child answers at once', none)
missing('F28.hard-restart-orphan', 'programs do not outlive a killed server', none)

endFamily('F28', 29)
