import { isIPv6 } from 'node:net'
import { fileReply, type Handlers, type OriginPool } from '@slipway/http'
import {
  type applicationLinkRoutes,
  type applicationListRoutes,
  type applicationRoutes,
  Problem,
  serverFailure,
} from '@slipway/protocol'
import { isBrowserLoopback } from '@slipway/shared/url'
import type { ApplicationBackends } from './application-backends.ts'
import type { InstalledApplications } from './installed-applications.ts'

const iconHeaders = {
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}

/** Installed applications and their programs. */
export function applicationHandlers(options: {
  readonly applications: InstalledApplications
  readonly backends: ApplicationBackends
  readonly origins: OriginPool
}): Handlers<typeof applicationRoutes & typeof applicationLinkRoutes & typeof applicationListRoutes> {
  const { applications, backends, origins } = options
  return {
    async listCanvasExtensions() {
      return { json: { canvas_extensions: await applications.list() } }
    },
    async installCanvasExtension({ body, signal }) {
      return { json: await applications.install(body, signal) }
    },
    async getCanvasExtension({ params }) {
      return { json: await applications.get(params.extension_name) }
    },
    async enableCanvasExtension({ params: { extension_name: name }, body: { enabled } }) {
      await applications.setEnabled(name, enabled)
      if (!enabled) await backends.stop(name)
      return { json: { name, enabled } }
    },
    async uninstallCanvasExtension({ params: { extension_name: name } }) {
      await applications.get(name)
      await backends.stop(name)
      await applications.remove(name)
      return { json: { message: `Canvas extension '${name}' uninstalled` } }
    },
    async getCanvasExtensionBundle({ params, header }) {
      const file = await applications.findFile(params.extension_name, 'entrypoint')
      if (file === undefined) throw new Problem('not_found', 'Canvas extension bundle not found')
      return await fileReply(file, { header, contentType: 'text/javascript; charset=utf-8' })
    },
    async getCanvasExtensionIcon({ params, header }) {
      const file = await applications.findFile(params.extension_name, 'icon')
      if (file === undefined) throw new Problem('not_found', 'Canvas extension icon not found')
      return await fileReply(file, { header, contentType: 'image/svg+xml', headers: iconHeaders })
    },
    async getCanvasExtensionBackend({ params }) {
      return { json: await backends.status(params.extension_name, true) }
    },
    async prepareCanvasExtensionBackend({ params, body, signal }) {
      return { json: await backends.prepare(params.extension_name, body, signal) }
    },
    async startCanvasExtensionBackend({ params, body }) {
      return { json: await backends.start(params.extension_name, body.revision) }
    },
    async stopCanvasExtensionBackend({ params }) {
      return { json: await backends.stop(params.extension_name) }
    },
    getCanvasExtensionBackendLogs({ params: { extension_name: name }, query }) {
      return { json: { name, ...backends.logs(name, query.limit_bytes) } }
    },
    async deleteCanvasExtensionBackendData({ params }) {
      return { json: await backends.deleteData(params.extension_name) }
    },
    async createApplicationLink({ params: { extension_name: name }, header }) {
      if (!isFromThisMachine(header))
        throw new Problem(
          'conflict',
          'An application has its own origin for browsers on the machine of the server only; others reach it at SLIPWAY_APP_BACKEND_URL',
        )
      const program = backends.findReady(name)
      if (program === undefined) throw serverFailure('unavailable', '503: Canvas App backend is not ready')
      const { door, ended } = program
      const origin = await origins.open(program, { label: name, ended, target: () => door })
      const { url, expiresAtMs } = origin.createLink()
      const expires_at = new Date(expiresAtMs).toISOString()
      return { json: { url, expires_at }, headers: { 'cache-control': 'no-store' } }
    },
  }
}

/**
 * Whether the browser is on the machine of the server. Some proxies name the server by its own address: the
 * page has that of the proxy, and headers of the proxy may have its name and the address of the browser.
 */
function isFromThisMachine(header: (name: string) => string | undefined): boolean {
  const list = (name: string) => (header(name) ?? '').split(',').map((value) => value.trim())
  const hosts = [header('host') ?? '', ...list('x-forwarded-host').filter(Boolean)]
  const addresses = list('x-forwarded-for').filter(Boolean)
  const places = [...hosts, ...addresses.map(hostOfAddress)].map((host) => `http://${host}`)
  return [...places, header('origin') || 'http://localhost'].every(leadsToThisMachine)
}

/** `::ffff:127.0.0.1` -> `127.0.0.1`, `::1` -> `[::1]`; some proxies add a port. */
function hostOfAddress(address: string): string {
  const unmapped = address.replace(/^::ffff:(?=[\d.]+$)/i, '')
  return isIPv6(unmapped) ? `[${unmapped}]` : unmapped
}

function leadsToThisMachine(url: string): boolean {
  return isBrowserLoopback(URL.parse(url)?.hostname ?? '')
}
