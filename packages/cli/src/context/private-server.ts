import { exists } from '@slipway/shared/fs'
import type { Secret } from '@slipway/shared/redaction'
import { userDataDirectory } from './contexts.ts'
import { readServerAddress } from './server-address.ts'
import { findSessionKey } from './session-key.ts'

/** The server that sessions share. */
export interface PrivateServer {
  readonly url: string
  readonly key: Secret | undefined
  readonly pid: number
}

/** The running server of this user's sessions; undefined when none runs. */
export async function findPrivateServer(
  env: Readonly<Record<string, string | undefined>>,
): Promise<PrivateServer | undefined> {
  const directory = userDataDirectory(env)
  const address = await readServerAddress(directory)
  return address && { ...address, key: await findSessionKey(address.url, directory) }
}

/** `data` where it is named or there; else the private server's directory where that is there. */
export async function findDataDirectory(
  data: string,
  isNamed: boolean,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  if (isNamed || (await exists(data))) return data
  const ofUser = userDataDirectory(env)
  return (await exists(ofUser)) ? ofUser : data
}
