import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Client, VersionNegotiationOptions } from '@modelcontextprotocol/client'
import ownPackage from '../../../package.json' with { type: 'json' }

interface CreateClientOptions {
  /** The directory that a program on this machine is told to work in. */
  readonly root: string | undefined
  readonly versionNegotiation: VersionNegotiationOptions
}

/** A client that is not connected yet, with all that it answers to servers. */
export async function createClient({ root, versionNegotiation }: CreateClientOptions): Promise<Client> {
  const { Client } = await import('@modelcontextprotocol/client')
  const capabilities = root === undefined ? {} : { roots: {} }
  const client = new Client(
    { name: 'slipway', version: ownPackage.version },
    { capabilities, versionNegotiation },
  )
  if (root !== undefined) {
    const roots = [{ uri: pathToFileURL(root).href, name: basename(root) }]
    client.setRequestHandler('roots/list', () => ({ roots }))
  }
  // Errors outside of requests, such as an invalid line, are ignored.
  client.onerror = () => {}
  return client
}
