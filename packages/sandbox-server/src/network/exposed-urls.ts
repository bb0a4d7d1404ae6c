import type { SandboxInfo } from '@slipway/protocol'
import { isBrowserLoopback } from '@slipway/shared/url'
import type { ObservedSandbox } from '../backends/backend.ts'

export type Expose = 'auto' | 'direct' | 'relay'

export type ExposedUrl = NonNullable<SandboxInfo['exposed_urls']>[number]

/** Names on the wire, with their names in paths of the proxy. */
export const proxyPathNames: Readonly<Record<string, string>> = {
  AGENT_SERVER: 'agent',
  WORKER_1: 'worker_1',
  WORKER_2: 'worker_2',
}

/** Whether callers use ports of this machine. */
export function isDirect(by: { readonly publicUrl: string; readonly expose: Expose }): boolean {
  return by.expose === 'direct' || (by.expose === 'auto' && isBrowserLoopback(new URL(by.publicUrl).hostname))
}

/** Direct URLs if possible (`auto`: callers are on this machine), otherwise through the proxy. */
export function exposedUrls(
  id: string,
  { addresses }: Pick<ObservedSandbox, 'addresses'>,
  { publicUrl, expose }: { readonly publicUrl: string; readonly expose: Expose },
): ExposedUrl[] {
  const base = new URL(publicUrl)
  const usesPorts = isDirect({ publicUrl, expose })
  return Object.entries(proxyPathNames).flatMap(([name, pathName]) => {
    const address = addresses[name]
    if (address === undefined) return []
    const direct = usesPorts ? directUrl(address, base) : undefined
    const url = direct ?? `${base.origin}${base.pathname.replace(/\/+$/, '')}/sandboxes/${id}/${pathName}`
    return [{ name, url, port: urlPort(url) }]
  })
}

/** Callers on other machines use the public host name in place of a loopback address. */
function directUrl(address: string, base: URL): string | undefined {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  if (isBrowserLoopback(url.hostname) && !isBrowserLoopback(base.hostname)) url.hostname = base.hostname
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

function urlPort(text: string): number {
  const { port, protocol } = new URL(text)
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}
