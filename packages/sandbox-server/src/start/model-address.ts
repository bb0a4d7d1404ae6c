import { invalidInput, type Llm, type SandboxSpec } from '@slipway/protocol'
import { isLoopback } from '@slipway/shared/url'
import type { Backend } from '../backends/backend.ts'
import type { SandboxSpecs } from '../sandboxes/state/specs.ts'

/** Throws a Problem when sandboxes of the spec (the default spec when undefined) cannot reach the model. */
export type CheckModelAddress = (specId: string | undefined, model: Llm) => void

/** Providers whose server is on the machine itself when no address is set. */
const defaultAddresses: readonly (readonly [prefix: RegExp, address: string])[] = [
  [/^ollama(?:_chat)?\//, 'http://127.0.0.1:11434/v1'],
]

/**
 * A process sandbox with its own network reaches of this machine's loopback addresses the ports of
 * `host_ports` alone, at 127.0.0.1. A model elsewhere there would fail after all attempts of its requests.
 */
export function createModelAddressCheck(
  specs: Pick<SandboxSpecs, 'find' | 'list'>,
  backends: ReadonlyMap<string, Pick<Backend, 'hostUrl'>>,
): CheckModelAddress {
  return (specId, model) => {
    const spec = specId === undefined ? specs.list()[0] : specs.find(specId)
    const address = loopbackAddress(model)
    if (spec?.backend !== 'process' || address === undefined) return
    const { network = 'private', host_ports } = spec
    const { port, url } = address
    // Without isolation, sandboxes are in the network of the machine whatever their spec says.
    if (backends.get(spec.backend)?.hostUrl(port, network) === `http://127.0.0.1:${port}`) return
    const isReached = network === 'private' && host_ports.includes(port) && !address.isIpv6
    if (!isReached) throw invalidInput(['body', 'llm_model'], refusal(spec, { ...address, url }))
  }
}

function refusal(
  { id, network, host_ports }: SandboxSpec,
  { url, port, isIpv6 }: { readonly url: string; readonly port: number; readonly isIpv6: boolean },
): string {
  const start = `The model is at ${url}, port ${port} of this machine, and sandboxes of the spec "${id}"`
  if (network === 'none') return `${start} have no network. Choose another network (SLIPWAY_SANDBOX_NETWORK).`
  if (isIpv6) return `${start} reach no IPv6 address of it. Name the model's address with 127.0.0.1.`
  const ports = [...new Set([...host_ports, port])].join(',')
  return `${start}, which have their own network, do not reach it. Start the sandbox server with SLIPWAY_SANDBOX_HOST_PORTS=${ports}, or add the port to host_ports of the spec.`
}

function loopbackAddress({ model, base_url }: Llm) {
  const address = base_url || defaultAddresses.find(([prefix]) => prefix.test(model))?.[1]
  if (address === undefined || !URL.canParse(address)) return undefined
  const { hostname, port, protocol, origin } = new URL(address)
  if (!isLoopback(hostname) && hostname !== '0.0.0.0') return undefined
  const usualPort = protocol === 'https:' ? 443 : 80
  return { url: origin, port: port === '' ? usualPort : Number(port), isIpv6: hostname === '[::1]' }
}
