import * as fs from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { loadLibc } from '../process/libc.ts'
import { encodeResult, type FileRequest, type FileResponse } from './protocol.ts'

/** A thread that does files with the rights of another user. Only synchronous functions run on it. */

const { uid, gid }: { readonly uid: number; readonly gid: number } = workerData
const answer = (response: FileResponse) => parentPort?.postMessage(response)
const libc = await loadLibc()
if (libc?.becomeFileUser(uid, gid) === true) {
  parentPort?.on('message', ({ id, name, args }: FileRequest) => {
    try {
      answer({ id, value: encodeResult(call(name, args)) })
    } catch (error) {
      const { message, ...members } = error as Error
      answer({ id, error: { ...members, message } })
    }
  })
  answer({ id: 0 })
} else answer({ id: 0, error: { message: 'files cannot be accessed as another user here' } })

function call(name: string, args: readonly unknown[]): unknown {
  if (name === 'openDirectory') return libc?.openDirectory(String(args[0]))
  if (name === 'realpath') return fs.realpathSync.native(String(args[0]))
  const operation = (fs as unknown as Record<string, (...args: unknown[]) => unknown>)[`${name}Sync`]
  return operation?.(...args)
}
