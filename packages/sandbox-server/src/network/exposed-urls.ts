import type { SandboxEndpoint } from './endpoint.ts'

export type Expose = 'auto' | 'direct' | 'relay'

export interface ExposedUrl {
  readonly name: string
  readonly url: string
  readonly port: number
}

/** Names on the wire, and what stands for them in the path of a relay. */
export const proxyPathNames: Readonly<Record<string, string>> = {
  AGENT_SERVER: 'agent',
  WORKER_1: 'worker_1',
  WORKER_2: 'worker_2',
}

/**
 * Where callers reach a sandbox. Directly where they can: `auto` does so when they reach this server on this machine too.
 * Otherwise through the relay, and what has no port always.
 */
export function exposedUrls(
  id: string,
  { addresses }: SandboxEndpoint,
  { publicUrl, expose }: { readonly publicUrl: string; readonly expose: Expose },
): ExposedUrl[] {
  const base = new URL(publicUrl)
  const isDirect = expose === 'direct' || (expose === 'auto' && isLoopback(base.hostname))
  return Object.entries(proxyPathNames).flatMap(([name, pathName]) => {
    const address = addresses[name]
    if (address === undefined) return []
    const direct = isDirect ? directUrl(address, base) : undefined
    const url = direct ?? `${base.origin}${base.pathname.replace(/\/+$/, '')}/sandboxes/${id}/${pathName}`
    return [{ name, url, port: urlPort(url) }]
  })
}

/** A loopback address means another machine to callers who are elsewhere: they use the name by which they know this one. */
function directUrl(address: string, base: URL): string | undefined {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  if (isLoopback(url.hostname) && !isLoopback(base.hostname)) url.hostname = base.hostname
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

function urlPort(text: string): number {
  const { port, protocol } = new URL(text)
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}

function isLoopback(host: string): boolean {
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    host === '[::1]' ||
    /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)
  )
}
