import { errorText, firstChars } from '@slipway/shared/text'
import { RpcError } from './rpc.ts'

type AcpFailureCode = 'ACPSpawnError' | 'ACPInitError' | 'ACPAuthRequired' | 'ACPPromptError'

/** Why an external agent did not start or did not answer; `code` goes into the ConversationErrorEvent. */
export class AcpError extends Error {
  override readonly name = 'AcpError'
  readonly code: AcpFailureCode

  constructor(code: AcpFailureCode, message: string) {
    super(message)
    this.code = code
  }
}

const authRequired = -32000
const authMarks =
  /\b(401|403)\b|unauthorized|invalid[ _]api[ _]key|invalid x-api-key|authentication required|oauth token|please run \/login|login required/i
const maxDataChars = 2_000

/** What a program has answered, as a failure. Programs report refused keys as internal errors, too. */
export function rpcFailure(error: unknown, code: AcpFailureCode): AcpError {
  if (error instanceof AcpError) return error
  if (!(error instanceof RpcError)) return new AcpError(code, errorText(error))
  const data = error.data === undefined ? '' : firstChars(JSON.stringify(error.data), maxDataChars)
  const detail = `[${error.code}] ${error.message}${data === '' ? '' : `: ${data}`}`
  const isAuth = error.code === authRequired || authMarks.test(detail)
  return new AcpError(isAuth ? 'ACPAuthRequired' : code, detail)
}
